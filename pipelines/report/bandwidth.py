"""Bandwidth: who sends what, how much of it is records, and what each rule's variants change."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import duckdb

from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.reading import by_recording
from kip_replay.pipelines.page.values import Row, RuleFigures
from kip_replay.pipelines.page.view import Bar, Bars

#: Clients, and kinds of requests, with a bar of their own: those with the most bytes.
MOST_BARS = 8
#: APIs named whose sizes are not known.
MOST_NAMES = 3
_UNIT = "B/s"
_RECORDS, _OVERHEAD = "records", "besides records"

#: By recording: seconds, and requests whose size is not known by API, the most first.
_LOGS = """
    WITH apis AS (
        SELECT recording, api_name, min(epoch_us(received_at)) AS first_us,
            max(epoch_us(completed_at)) AS last_us, count(*) AS requests,
            count(*) FILTER (request_bytes IS NULL OR has_response AND response_bytes IS NULL)
                AS unknown
        FROM requests GROUP BY recording, api_name)
    SELECT recording, (max(last_us) - min(first_us)) / 1e6 AS span_s, sum(requests) AS requests,
        sum(unknown) AS unknown, coalesce(list(api_name ORDER BY unknown DESC, api_name)
            FILTER (unknown > 0), []) AS unknown_apis
    FROM apis GROUP BY recording"""
#: Bytes by client, in requests and in responses.
_CLIENTS = """
    SELECT recording, coalesce(client_id, 'no client id') AS name,
        coalesce(sum(request_bytes), 0) AS first, coalesce(sum(response_bytes), 0) AS second
    FROM requests GROUP BY ALL"""
#: Bytes both ways by kind of request, of records and besides; FETCHes by who sends them.
_KINDS = """
    WITH sizes AS (
        SELECT recording,
            'FETCH of ' || CASE WHEN is_cluster_metadata THEN 'the metadata log'
                WHEN replica_id >= 0 THEN 'followers' ELSE 'consumers' END AS name,
            request_bytes, response_bytes, CASE WHEN response_bytes IS NOT NULL THEN
                list_sum([each.record_bytes FOR each IN response_partitions]) END AS record_bytes
        FROM fetches
        UNION ALL
        SELECT recording, 'PRODUCE', request_bytes, response_bytes,
            CASE WHEN request_bytes IS NOT NULL THEN
                list_sum([each.record_bytes FOR each IN partitions]) END
        FROM produces
        UNION ALL
        SELECT recording, api_name, request_bytes, response_bytes, 0
        FROM requests WHERE api_name NOT IN ('FETCH', 'PRODUCE'))
    SELECT recording, name, coalesce(sum(record_bytes), 0) AS first,
        coalesce(sum(request_bytes), 0) + coalesce(sum(response_bytes), 0) - first AS second
    FROM sizes GROUP BY recording, name"""


def _biggest(query: str) -> str:
    """The rows of most bytes in each recording, in order; all ``others``, counted, as one."""
    return f"""
        WITH found AS ({query}),
        ranked AS (
            SELECT *, row_number() OVER (
                PARTITION BY recording ORDER BY first + second DESC, name) AS place
            FROM found WHERE first + second > 0)
        SELECT recording, least(place, {MOST_BARS + 1}) AS place,
            min(name) FILTER (place <= {MOST_BARS}) AS name, count(*) AS others,
            sum(first)::BIGINT AS first, sum(second)::BIGINT AS second
        FROM ranked GROUP BY ALL ORDER BY recording, place"""


@dataclass(frozen=True)
class Bandwidth:
    """Bytes of a whole recording by client and by kind of request; rows of this module's queries.

    ``unknown``: how many of all ``requests`` have no known size and count no bytes, of which APIs.
    """

    span_s: float
    requests: int
    unknown: int
    unknown_apis: Sequence[str]
    clients: Sequence[Row]
    kinds: Sequence[Row]

    @property
    def pictures(self) -> list[Bars]:
        """Who sends what, and how much of what is sent are records; nothing without a size."""
        if self.span_s <= 0 or not self.kinds:
            return []
        whole = note = "over the whole log"
        if self.unknown:
            of = f"{words.number(self.unknown)} of {words.count(self.requests, 'request')}"
            apis, more = self.unknown_apis[:MOST_NAMES], len(self.unknown_apis) - MOST_NAMES
            named = [*apis, f"{words.number(more)} others"] if more > 0 else apis
            note += f"; the sizes of {of} are not known ({words.joined(named)})"
        both = "requests", "responses"
        return [
            self._bars("Who sends what", whole, self.clients, both, "client"),
            self._bars("What is sent", note, self.kinds, (_RECORDS, _OVERHEAD), "kind"),
        ]

    def _bars(
        self, name: str, note: str, rows: Sequence[Row], parts: tuple[str, str], one: str
    ) -> Bars:
        bars = []
        for row in rows:
            named = row["name"] or words.count(row["others"], f"other {one}")
            sizes = (row["first"] / self.span_s, row["second"] / self.span_s)
            bars.append(Bar(words.visible(named), "other", [*zip(parts, sizes, strict=True)]))
        return Bars(name, note, _described(bars), _UNIT, bars)


def bandwidths(database: duckdb.DuckDBPyConnection) -> dict[str, Bandwidth]:
    """By recording; of each at most ``MOST_BARS`` rows and one more."""
    clients, kinds = (by_recording(database, _biggest(query)) for query in (_CLIENTS, _KINDS))
    return {
        name: Bandwidth(span_s, n, unknown, of, clients.get(name, ()), kinds.get(name, ()))
        for name, span_s, n, unknown, of in database.execute(_LOGS).fetchall()
    }


def variants(every: Iterable[RuleFigures]) -> list[Bars]:
    """What each rule's variants send in the steady phase, of rules that simulate FETCHes.

    ``every``: the figures of each rule in one recording.
    """
    found = []
    for figures in every:
        bars = []
        for variant in words.in_order(v for v, _, at in figures.traffic if at is None):
            rates = figures.rates(variant)
            if rates.bytes is not None and rates.overhead is not None:
                parts = [(_RECORDS, rates.bytes - rates.overhead), (_OVERHEAD, rates.overhead)]
                name, style = words.variant_name(variant), words.variant_class(variant)
                bars.append(Bar(name, style, parts))
        if bars:
            name = figures.NAME.replace("_", " ")
            note = "FETCHes and responses in the steady phase"
            found.append(Bars(f"Bytes by variant, {name}", note, _described(bars), _UNIT, bars))
    return found


def _described(bars: Iterable[Bar]) -> str:
    texts = [
        f"{bar.name}: " + ", ".join(f"{words.size(size)}/s {part}" for part, size in bar.parts)
        for bar in bars
    ]
    return "; ".join(texts) + "."

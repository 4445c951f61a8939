"""Charts what happens over time: a rule's figures, and the cluster's events.

Everything is read from views (``analysis.views.create_views``) in the buckets of ``time_buckets``,
so a line has at most 240 points however long the log is.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import duckdb

from kip_replay.pipelines.report import words
from kip_replay.pipelines.report.marks import Chart, Line, Mark, Spec

#: Figures of latencies. Of fewer values, the 90th percentile says what the median does.
PERCENTILES = {"median": "max(p50_ms)", "90 %": "if(max(outcomes) >= 10, max(p90_ms), NULL)"}
#: Marks of a chart; more are merged over longer times.
_MOST = 100
#: Nodes that a mark names.
_NAMED = 6
#: By kind in ``cluster_events``: the kind of its mark, what is counted of several, and the words.
_KINDS = {
    "metadata_leader": ("election", "election", "{count} of the metadata log’s leader: {nodes}"),
    "partition_leader": ("election", "election", "{count} of partition leaders: {nodes}"),
    "isr_shrink": ("isr", "partition", "ISR of {count} shrank: without {nodes}"),
    "isr_expansion": ("isr", "partition", "ISR of {count} grew: with {nodes}"),
    "broker_started": ("restart", "broker", "{brokers} started"),
    "broker_fenced": ("fenced", "broker", "{brokers} fenced"),
    "broker_unfenced": ("fenced", "broker", "{brokers} no longer fenced"),
    "controlled_shutdown": ("fenced", "broker", "{brokers} shut down"),
    "session_lost": (
        "eviction",
        "FETCH",
        "{count} found no session on {nodes}: evicted, or a restart",
    ),
    "config_change": ("config", "config change", "{count}: {first}, …"),
    "log_gap": ("gap", "gap", "{count} in the logs of {nodes}"),
}


class _Events(NamedTuple):
    """Events of a kind in one bucket; ``at`` and ``what`` are those of the first."""

    kind: str
    at: float
    number: int
    nodes: Sequence[int]
    what: str


def marks(database: duckdb.DuckDBPyConnection, recording: str, bucket_s: int) -> list[Mark]:
    """Returns what happened to a recording's cluster, by time; at most a hundred marks.

    ``bucket_s``: of its ``time_buckets``. Every chart has them, so a session finds them once.
    """
    database.execute(_EVENTS)
    rows = database.execute(
        "SELECT kind, event_at, number, nodes, what FROM marked_events "
        "WHERE recording = ? ORDER BY event_at, kind",
        [recording],
    ).fetchall()
    found = [_Events(*row) for row in rows]
    width_s = bucket_s
    while len(found) > _MOST:
        width_s *= 2
        found = _merged(found, width_s)
    return [Mark(one.at, _KINDS.get(one.kind, (one.kind,))[0], _text(one)) for one in found]


def _merged(events: Iterable[_Events], width_s: int) -> list[_Events]:
    together: Mapping[tuple[str, int], list[_Events]] = defaultdict(list)
    for one in events:
        together[one.kind, int(one.at // width_s)].append(one)
    merged = []
    for of in together.values():
        number, nodes = sum(one.number for one in of), {node for one in of for node in one.nodes}
        merged.append(of[0]._replace(number=number, nodes=sorted(nodes)))
    return sorted(merged, key=lambda one: (one.at, one.kind))


def _text(one: _Events) -> str:
    first = words.visible(one.what)
    if one.kind not in _KINDS or (one.number == 1 and len(one.nodes) < 2):
        return first
    _, noun, text = _KINDS[one.kind]
    named = [str(node) for node in one.nodes[:_NAMED]]
    if more := len(one.nodes) - len(named):
        named.append(f"{more} more")
    nodes = words.joined(named) if named else "none"
    brokers = f"broker{'s' * (len(one.nodes) > 1)} {nodes}"
    count = words.count(one.number, noun, "FETCHes" if noun == "FETCH" else None)
    return text.format(count=count, nodes=nodes, brokers=brokers, first=first)


#: A partition whose ISR loses two replicas is one.
_EVENTS = """
CREATE TEMP TABLE IF NOT EXISTS marked_events AS
SELECT recording, kind, epoch_us(min(event_at)) / 1e6 AS event_at,
  if(kind IN ('isr_shrink', 'isr_expansion'), count(DISTINCT subject), count(*)) AS number,
  coalesce(list_sort(list(DISTINCT node_id) FILTER (node_id IS NOT NULL)), []) AS nodes,
  min_by(what, (event_at, what)) AS what
FROM cluster_events JOIN time_buckets USING (recording) WHERE event_at >= first_at
GROUP BY recording, kind, epoch_us(event_at) // (bucket_s * 1000000)
"""


#: Empty buckets that a line of latencies goes over: nothing happened in them. Longer is a gap.
_BRIDGED = 3


class Buckets(NamedTuple):
    """The buckets of a recording: where the first and the last begin, in seconds since 1970."""

    width_s: int
    first: int
    last: int

    @property
    def begins(self) -> range:
        return range(self.first, self.last + 1, self.width_s)

    def middle(self, begin: int) -> float:
        return begin + self.width_s / 2


#: A line by what it is of: its value in each bucket, None where that is not known.
_Series = Mapping[int, float | None]


def timelines(
    database: duckdb.DuckDBPyConnection,
    specs: Iterable[Spec],
    recording: str,
    variants: Collection[str],
) -> list[Chart]:
    """The charts of a recording that have a point, all with the cluster's events.

    A specification: ``name``, ``note``, a ``view`` and ``where``; ``figures``: by name, SQL that
    sums up the rows of a variant and a bucket; ``is_rate``: nothing in a bucket is zero, where of
    latencies it is no point; ``y``: of what it is a rate, if not of bytes. Lines are those of
    ``variants``.
    """
    if (buckets := _buckets(database, recording)) is None:
        return []
    found = [(spec, _lines(database, spec, recording, buckets, variants)) for spec in specs]
    if not any(lines for _, lines in found):
        return []
    events = marks(database, recording, buckets.width_s)
    return [_chart(spec, lines, events, buckets) for spec, lines in found if lines]


def _buckets(database: duckdb.DuckDBPyConnection, recording: str) -> Buckets | None:
    row = database.execute(
        "SELECT bucket_s, epoch_us(first_at) // 1000000, epoch_us(last_at) // 1000000 "
        "FROM time_buckets WHERE recording = ?",
        [recording],
    ).fetchone()
    return Buckets(*row) if row else None


def _lines(
    database: duckdb.DuckDBPyConnection,
    spec: Spec,
    recording: str,
    buckets: Buckets,
    variants: Collection[str],
) -> list[Line]:
    """A line for each variant and figure; of further figures those that half of its points have."""
    figures, is_rate = spec.get("figures", PERCENTILES), spec.get("is_rate", False)
    rows = database.execute(
        f"SELECT variant, epoch_us(bucket_at) // 1000000, {', '.join(figures.values())} "
        f"FROM {spec['view']} WHERE recording = ? AND bucket_at IS NOT NULL "
        f"AND {spec.get('where', 'true')} GROUP BY variant, bucket_at",
        [recording],
    ).fetchall()
    found: dict[tuple[str, str], dict[int, float | None]] = defaultdict(dict)
    for variant, begin, *values in rows:
        for figure, value in zip(figures, values, strict=True):
            found[variant, figure][begin] = value
    lines = []
    for variant in words.in_order({variant for variant, _ in found} & {*variants}):
        most = 0
        for figure in figures:
            points = found[variant, figure]
            known = sum(value is not None for value in points.values())
            most = max(most, known)
            if known and 2 * known >= most:
                name = ", ".join(part for part in (words.variant_name(variant), figure) if part)
                style = words.variant_class(variant)
                lines.append(_line(name, style, points, buckets, is_rate))
    return lines


def _line(name: str, style: str, points: _Series, buckets: Buckets, is_rate: bool) -> Line:
    if is_rate:
        full = [(begin, points.get(begin, 0.0)) for begin in buckets.begins]
    else:
        full, empty = [], 0
        for begin in buckets.begins:
            empty = 0 if begin in points else empty + 1
            if not empty or empty == _BRIDGED + 1:
                full.append((begin, points.get(begin)))
    return Line(name, style, [buckets.middle(begin) for begin, _ in full], [y for _, y in full])


def _chart(spec: Spec, lines: Sequence[Line], events: Sequence[Mark], buckets: Buckets) -> Chart:
    is_latency = not spec.get("is_rate", False)
    width = f"a point is {words.seconds(buckets.width_s).replace('.0', '')}"
    if any(line.name.endswith("90 %") for line in lines):
        width += ", 90 % of 10 values or more"
    rate = words.number if "y" in spec else words.size
    wording = words.milliseconds if is_latency else lambda value: f"{rate(value)}/s"
    described = "; ".join(f"{line.name}: {_ends(line, wording)}" for line in lines)
    described += f". {words.count(len(events), 'event')} of the cluster."
    y_name, scale = ("ms", "log") if is_latency else (spec.get("y", "bytes a second"), "number")
    note = f"{spec['note']}; {width}"
    return Chart(spec["name"], note, described, "UTC", y_name, lines, events, "time", scale)


def _ends(line: Line, wording: Any) -> str:
    values = [value for value in line.y if value is not None]
    return f"{wording(min(values))} to {wording(max(values))}" if values else "not known"

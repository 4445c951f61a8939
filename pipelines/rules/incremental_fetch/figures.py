"""incremental_fetch in the report: partitions and bytes that FETCHes carry, and session slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kip_replay.pipelines.report.reading import counted
from kip_replay.pipelines.report.values import Doubt, Row, Rows, doubts, in_sweep, of
from kip_replay.replay.outcomes import RECORDED, Verdict
from kip_replay.replay.rules import INCREMENTAL, INCREMENTAL_FETCH, SESSION_SLOTS, ClientKind

RULE = INCREMENTAL_FETCH.name
CURVES = ()
FOLLOWER, CONSUMER = ClientKind.FOLLOWER.value, ClientKind.CONSUMER.value
WITHOUT_SESSIONS = ClientKind.CONSUMER_WITHOUT_SESSIONS.value
KINDS = (FOLLOWER, CONSUMER, WITHOUT_SESSIONS)
EVENTS = ("created", "refused", "evicted", "closed")


@dataclass(frozen=True)
class SessionTraffic:
    """FETCHes of topic partitions in the steady phase, both ways, summed over brokers."""

    fetches: int = 0
    answers: int = 0
    request_partitions: int = 0
    response_partitions: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    record_bytes: int = 0
    unknown_sizes: int = 0
    span_s: float = 0.0

    def __add__(self, other: SessionTraffic) -> SessionTraffic:
        return SessionTraffic(
            self.fetches + other.fetches,
            self.answers + other.answers,
            self.request_partitions + other.request_partitions,
            self.response_partitions + other.response_partitions,
            self.request_bytes + other.request_bytes,
            self.response_bytes + other.response_bytes,
            self.record_bytes + other.record_bytes,
            self.unknown_sizes + other.unknown_sizes,
            max(self.span_s, other.span_s),
        )

    @property
    def request_partitions_mean(self) -> float | None:
        """Partitions that a FETCH lists; None without FETCHes."""
        return self.request_partitions / self.fetches if self.fetches else None

    @property
    def response_partitions_mean(self) -> float | None:
        """Partitions that an answer lists; None without answers."""
        return self.response_partitions / self.answers if self.answers else None

    @property
    def fetches_per_second(self) -> float | None:
        """FETCHes / span; None without a span."""
        return self._a_second(self.fetches)

    @property
    def bytes_per_second(self) -> float | None:
        """All bytes both ways / span; None without a span."""
        return self._a_second(self.request_bytes + self.response_bytes)

    @property
    def request_bytes_per_second(self) -> float | None:
        """Bytes of requests / span; None without a span."""
        return self._a_second(self.request_bytes)

    @property
    def answer_overhead_per_second(self) -> float | None:
        """Bytes of answers that are no records / span; None without a span."""
        return self._a_second(self.response_bytes - self.record_bytes)

    @property
    def overhead_per_second(self) -> float | None:
        """Bytes both ways that are no records / span; None without a span."""
        return self._a_second(self.request_bytes + self.response_bytes - self.record_bytes)

    def _a_second(self, amount: int) -> float | None:
        return amount / self.span_s if self.span_s > 0 else None


@dataclass(frozen=True)
class SlotsPoint:
    """Sessions with so many slots for them on each broker: traffic by kind of client, events."""

    slots: int
    traffic: Mapping[str, SessionTraffic]
    events: Mapping[str, int]

    @property
    def total(self) -> SessionTraffic:
        """Over all kinds of clients."""
        return sum(self.traffic.values(), SessionTraffic())


@dataclass(frozen=True)
class IncrementalFetch:
    """All that is said of one recording; empty where its logs have no FETCH of topic partitions.

    ``figures``: traffic by variant and kind of client. ``equal`` of ``compared`` recorded
    incremental FETCHes come out the same, lists and bytes.
    """

    uses_sessions: bool = False
    fetches: int = 0
    figures: Mapping[str, Mapping[str, SessionTraffic]] = field(default_factory=dict)
    events: Mapping[str, int] = field(default_factory=dict)
    sweep: tuple[SlotsPoint, ...] = ()
    equal: int = 0
    compared: int = 0
    unknown: Mapping[str, int] = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()

    def of(self, variant: str, kind: str | None = None) -> SessionTraffic | None:
        """Traffic of a variant, of one kind of client or of all; None where there is none."""
        found = self.figures.get(variant, {})
        if kind is not None:
            return found.get(kind)
        return sum(found.values(), SessionTraffic()) if found else None

    @property
    def kinds(self) -> list[str]:
        """Kinds of clients that fetched, followers first."""
        seen = {kind for found in self.figures.values() for kind in found}
        return [*(kind for kind in KINDS if kind in seen), *sorted(seen - {*KINDS})]

    @property
    def lead_kind(self) -> str | None:
        """Whose partitions the headlines are about: followers, else the first kind there is."""
        return self.kinds[0] if self.kinds else None


# --- reading -------------------------------------------------------------------------------------


def queries() -> Mapping[str, str]:
    """The queries besides the summary tables."""
    return {
        "verdicts": counted(
            "fetch_session_outcomes",
            "'fetches'",
            {
                "incremental": "NOT is_full",
                "equal": "equals_recorded",
                "compared": "equals_recorded IS NOT NULL",
            },
        ),
        "events": """
            SELECT recording, variant, parameter, parameter_value, event, count(*) AS n
            FROM fetch_session_evictions GROUP BY ALL""",
    }


# --- rows to values ------------------------------------------------------------------------------


def from_rows(rows: Rows) -> IncrementalFetch:
    """The values of one recording."""
    recorded = of(rows["verdicts"], variant=RECORDED)
    derived = of(rows["verdicts"], variant=INCREMENTAL)
    return IncrementalFetch(
        uses_sessions=any(row["incremental"] for row in recorded),
        fetches=sum(row["n"] for row in recorded),
        figures=_figures(of(rows["bandwidth"], parameter="none")),
        events=_counts(of(rows["events"], parameter="none")),
        sweep=_sweep(rows),
        equal=sum(row["equal"] for row in derived),
        compared=sum(row["compared"] for row in derived),
        unknown=_unknown(rows["verdicts"]),
        doubts=doubts(rows["verdicts"]),
    )


def _figures(traffic: Sequence[Row]) -> dict[str, dict[str, SessionTraffic]]:
    variants = sorted({row["variant"] for row in traffic})
    return {variant: _by_kind(of(traffic, variant=variant)) for variant in variants}


def _by_kind(rows: Sequence[Row]) -> dict[str, SessionTraffic]:
    found: dict[str, SessionTraffic] = {}
    for row in rows:
        found[row["client_kind"]] = found.get(row["client_kind"], SessionTraffic()) + _part(row)
    return dict(sorted(found.items()))


def _part(row: Row) -> SessionTraffic:
    sizes = {
        "record_bytes": row["record_bytes"] or 0,
        "unknown_sizes": row["unknown_size_requests"],
        "span_s": row["span_s"],
    }
    if row["direction"] == "request":
        return SessionTraffic(
            fetches=row["requests"],
            request_partitions=row["partitions"] or 0,
            request_bytes=row["bytes"],
            **sizes,
        )
    return SessionTraffic(
        answers=row["requests"],
        response_partitions=row["partitions"] or 0,
        response_bytes=row["bytes"],
        **sizes,
    )


def _counts(rows: Sequence[Row]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in rows:
        found[row["event"]] = found.get(row["event"], 0) + row["n"]
    return dict(sorted(found.items()))


def _sweep(rows: Rows) -> tuple[SlotsPoint, ...]:
    traffic = in_sweep(of(rows["bandwidth"], variant=INCREMENTAL), SESSION_SLOTS)
    events = in_sweep(of(rows["events"], variant=INCREMENTAL), SESSION_SLOTS)
    return tuple(
        SlotsPoint(slots, _by_kind(traffic.get(slots, [])), _counts(events.get(slots, [])))
        for slots in sorted({*traffic, *events})
    )


def _unknown(rows: Sequence[Row]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in of(rows, verdict=Verdict.UNKNOWN.value):
        found[row["variant"]] = found.get(row["variant"], 0) + row["n"]
    return dict(sorted(found.items()))

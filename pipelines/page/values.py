"""What the tables hold of one rule in one recording."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, ClassVar, NamedTuple, TypeAlias, TypeVar

import numpy as np

from kip_replay.pipelines.analysis.intervals import (
    Drawn,
    Error,
    Figures,
    Interval,
    errors,
    is_enough,
)
from kip_replay.replay.outcomes import Verdict

#: A row of a query; its columns by name.
Row: TypeAlias = Mapping[str, Any]
#: A value of a sweep; None without one.
At: TypeAlias = int | None
T = TypeVar("T")


@dataclass(frozen=True)
class Percentiles:
    """Percentiles in ms; ``unknown`` values count as the slowest."""

    count: int
    unknown: int
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None
    #: Of p50, p90 and p99, where there is enough data; headlines only.
    intervals: Mapping[str, Interval | None] = field(default_factory=dict)

    @property
    def values(self) -> int:
        return self.count + self.unknown


@dataclass(frozen=True)
class Curve:
    """An empirical distribution: (ms, share of all values up to it), rising, at most 200 points.

    ``start_ms`` is the smallest value. Where values are unknown the shares end below 1.
    """

    start_ms: float
    points: tuple[tuple[float, float], ...]


class Rates(NamedTuple):
    """FETCHes and bytes a second; ``overhead`` is what is no records."""

    fetches: float | None = None
    bytes: float | None = None
    request_bytes: float | None = None
    response_overhead: float | None = None
    overhead: float | None = None


@dataclass(frozen=True)
class Traffic:
    """FETCHes in the steady phase, both ways, summed over nodes."""

    fetches: int = 0
    responses: int = 0
    request_partitions: int = 0
    response_partitions: int = 0
    request_bytes: int = 0
    response_bytes: int = 0
    record_bytes: int = 0
    unknown_sizes: int = 0
    span_s: float = 0.0
    #: FETCHes, their partitions, and bytes both ways in each block of the phase.
    per_block: tuple[tuple[int, ...], ...] = ((), (), ())

    def __add__(self, other: "Traffic") -> "Traffic":
        ours, theirs = vars(self), vars(other)
        sums = {name: ours[name] + theirs[name] for name in ours}
        paired = zip(self.per_block, other.per_block, strict=True)
        blocks = tuple(tuple(map(sum, zip_longest(*two, fillvalue=0))) for two in paired)
        span_s = max(self.span_s, other.span_s)
        return Traffic(**(sums | {"span_s": span_s, "per_block": blocks}))

    @property
    def request_partitions_mean(self) -> float | None:
        return self.request_partitions / self.fetches if self.fetches else None

    @property
    def response_partitions_mean(self) -> float | None:
        return self.response_partitions / self.responses if self.responses else None

    @property
    def rates(self) -> Rates:
        """What there is of it a second; none is known without a span."""
        if self.span_s <= 0:
            return Rates()
        overhead = self.response_bytes - self.record_bytes
        request, size = self.request_bytes, self.request_bytes + self.response_bytes
        amounts = self.fetches, size, request, overhead, request + overhead
        return Rates(*(n / self.span_s for n in amounts))

    def drawn(self, amount: str, error: Error) -> Drawn | None:
        """``fetches`` or ``bytes`` a second, or ``partitions`` of a FETCH, as blocks are drawn."""
        amounts = self.blocks(amount)
        by = np.full(len(amounts), self.span_s / max(1, len(amounts)))
        if not is_enough(self.fetches, by > 0, by):
            return None
        of = self.blocks("fetches") if amount == "partitions" else by
        return Drawn.rate([(amounts, of)], by > 0, error)

    def blocks(self, amount: str) -> Figures:
        """``fetches``, their ``partitions`` or ``bytes`` both ways in each block."""
        return np.array(
            self.per_block[("fetches", "partitions", "bytes").index(amount)], np.float64
        )


class Doubt(NamedTuple):
    """Outcomes that were not replayed, and why. ``counts`` by variant."""

    what: str
    verdict: str
    reason: str
    counts: Mapping[str, int]


@dataclass(frozen=True)
class RuleFigures:
    """One rule in one recording; ``at`` is a value of the rule's sweep, None without one.

    ``spreads`` by metric, variant, kind of group, group and at; ``curves`` by metric, variant and
    group; ``traffic`` by variant, kind of client and at; ``rows`` by query of QUERIES.
    """

    #: The rule's name.
    NAME: ClassVar[str]
    #: The parameter that sweeps vary.
    SWEEP: ClassVar[str]
    #: Metrics that latency_curves has, each of one kind of group.
    CURVES: ClassVar[tuple[tuple[str, str], ...]] = ()
    #: Metrics of latency_summary that have intervals, each of one kind of group.
    HEADLINES: ClassVar[tuple[tuple[str, str], ...]] = ()
    #: The metric of prediction_accuracy that shows the error of an amount of traffic.
    TRAFFIC_ERRORS: ClassVar[Mapping[str, str]] = {}
    #: SQL besides the summary tables; "verdicts" is made by ``reading.counted``.
    QUERIES: ClassVar[Mapping[str, str]]

    recording: str
    version: str | None = None
    spreads: Mapping[tuple[str, str, str, str, At], Percentiles] = field(default_factory=dict)
    curves: Mapping[tuple[str, str, str], Curve] = field(default_factory=dict)
    traffic: Mapping[tuple[str, str, At], Traffic] = field(default_factory=dict)
    rows: Mapping[str, list[Row]] = field(default_factory=dict)

    def spread(
        self, metric: str, variant: str, kind: str = "all", group: str = "all", at: At = None
    ) -> Percentiles | None:
        """Percentiles of a metric; None where the tables have none."""
        return self.spreads.get((metric, variant, kind, group, at))

    def total(self, variant: str, kind: str | None = None, at: At = None) -> Traffic | None:
        """Traffic of one kind of client or of all; None where the tables have none."""
        kinds = {client for _, client, _ in self.traffic} if kind is None else {kind}
        found = known(self.traffic.get((variant, client, at)) for client in sorted(kinds))
        return sum(found, Traffic()) if found else None

    def rates(self, variant: str, kind: str | None = None, at: At = None) -> Rates:
        return (self.total(variant, kind, at) or Traffic()).rates

    def traffic_interval(
        self, amount: str, variant: str, kind: str | None = None
    ) -> Interval | None:
        """Of ``fetches`` or ``bytes`` a second, or ``partitions`` of a FETCH (mean)."""
        drawn = self._drawn(amount, variant, kind)
        return drawn and drawn.interval

    def traffic_change(self, amount: str, before: str, after: str) -> Interval | None:
        """By how much fewer ``fetches`` or ``bytes`` a second there are after than before."""
        one, other = (self._drawn(amount, variant) for variant in (before, after))
        return one and other and one.less(other)

    def _drawn(self, amount: str, variant: str, kind: str | None = None) -> Drawn | None:
        total = self.total(variant, kind)
        error = errors(self.NAME).get((variant, self.TRAFFIC_ERRORS.get(amount, "")), Error())
        # Of another cluster's load, errors of traffic say something as a share only.
        return total and total.drawn(amount, Error(relative=error.relative))

    @property
    def swept(self) -> list[int]:
        return sorted({at for *_, at in (*self.spreads, *self.traffic) if isinstance(at, int)})

    @property
    def span_s(self) -> float:
        """Seconds of the steady phase; 0 where there was none."""
        return max((t.span_s for key, t in self.traffic.items() if key[-1] is None), default=0.0)

    def found(self, query: str, **wanted: object) -> list[Row]:
        """The rows of a query whose columns have these values."""
        rows = self.rows.get(query, [])
        return [row for row in rows if all(row[name] == of for name, of in wanted.items())]

    def tally(self, column: str, **wanted: object) -> int:
        return sum(row[column] for row in self.found("verdicts", **wanted))

    def share_unknown_for(self, reasons: Collection[str]) -> float:
        """The share of outcomes that are unknown for these reasons, of the variant with most."""
        every: Counter[str] = Counter()
        unknown: Counter[str] = Counter()
        for row in self.found("verdicts"):
            every[row["variant"]] += row["n"]
            unknown[row["variant"]] += row["n"] if row["reason"] in reasons else 0
        return max((unknown[variant] / n for variant, n in every.items() if n), default=0.0)

    @property
    def doubts(self) -> list[Doubt]:
        """Outcomes that were not replayed, by what they are of, verdict and reason."""
        counts: dict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
        for row in self.found("verdicts"):
            if row["verdict"] != Verdict.REPLAYED.value:
                key = row["what"], row["verdict"], row["reason"] or ""
                counts[key][row["variant"]] += row["n"]
        return [Doubt(*key, dict(sorted(found.items()))) for key, found in sorted(counts.items())]


def both(one: T | None, other: T | None) -> tuple[T, T] | None:
    return None if one is None or other is None else (one, other)


def medians(one: Percentiles | None, other: Percentiles | None) -> tuple[float, float] | None:
    return both(one.p50 if one else None, other.p50 if other else None)


def known(values: Iterable[T | None]) -> list[T]:
    return [value for value in values if value is not None]

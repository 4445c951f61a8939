"""lowest_acked_offset swept: the interval of heartbeats against read-after-write, and its price."""

from kip_replay.pipelines.page import curves, words
from kip_replay.pipelines.page.view import Chart, Line
from kip_replay.pipelines.rules.lowest_acked_offset.figures import (
    INTERVAL,
    READ_AFTER_WRITE,
    Figures,
)
from kip_replay.replay.lowest_acked_offset import LOWEST_ACKED

_SHOWN = ("p50", "p99")
_KNEE = "knee: {} ms"
_MEANING = "below the knee little less for many more heartbeats"


def charts(one: Figures) -> list[Chart]:
    """Read-after-write, and heartbeats a second, by the interval; nothing where none was swept."""
    if not one.swept:
        return []
    found: list[Line] = []
    for variant in words.in_order(one.variants(swept=True)):
        spreads = {at: one.spread(READ_AFTER_WRITE, variant, at=at) for at in one.swept}
        named = words.variant_name(variant), words.variant_class(variant)
        drawn = [line.y for line in found]
        new = curves.lines(*named, spreads, _SHOWN)
        # Of a cluster that ran one of the protocols, what it recorded is that one's.
        found += [line for line in new if line.y not in drawn]
    rates = {at: one.heartbeats_per_second(at) for at in one.swept}
    of_rates = [curves.line("heartbeats", "with", rates)] if any(rates.values()) else []
    if one.interval_ms is not None:
        recorded = {one.interval_ms: one.spread(READ_AFTER_WRITE, LOWEST_ACKED)}
        found += curves.lines("as recorded", "recorded", recorded, _SHOWN)
        rate = {one.interval_ms: one.heartbeats_per_second()}
        of_rates += [curves.line("as recorded", "recorded", rate)] if of_rates else []
    marks = curves.recorded_marks([] if one.interval_ms is None else [one.interval_ms], " ms")
    marks += curves.knee_marks(at_knee := knee(one), _KNEE)
    note = curves.note("by the interval of heartbeats", at_knee, _MEANING)
    price = "Heartbeats a second", "of all brokers, by their interval: the price"
    return [
        *curves.chart("Read-after-write", note, (INTERVAL, "ms"), found, marks, is_log=True),
        *curves.chart(*price, (INTERVAL, "heartbeats/s"), of_rates, marks, is_log=True),
    ]


def knee(one: Figures) -> int | None:
    """The interval that takes most of the median read-after-write away, for few heartbeats."""
    spreads = {at: one.spread(READ_AFTER_WRITE, LOWEST_ACKED, at=at) for at in one.swept}
    medians = {at: curves.percentile(spread, "p50") for at, spread in spreads.items()}
    return curves.knee({at: (one.heartbeats_per_second(at), p50) for at, p50 in medians.items()})

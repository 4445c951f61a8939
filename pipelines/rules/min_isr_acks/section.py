"""min_isr_acks in tables and pictures: how much sooner producers get responses, what is exposed."""

from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter

from kip_replay.pipelines.page import decisions, sections, view, words
from kip_replay.pipelines.page.accuracy import Check
from kip_replay.pipelines.page.decisions import Advice, Decision, Limits, at_least, at_most
from kip_replay.pipelines.page.values import known
from kip_replay.pipelines.page.view import Detail, Head, KeyFigure, Note, Prose, Row, Section, Table
from kip_replay.pipelines.rules.min_isr_acks import figures
from kip_replay.pipelines.rules.min_isr_acks import words as text
from kip_replay.pipelines.rules.min_isr_acks.figures import (
    EXPOSURE,
    LATENCY,
    REACTING,
    VARIANTS,
    Figures,
)
from kip_replay.replay.min_isr_acks import ACKS_MIN_INSYNC_REPLICAS
from kip_replay.replay.outcomes import RECORDED

#: Kafka's error codes of PRODUCE responses.
_ERROR_NAMES = {
    3: "UNKNOWN_TOPIC_OR_PARTITION",
    6: "NOT_LEADER_OR_FOLLOWER",
    7: "REQUEST_TIMED_OUT",
    19: "NOT_ENOUGH_REPLICAS",
    20: "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
    21: "INVALID_REQUIRED_ACKS",
    45: "OUT_OF_ORDER_SEQUENCE_NUMBER",
    46: "DUPLICATE_SEQUENCE_NUMBER",
    47: "INVALID_PRODUCER_EPOCH",
}
_SPREAD, _COLUMNS = ("p50", "p90", "p99"), ("median|gap", "90 %", "99 %")
_WITH_KIP = ("median|gap with", "90 %| with", "99 %| with", "responses|soft", "unknown|soft")
_OVERVIEW = (
    Head(["recording"]),
    Head(["median|gap"], "recorded"),
    Head(_COLUMNS, "acks=all", "gap without"),
    Head(_WITH_KIP, "acks=min.insync.replicas", "gap with"),
    Head([*_COLUMNS, "unknown|soft"], "exposure"),
)


def section(every: Sequence[Figures], checks: Sequence[Check], limits: Limits) -> Section:
    overview = "How long producers wait, and how long records are exposed, ms", _OVERVIEW, _overview
    reported = attrgetter("produced", "waits")
    prose, weighed = Prose.of(Figures.NAME), (partial(decide, limits=limits), rests_on(limits))
    return sections.section(every, checks, prose, overview, _detail, reported, *weighed)


def _overview(one: Figures) -> list[str]:
    assert one.waits is not None
    return [
        *sections.ms_cells(one.spread(REACTING, RECORDED), of=["p50"]),
        *sections.ms_cells(*one.waits, of=_SPREAD),
        words.number(max(wait.values for wait in one.waits)),
        sections.unknown_cell(*one.waits),
        *sections.ms_cells(one.exposure(), of=_SPREAD),
        sections.unknown_cell(one.exposure()),
    ]


def _detail(one: Figures) -> Detail:
    partitions = words.count(one.produced, "partition")
    waited = f"{partitions} of PRODUCEs, {words.number(one.waited)} with acks=all"
    replayed = ". Both are replayed from the followers’ FETCHes in the log."
    note = sections.before_after("acks=all", "acks=min.insync.replicas", replayed)
    blocks = [*_latencies(one), *_leaders(one), *_errors(one)]
    blocks += [Note(sentence) for sentence in known([text.arrivals(one)])]
    facts = known([one.version, waited])
    return Detail(one.recording, facts, text.summary(one), [*_key_figures(one)], note, blocks)


def _key_figures(one: Figures) -> Iterator[KeyFigure]:
    names = ("Median wait", "90th percentile", "99th percentile")
    for name, p in zip(names, _SPREAD, strict=True):
        yield sections.ms_key(name, p, *one.waits or ())
    if exposure := one.exposure():
        yield sections.ms_key("Exposure, 90th percentile", "p90", exposure)


def _latencies(one: Figures) -> Sequence[view.Block]:
    exposed = one.curves.get((EXPOSURE, ACKS_MIN_INSYNC_REPLICAS, "all"))
    lines = [("other", "exposure", exposed, one.exposure())]
    # Drawn last is on top: the recorded dots should lie on acks=all.
    for v in (*VARIANTS[1:], RECORDED):
        curve, spread = one.curves.get((REACTING, v, "all")), one.spread(REACTING, v)
        lines.append((words.variant_class(v), words.variant_name(v), curve, spread))
    reacting = sections.spreads_of(one, REACTING, VARIANTS)
    reacting.append(("exposure", "other", one.exposure()))
    tables = [sections.spread_table("PRODUCEs of producers that react, ms", "values", reacting)]
    as_arrived = sections.spreads_of(one, LATENCY, VARIANTS)
    caption = "As each arrived, per partition, ms"
    tables.append(sections.spread_table(caption, "values", as_arrived))
    of_requests = sections.spreads_of(one, figures.REQUEST_LATENCY, VARIANTS)
    if any(spread for _, _, spread in of_requests):
        caption = "As each arrived, per request (its slowest partition), ms"
        tables.append(sections.spread_table(caption, "values", of_requests))
    axis = "ms from the arrival until the response; exposure: ms after it"
    labels = "Waits", "share of responses after so long"
    return sections.distributions(lines, axis, labels, tables)


def _leaders(one: Figures) -> Iterator[Table]:
    columns = ("median|gap", "90 %")
    lines = [*((REACTING, v) for v in VARIANTS), (EXPOSURE, ACKS_MIN_INSYNC_REPLICAS)]
    rows = []
    for node in one.leaders:
        spreads = (one.spread(metric, v, "node_id", node) for metric, v in lines)
        rows.append(Row(node, sections.ms_cells(*spreads, of=("p50", "p90"))))
    named = [(words.variant_name(v), f"gap {words.variant_class(v)}") for v in VARIANTS]
    heads = [Head(["leader"]), *(Head(columns, *each) for each in named)]
    if len(rows) > 1:
        caption = "By the broker that leads the partition, ms"
        yield Table(caption, [*heads, Head(columns, "exposure")], rows)


def _errors(one: Figures) -> Iterator[Table]:
    counts = {(row["code"], row["variant"]): row["n"] for row in one.found("errors")}
    rows = []
    for code in sorted({code for code, _ in counts}):
        cells = [words.number(counts.get((code, variant), 0)) for variant in VARIANTS]
        rows.append(Row(f"{_ERROR_NAMES.get(code, 'error')} ({code})", cells))
    if rows:
        heads = [Head(["error", *map(words.variant_name, VARIANTS)])]
        yield Table("Errors of PRODUCEs with acks=all, partitions", heads, rows)


_GAIN, _PRICE = "decide_saved_ms_min", "decide_exposure_ms_max"


def rests_on(limits: Limits) -> list[str]:
    least, most = (words.milliseconds(limits[name]) for name in (_GAIN, _PRICE))
    return [
        f"gain: at least {least} less (min_isr_acks.{_GAIN})",
        f"price: exposed for at most {most}, 9 in 10 times (min_isr_acks.{_PRICE})",
    ]


def decide(one: Figures, limits: Limits) -> Decision:
    """Worth having where producers wait long enough less, and records are exposed briefly."""
    gain, at_least_by = None, ""
    if one.waits:
        gain = decisions.of_spreads("median wait of producers", "p50", *one.waits)
    if gain is None and one.waits_at_most:
        gain = decisions.of_spreads("median wait of producers (at most)", "p50", *one.waits_at_most)
        at_least_by = "at least "
    exposure = one.exposure()
    late = exposure.intervals.get("p90") if exposure else None
    advice = decisions.weighed(
        at_least(gain.less_within if gain else None, limits[_GAIN]), at_most(late, limits[_PRICE])
    )
    if gain is None:
        why = decisions.mostly(one)
        reason = f"Of most PRODUCEs it is not known when their responses would come{why}."
        return Decision(Advice.NOT_ENOUGH, reason)
    reason = (
        f"Producers with acks=all would get their responses {at_least_by}{gain.sooner} (median)."
    )
    price = []
    if exposure is not None and exposure.p90 is not None:
        price = [decisions.from_none("exposure, 9 in 10 at most", exposure.p90, late)]
    if advice is Advice.DO:
        advice = Advice.NOTHING_YET
        reason += " It would be worth having; no Kafka release has it."
    elif advice is Advice.DONT:
        is_little = at_least(gain.less_within, limits[_GAIN]) is False
        reason += " That is too little." if is_little else " Records are exposed for too long."
    else:
        reason += f" {decisions.unsure(gain.less_within, late)}"
    return Decision(advice, reason, gain, price)

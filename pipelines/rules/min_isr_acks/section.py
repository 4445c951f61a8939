"""min_isr_acks in tables and pictures: how much sooner producers get responses, what is exposed."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kip_replay.pipelines.report import sections, words
from kip_replay.pipelines.report.accuracy import Check
from kip_replay.pipelines.report.values import known
from kip_replay.pipelines.report.view import Block, Detail, Head, KeyFigure, Row, Section, Table
from kip_replay.pipelines.rules.min_isr_acks.figures import (
    EXPOSURE,
    LATENCY,
    REQUEST_LATENCY,
    VARIANTS,
    Figures,
)
from kip_replay.pipelines.rules.min_isr_acks.words import ABOUT, PROSE, answer, price, summary
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.rules import ACKS_MIN_INSYNC_REPLICAS

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
_SPREAD = ("p50", "p90", "p99")
_COLUMNS = ("median|gap", "90 %", "99 %")


def section(every: Sequence[Figures], checks: Sequence[Check]) -> Section:
    """The rule's section."""
    return sections.section(
        every,
        checks,
        PROSE,
        answer=answer(every),
        price=price(every),
        about=ABOUT,
        reason=_reason,
        weight=lambda one: one.saved,
        overview=_overview,
        detail=_detail,
    )


def _reason(one: Figures) -> str | None:
    if not one.produced:
        return "hold no PRODUCE. PRODUCEs are in the request logs of the brokers."
    if one.waits is None:
        return (
            "hold no PRODUCE with acks=all of which it could be told how long it waited, or would "
            "wait."
        )
    return None


def _overview(telling: Sequence[Figures]) -> Table:
    with_kip = ["median|gap with", "90 %| with", "99 %| with", "answers|soft", "unknown|soft"]
    return Table(
        "How long producers wait, and how long records are exposed, ms",
        [
            Head(["recording"]),
            Head(["median|gap"], "recorded"),
            Head(_COLUMNS, "acks=all", "gap without"),
            Head(with_kip, "acks=min.insync.replicas", "gap with"),
            Head([*_COLUMNS, "unknown|soft"], "exposure"),
        ],
        [_overview_row(one) for one in telling],
    )


def _overview_row(one: Figures) -> Row:
    assert one.waits is not None
    return Row(
        one.recording,
        [
            *sections.ms_cells(one.spread(LATENCY, RECORDED), of=["p50"]),
            *sections.ms_cells(*one.waits, of=_SPREAD),
            words.number(max(wait.values for wait in one.waits)),
            sections.unknown_cell(*one.waits),
            *sections.ms_cells(one.exposure(), of=_SPREAD),
            sections.unknown_cell(one.exposure()),
        ],
    )


def _detail(one: Figures, place: int) -> Detail:
    partitions = words.count(one.produced, "partition")
    waited = f"{partitions} of PRODUCEs, {words.number(one.waited)} with acks=all"
    return Detail(
        name=one.recording,
        facts=known([one.version, waited]),
        summary=summary(one),
        keys=_key_figures(one),
        keys_note=Markup(
            "<span class='without'>acks=all</span> → <span class='with'>acks=min.insync.replicas"
            "</span>. Both are replayed from the followers’ FETCHes in the log."
        ),
        blocks=[*_latencies(one, f"acks-{place}"), *_leaders(one), *_sweep(one), *_errors(one)],
    )


def _key_figures(one: Figures) -> list[KeyFigure]:
    names = ("Median wait", "90th percentile", "99th percentile")
    keys = []
    for name, p in zip(names, _SPREAD, strict=True):
        before, after = (words.short_ms(getattr(wait, p)) for wait in one.waits or ())
        keys.append(KeyFigure(name, before, after, "ms"))
    exposure = one.exposure()
    if exposure is not None:
        late = words.short_ms(exposure.p90)
        keys.append(KeyFigure("Exposure, 90th percentile", None, late, "ms"))
    return keys


def _latencies(one: Figures, name: str) -> list[Block]:
    exposed = ("other", "exposure", one.curves.get((EXPOSURE, ACKS_MIN_INSYNC_REPLICAS, "all")))
    lines = [
        (
            words.variant_class(v),
            # Short enough for the picture.
            words.variant_name(v).removeprefix("acks=").replace("all", "acks=all"),
            one.curves.get((LATENCY, v, "all")),
            one.spread(LATENCY, v),
        )
        # Drawn last is on top: the recorded dots should lie on acks=all.
        for v in (*VARIANTS[1:], RECORDED)
    ]
    spreads, of_requests = (
        [(words.variant_name(v), words.variant_class(v), one.spread(metric, v)) for v in VARIANTS]
        for metric in (LATENCY, REQUEST_LATENCY)
    )
    spreads.append(("exposure", "other", one.exposure()))
    tables = [sections.spread_table("Per partition with acks=all, ms", "values", spreads)]
    if any(spread for _, _, spread in of_requests):
        caption = "Per request (its slowest partition), ms"
        tables.append(sections.spread_table(caption, "values", of_requests))
    return sections.distributions(
        one,
        name,
        [(*exposed, one.exposure()), *lines],
        "ms from the arrival until the answer; exposure: ms after it",
        "How long producers wait",
        ("Waits", "share of answers after so long"),
        tables,
    )


def _leaders(one: Figures) -> list[Block]:
    if len(one.leaders) < 2:
        return []
    columns = ["median|gap", "90 %"]
    lines = [(LATENCY, v) for v in VARIANTS] + [(EXPOSURE, ACKS_MIN_INSYNC_REPLICAS)]
    rows = [
        Row(
            node,
            sections.ms_cells(
                *(one.spread(metric, v, "node_id", node) for metric, v in lines), of=("p50", "p90")
            ),
        )
        for node in one.leaders
    ]
    heads = [
        Head(["leader"]),
        *(Head(columns, words.variant_name(v), f"gap {words.variant_class(v)}") for v in VARIANTS),
        Head(columns, "exposure"),
    ]
    return [Table("By the broker that leads the partition, ms", heads, rows)]


def _sweep(one: Figures) -> list[Block]:
    if not one.swept:
        return []
    rows = []
    for at in (*one.swept, None):
        wait, exposure = one.spread(LATENCY, ACKS_MIN_INSYNC_REPLICAS, at=at), one.exposure(at)
        cells = sections.ms_cells(wait, exposure, of=_SPREAD)
        name = "as configured" if at is None else words.number(at)
        rows.append(Row(name, [*cells, sections.unknown_cell(wait)]))
    return [
        Table(
            "Another min.insync.replicas for every topic: acks=min.insync.replicas, ms",
            [
                Head(["min.insync.replicas"]),
                Head(_COLUMNS, "wait", "gap with"),
                Head(_COLUMNS, "exposure"),
                Head(["unknown|soft gap"]),
            ],
            rows,
        )
    ]


def _errors(one: Figures) -> list[Block]:
    counts = {(row["code"], row["variant"]): row["n"] for row in one.found("errors")}
    if not counts:
        return []
    rows = [
        Row(
            f"{_ERROR_NAMES.get(code, 'error')} ({code})",
            [words.number(counts.get((code, variant), 0)) for variant in VARIANTS],
        )
        for code in sorted({code for code, _ in counts})
    ]
    heads = [Head(["error", *map(words.variant_name, VARIANTS)])]
    return [Table("Errors answered to PRODUCEs with acks=all, partitions", heads, rows)]

"""min_isr_acks in words and pictures: how much sooner producers are answered, and the exposure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from markupsafe import Markup

from kip_replay.pipelines.report import sections, words
from kip_replay.pipelines.report.data import RecordingReport, Report
from kip_replay.pipelines.report.values import Curve, Percentiles
from kip_replay.pipelines.report.view import (
    Beside,
    Block,
    Column,
    Detail,
    Figure,
    Group,
    KeyFigure,
    Row,
    Section,
    Table,
)
from kip_replay.pipelines.rules.min_isr_acks.figures import RULE, VARIANTS, MinIsrAcks
from kip_replay.pipelines.rules.min_isr_acks.words import (
    ABOUT,
    METHOD,
    NOTES,
    SOURCES,
    WORDS,
    answer,
    price,
    said,
    saved,
    waits,
)
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.rules import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS

_NOTHING = "hold no PRODUCE. PRODUCEs are in the request logs of the brokers."
_NO_LATENCY = (
    "hold no PRODUCE with acks=all of which it could be told how long it waited, or would wait."
)
#: Kafka's error codes that a PRODUCE can be answered with.
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


# --- the section ---------------------------------------------------------------------------------


def section(report: Report) -> Section:
    """The rule's section."""
    told = [r for r in report.recordings if _why_silent(r.min_isr_acks) is None]
    ranked = sections.most_telling(told, saved)
    details = (partial(_detail, recording, place) for place, recording in enumerate(ranked))
    doubts = [(r.name, r.min_isr_acks.doubts) for r in report.recordings]
    return Section(
        rule=RULE,
        short="Producers’ waits",
        question="How much sooner could producers be answered?",
        proposal="KIP-926, a draft that is in no Kafka release",
        answer=answer(report),
        price=price(report),
        about=ABOUT,
        table=_overview(told) if told else None,
        notes=NOTES if told else [],
        silent=sections.silent((r, _why_silent(r.min_isr_acks)) for r in report.recordings),
        details=sections.shown(details),
        left_out=[recording.name for recording in ranked[sections.MOST_DETAILS :]],
        sure=sections.sure(report, RULE),
        doubts_said=sections.doubts_said(doubts),
        doubts=sections.doubt_table(
            doubts,
            {"partitions": "partitions of PRODUCEs"},
            "produce_ack_outcomes",
        ),
        method=METHOD,
        words=WORDS,
        sources=SOURCES,
    )


def _why_silent(found: MinIsrAcks) -> str | None:
    if not found.produced:
        return _NOTHING
    return _NO_LATENCY if waits(found) is None else None


def _overview(told: Sequence[RecordingReport]) -> Table:
    spread = [Column("median", "gap"), Column("90 %"), Column("99 %")]
    return Table(
        "How long producers wait, and how long records are exposed, ms",
        [
            Column("recording"),
            Column("median", "gap"),
            *spread,
            *(Column(name, f"{style} with") for name, style in spread),
            Column("answers", "soft"),
            Column("unknown", "soft"),
            *spread,
            Column("unknown", "soft"),
        ],
        [_overview_row(recording) for recording in told],
        [
            Group("", 1),
            Group("recorded", 1, "gap"),
            Group("acks=all", 3, "gap without"),
            Group("acks=min.insync.replicas", 5, "gap with"),
            Group("exposure", 4, "gap"),
        ],
    )


def _overview_row(recording: RecordingReport) -> Row:
    found = recording.min_isr_acks
    latencies = [found.latency.get(ACKS_ALL), found.latency.get(ACKS_MIN_INSYNC_REPLICAS)]
    answers = max(one.count + one.unknown for one in latencies if one)
    return Row(
        recording.name,
        [
            *sections.ms_cells(found.latency.get(RECORDED), "p50"),
            *(cell for one in latencies for cell in sections.ms_cells(one, "p50", "p90", "p99")),
            words.number(answers),
            sections.unknown_cell(*latencies),
            *sections.ms_cells(found.exposure, "p50", "p90", "p99"),
            sections.unknown_cell(found.exposure),
        ],
    )


# --- one recording -------------------------------------------------------------------------------


def _detail(recording: RecordingReport, place: int) -> Detail:
    found = recording.min_isr_acks
    partitions = words.count(found.produced, "partition")
    return Detail(
        name=recording.name,
        facts=sections.facts(
            recording, f"{partitions} of PRODUCEs, {words.number(found.waited)} with acks=all"
        ),
        said=said(found),
        keys=_key_figures(found),
        keys_note=Markup(
            "<span class='without'>acks=all</span> → <span class='with'>acks=min.insync.replicas"
            "</span>. Both are replayed from the followers’ FETCHes in the log."
        ),
        blocks=[
            *_latencies(recording, f"acks-{place}"),
            *_leaders(found),
            *_sweep(found),
            *_errors(found.errors),
        ],
    )


def _key_figures(found: MinIsrAcks) -> list[KeyFigure]:
    pair = waits(found)
    assert pair is not None
    keys = []
    for name, p in (("Median wait", "p50"), ("90th percentile", "p90"), ("99th percentile", "p99")):
        before, after = (words.short_ms(getattr(one, p)) for one in pair)
        keys.append(KeyFigure(name, before, after, "ms"))
    if found.exposure is not None:
        exposed = words.short_ms(found.exposure.p90)
        keys.append(KeyFigure("Exposure, 90th percentile", None, exposed, "ms"))
    return keys


def _latencies(recording: RecordingReport, name: str) -> list[Block]:
    found = recording.min_isr_acks
    present = [variant for variant in VARIANTS if variant in found.latency]
    lines: list[tuple[str, str, Curve | None, Percentiles | None]] = [
        (
            words.variant_class(variant),
            # Short enough for the picture.
            words.variant_name(variant).removeprefix("acks=").replace("all", "acks=all"),
            found.curves.get(variant),
            found.latency[variant],
        )
        # Drawn last is on top: the recorded dots should lie on acks=all.
        for variant in (*(v for v in present if v != RECORDED), RECORDED)
        if variant in present
    ]
    lines.insert(0, ("other", "exposure", found.exposure_curve, found.exposure))
    picture = sections.distribution(
        name,
        recording.name,
        lines,
        "ms from the arrival until the answer; exposure: ms after it",
        "How long producers wait",
    )
    rows = [
        _spread_row(words.variant_name(v), found.latency[v], words.variant_class(v))
        for v in present
    ]
    if found.exposure is not None:
        rows.append(_spread_row("exposure", found.exposure, "other"))
    tables = [_spread_table("Per partition with acks=all, ms", rows)]
    whole = [
        _spread_row(words.variant_name(v), found.request_latency[v], words.variant_class(v))
        for v in VARIANTS
        if v in found.request_latency
    ]
    if whole:
        tables.append(_spread_table("Per request (its slowest partition), ms", whole))
    if picture is None:
        return [*tables]
    return [Beside([Figure("Waits", "share of answers after so long", picture), *tables])]


def _spread_table(caption: str, rows: Sequence[Row]) -> Table:
    names = ("median", "90 %", "99 %", "longest")
    return Table(
        caption,
        [Column(""), *map(Column, names), Column("values", "soft"), Column("unknown", "soft")],
        rows,
    )


def _spread_row(name: str, spread: Percentiles, style: str) -> Row:
    cells = sections.ms_cells(spread, "p50", "p90", "p99", "max")
    counts = [words.number(spread.count), words.number(spread.unknown)]
    return Row(name, [*cells, *counts], f"variant {style}")


def _leaders(found: MinIsrAcks) -> list[Block]:
    if len(found.leaders) < 2:
        return []
    both = [Column("median", "gap"), Column("90 %")]
    return [
        Table(
            "By the broker that leads the partition, ms",
            [Column("leader"), *both * 4],
            [
                Row(
                    str(leader.node_id),
                    [
                        cell
                        for spread in (*(leader.latency.get(v) for v in VARIANTS), leader.exposure)
                        for cell in sections.ms_cells(spread, "p50", "p90")
                    ],
                )
                for leader in found.leaders
            ],
            [
                Group("", 1),
                *(
                    Group(words.variant_name(v), 2, f"gap {words.variant_class(v)}")
                    for v in VARIANTS
                ),
                Group("exposure", 2, "gap"),
            ],
        )
    ]


def _sweep(found: MinIsrAcks) -> list[Block]:
    if not found.sweep:
        return []
    spread = [Column("median", "gap"), Column("90 %"), Column("99 %")]
    points = [
        *((words.number(p.min_insync_replicas), p.latency, p.exposure) for p in found.sweep),
        ("as configured", found.latency.get(ACKS_MIN_INSYNC_REPLICAS), found.exposure),
    ]
    return [
        Table(
            "Another min.insync.replicas for every topic: acks=min.insync.replicas, ms",
            [Column("min.insync.replicas"), *spread * 2, Column("unknown", "soft gap")],
            [
                Row(
                    name,
                    [
                        *sections.ms_cells(latency, "p50", "p90", "p99"),
                        *sections.ms_cells(exposure, "p50", "p90", "p99"),
                        sections.unknown_cell(latency),
                    ],
                )
                for name, latency, exposure in points
            ],
            [Group("", 1), Group("wait", 3, "gap with"), Group("exposure", 3, "gap"), Group("", 1)],
        )
    ]


def _errors(errors: Mapping[str, Mapping[int, int]]) -> list[Block]:
    codes = sorted({code for found in errors.values() for code in found})
    if not codes:
        return []
    return [
        Table(
            "Errors answered to PRODUCEs with acks=all, partitions",
            [Column("error"), *(Column(words.variant_name(variant)) for variant in VARIANTS)],
            [
                Row(
                    f"{_ERROR_NAMES.get(code, 'error')} ({code})",
                    [words.number(errors.get(variant, {}).get(code, 0)) for variant in VARIANTS],
                )
                for code in codes
            ],
        )
    ]

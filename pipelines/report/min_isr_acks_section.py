"""min_isr_acks in words and pictures: how much sooner producers are answered, and the exposure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from markupsafe import Markup

from pipelines.report import sections, words
from pipelines.report.data import RecordingReport, Report
from pipelines.report.min_isr_acks import RULE, VARIANTS, MinIsrAcks
from pipelines.report.sections import bold
from pipelines.report.values import Curve, Percentiles
from pipelines.report.view import (
    Beside,
    Block,
    Column,
    Detail,
    Figure,
    Group,
    KeyFigure,
    Row,
    Section,
    Source,
    Table,
)
from replay.outcomes import RECORDED
from replay.rules import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS

#: With at least this share of the wait left, the change makes no difference worth a headline.
NO_DIFFERENCE = 0.9
_NOTHING = "hold no PRODUCE. PRODUCEs are in the request logs of the brokers."
_NO_LATENCY = (
    "hold no PRODUCE with acks=all in the steady phase of which it could be told how long it "
    "waited, or would wait."
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

_Pair = tuple[Percentiles, Percentiles]


# --- sentences -----------------------------------------------------------------------------------


def _pair(found: MinIsrAcks) -> _Pair | None:
    """How long is waited with acks=all and with acks=min.insync.replicas; None unless both."""
    both = found.latency.get(ACKS_ALL), found.latency.get(ACKS_MIN_INSYNC_REPLICAS)
    return None if both[0] is None or both[1] is None else (both[0], both[1])


def _medians(found: MinIsrAcks) -> tuple[float, float] | None:
    pair = _pair(found)
    if pair is None or pair[0].p50 is None or pair[1].p50 is None:
        return None
    return pair[0].p50, pair[1].p50


def answer(report: Report) -> Markup:
    """How much sooner producers are answered, over all recordings, or where most and least."""
    told = _telling(report)
    if not told:
        return Markup("These logs do not tell how much sooner producers could be answered.")
    if all(_share_left(recording) >= NO_DIFFERENCE for recording in told):
        return Markup(
            "Waiting for fewer replicas changes little here: producers are answered in {}, waiting "
            "for all in {} (median)."
        ).format(*(bold(_waits(told, place)) for place in (1, 0)))
    both = sections.most_and_least(told, _share_left)
    said = Markup(
        "Producers that wait for all in-sync replicas would be answered in {} instead of {} "
        "(median) if they waited for min.insync.replicas only."
    ).format(*(bold(_waits(told if both is None else both[:1], place)) for place in (1, 0)))
    if both is None:
        return said
    return said + sections.whereabouts(both, *(_waits(both[1:], place) for place in (1, 0)))


def _telling(report: Report) -> list[RecordingReport]:
    """Recordings whose medians are known, those with few answers only if there are no others."""
    told = [r for r in report.recordings if _medians(r.min_isr_acks)]
    return sections.enough(told, lambda r: r.min_isr_acks.latency[ACKS_ALL].count)


def _waits(told: Sequence[RecordingReport], place: int) -> str:
    """Median waits with acks=all (0) or with acks=min.insync.replicas (1)."""
    medians = [m for m in (_medians(r.min_isr_acks) for r in told) if m]
    return words.between([m[place] for m in medians])


def _share_left(recording: RecordingReport) -> float:
    medians = _medians(recording.min_isr_acks)
    assert medians is not None
    return medians[1] / medians[0] if medians[0] else 1.0


def _saved(recording: RecordingReport) -> float:
    """Milliseconds off the median; what has none comes last."""
    medians = _medians(recording.min_isr_acks)
    return medians[0] - medians[1] if medians else -1.0


def price(report: Report) -> Markup | None:
    """How long records are exposed at most; None where that is not known."""
    exposed = [recording.min_isr_acks.exposure for recording in _telling(report)]
    late = [one.p90 for one in exposed if one is not None and one.p90 is not None]
    if not late:
        return None
    return Markup(
        "The price: after such an answer it takes up to {} (9 in 10 times) until every in-sync "
        "replica has the records."
    ).format(words.milliseconds(max(late)))


def _said(found: MinIsrAcks) -> Markup:
    pair = _pair(found)
    assert pair is not None
    medians = _medians(found)
    if medians is None:
        unknown = max(one.unknown for one in pair)
        every = max(one.count + one.unknown for one in pair)
        return Markup(
            "The median wait cannot be told: of {} of {} answers it is unknown when they would "
            "come."
        ).format(words.number(unknown), words.number(every))
    before, after = (bold(words.milliseconds(median)) for median in medians)
    if medians[1] >= NO_DIFFERENCE * medians[0]:
        said = Markup(
            "Waiting for min.insync.replicas only changes little here: producers would be answered "
            "in {}, with acks=all in {} (median)."
        ).format(after, before)
    else:
        said = Markup(
            "With acks=min.insync.replicas, producers would be answered in {} instead of {} "
            "(median)."
        ).format(after, before)
    if found.exposure is None or found.exposure.p50 is None:
        return said
    return Markup(
        "{} For {} (median; 9 in 10: at most {}) after that not every in-sync replica has the "
        "records."
    ).format(
        said,
        bold(words.milliseconds(found.exposure.p50)),
        words.milliseconds(found.exposure.p90),
    )


# --- the section ---------------------------------------------------------------------------------


def section(report: Report) -> Section:
    """The rule's section."""
    told = [r for r in report.recordings if _why_silent(r.min_isr_acks) is None]
    ranked = sections.most_telling(told, _saved)
    details = (partial(_detail, recording, place) for place, recording in enumerate(ranked))
    doubts = [(r.name, r.min_isr_acks.doubts) for r in report.recordings]
    return Section(
        rule=RULE,
        short="Producers’ waits",
        question="How much sooner could producers be answered?",
        proposal="KIP-926, a draft that is in no Kafka release",
        answer=answer(report),
        price=price(report),
        about=_ABOUT,
        table=_overview(told) if told else None,
        notes=_NOTES if told else [],
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
        method=_METHOD,
        words=_WORDS,
        sources=_SOURCES,
    )


def _why_silent(found: MinIsrAcks) -> str | None:
    if not found.produced:
        return _NOTHING
    return _NO_LATENCY if _pair(found) is None else None


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
        said=_said(found),
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
    pair = _pair(found)
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


# --- prose ---------------------------------------------------------------------------------------

_ABOUT = Markup(
    "With acks=all a producer is answered once every in-sync replica has its records, so the "
    "slowest follower sets the pace. With acks=min.insync.replicas it would be answered as soon as "
    "that many replicas have them, the leader included: as safe as the topic’s configuration asks "
    "for. Until the other in-sync replicas have the records too, they are exposed: fewer failures "
    "can lose them than with acks=all. Consumers see them no sooner than today."
)
_NOTES = (
    "Per partition of PRODUCEs with acks=all, in the steady phase, from their arrival until the "
    "answer. Recorded: the whole request’s answer. Exposure: from the early answer until the whole "
    "ISR has the records.",
)
_METHOD = (
    Markup(
        "A follower’s FETCH at an offset says that it has all before it. From those FETCHes in the "
        "leader’s log, and from the in-sync replicas and min.insync.replicas over time, the replay "
        "tells when each replica had each batch."
    ),
    Markup(
        "acks=all is replayed too and must come out as recorded; when it was answered, and with "
        "which error, is never read by the replay."
    ),
    Markup(
        "Open loop: a producer that is answered sooner sends sooner, and the log cannot tell how "
        "much more it would send. The rates of PRODUCEs stand beside every comparison of two "
        "recordings."
    ),
    Markup(
        "The KIP leaves open whether replicas outside the ISR count; here only its members do. "
        "Today’s brokers refuse acks=min.insync.replicas with INVALID_REQUIRED_ACKS (21)."
    ),
)
_WORDS = (
    ("ISR", "In-sync replicas: those that the leader waits for with acks=all."),
    ("min.insync.replicas", "How many in-sync replicas a topic asks for at the least."),
    ("Exposure", "How long records that were answered for are not yet on every in-sync replica."),
)
_SOURCES = (
    Source(
        "waits, exposure",
        "latency_summary",
        Markup(
            "metrics <code>produce_latency, produce_request_latency, exposure</code>, of all and "
            "by <code>node_id</code>"
        ),
    ),
    Source(
        "another min.insync.replicas",
        "the same",
        Markup("rows with <code>parameter</code> min_insync_replicas"),
    ),
    Source(
        "errors, not judged",
        "produce_ack_outcomes",
        Markup(
            "<code>recorded_error, acks_all_error, min_isr_error, verdict, reason</code> where "
            "<code>acks</code> is −1"
        ),
    ),
)

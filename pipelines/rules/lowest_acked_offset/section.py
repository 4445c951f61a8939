"""lowest_acked_offset in words and pictures: when a metadata write is everywhere, who knows it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kip_replay.pipelines.report import sections, words
from kip_replay.pipelines.report.data import RecordingReport, Report
from kip_replay.pipelines.report.view import (
    Beside,
    Block,
    Column,
    Detail,
    Figure,
    Group,
    KeyFigure,
    Note,
    Row,
    Section,
    Table,
)
from kip_replay.pipelines.rules.lowest_acked_offset.figures import (
    READ_AFTER_WRITE,
    RULE,
    STALE,
    LowestAckedOffset,
    Visibility,
)
from kip_replay.pipelines.rules.lowest_acked_offset.words import (
    ABOUT,
    METHOD,
    NOTES,
    SOURCES,
    WORDS,
    answer,
    as_clients_saw,
    interval_sentence,
    price,
    said,
    stale_window,
)
from kip_replay.replay.rules import FINEST_EVIDENCE, LOWEST_ACKED

_NOTHING = "hold no metadata write. Those are in the request logs of the controllers."
_NOT_TOLD = (
    "hold metadata writes, but none in the steady phase of which it could be told when every "
    "broker had it."
)


# --- the section ---------------------------------------------------------------------------------


def section(report: Report) -> Section:
    """The rule's section."""
    told = [r for r in report.recordings if _why_silent(r.lowest_acked_offset) is None]
    ranked = sections.most_telling(told, lambda r: r.lowest_acked_offset.writes)
    details = (partial(_detail, recording, place) for place, recording in enumerate(ranked))
    doubts = [(r.name, r.lowest_acked_offset.doubts) for r in report.recordings]
    return Section(
        rule=RULE,
        short="Changes everywhere",
        question="When does every broker show a metadata change?",
        proposal="The draft of LowestAcknowledgedOffset in heartbeats, in no Kafka release",
        answer=answer(report),
        price=price(report),
        about=ABOUT,
        table=_overview(told) if told else None,
        notes=NOTES if told else [],
        silent=sections.silent((r, _why_silent(r.lowest_acked_offset)) for r in report.recordings),
        details=sections.shown(details),
        left_out=[recording.name for recording in ranked[sections.MOST_DETAILS :]],
        sure=sections.sure(report, RULE) + as_clients_saw(report),
        doubts_said=sections.doubts_said(doubts),
        doubts=sections.doubt_table(
            doubts,
            {"writes": "metadata writes"},
            "metadata_write_outcomes",
        ),
        method=METHOD,
        words=WORDS,
        sources=SOURCES,
    )


def _why_silent(found: LowestAckedOffset) -> str | None:
    if not found.writes:
        return _NOTHING
    headline = found.headline
    return _NOT_TOLD if headline.stale is None and headline.read_after_write is None else None


def _overview(told: Sequence[RecordingReport]) -> Table:
    spread = [Column("median", "gap"), Column("90 %")]
    return Table(
        "How late a metadata write is applied everywhere, and known to be, ms",
        [
            Column("recording"),
            *spread * 2,
            *(Column(name, f"{style} with") for name, style in spread),
            Column("writes", "soft gap"),
            Column("unknown", "soft"),
        ],
        [_overview_row(recording) for recording in told],
        [
            Group("", 1),
            Group("stale, by finest evidence", 2, "gap without"),
            Group("stale, by heartbeats", 2, "gap without"),
            Group("read-after-write", 2, "gap with"),
            Group("", 2),
        ],
    )


def _overview_row(recording: RecordingReport) -> Row:
    found = recording.lowest_acked_offset
    finest = found.by_variant.get(FINEST_EVIDENCE, Visibility()).stale
    spreads = [finest, found.headline.stale, found.headline.read_after_write]
    return Row(
        recording.name,
        [
            *(cell for one in spreads for cell in sections.ms_cells(one, "p50", "p90")),
            words.number(found.writes),
            sections.unknown_cell(*spreads),
        ],
    )


# --- one recording -------------------------------------------------------------------------------


def _detail(recording: RecordingReport, place: int) -> Detail:
    found = recording.lowest_acked_offset
    intervals = interval_sentence(found)
    return Detail(
        name=recording.name,
        facts=sections.facts(recording, words.count(found.writes, "metadata write")),
        said=said(found),
        keys=_key_figures(found),
        keys_note="The stale window begins with the answer and ends with the finest evidence that "
        "it is over; read-after-write begins with the request.",
        blocks=[
            *_visibility(recording, f"known-{place}"),
            *_by_api(found),
            *_sweep(found),
            *([Note(intervals)] if intervals else []),
        ],
    )


def _key_figures(found: LowestAckedOffset) -> list[KeyFigure]:
    return [
        KeyFigure(f"{name}, {which}", None, words.short_ms(getattr(spread, p)), "ms")
        for name, spread in (
            ("Stale window", stale_window(found)),
            ("Read-after-write", found.headline.read_after_write),
        )
        if spread is not None
        for which, p in (("median", "p50"), ("90 %", "p90"))
    ]


def _visibility(recording: RecordingReport, name: str) -> list[Block]:
    found = recording.lowest_acked_offset
    finest = found.by_variant.get(FINEST_EVIDENCE, Visibility()).stale
    lines = [
        ("other", "stale, finest evidence", found.curves.get((FINEST_EVIDENCE, STALE)), finest),
        ("without", "stale window", found.curves.get((LOWEST_ACKED, STALE)), found.headline.stale),
        (
            "with",
            "read-after-write",
            found.curves.get((LOWEST_ACKED, READ_AFTER_WRITE)),
            found.headline.read_after_write,
        ),
    ]
    picture = sections.distribution(
        name,
        recording.name,
        lines,
        "ms after the answer (stale window) or the request (read-after-write)",
        "How late metadata writes are everywhere",
    )
    tables = [
        _spread_table("Stale window, from the answer, ms", found, "stale"),
        _spread_table("Read-after-write, from the request, ms", found, "read_after_write"),
    ]
    if picture is None:
        return [*tables]
    return [Beside([Figure("Metadata writes", "share after so long", picture), *tables])]


def _spread_table(caption: str, found: LowestAckedOffset, metric: str) -> Table:
    spreads = {
        variant: spread
        for variant in words.in_order(found.by_variant)
        if (spread := getattr(found.by_variant[variant], metric)) is not None
    }
    return Table(
        caption,
        [
            Column(""),
            *map(Column, ("median", "90 %", "99 %", "longest")),
            Column("writes", "soft"),
            Column("unknown", "soft"),
        ],
        [
            Row(
                words.variant_name(variant),
                [
                    *sections.ms_cells(spread, "p50", "p90", "p99", "max"),
                    words.number(spread.count),
                    words.number(spread.unknown),
                ],
                f"variant {words.variant_class(variant)}",
            )
            for variant, spread in spreads.items()
        ],
    )


def _by_api(found: LowestAckedOffset) -> list[Block]:
    if len(found.by_api) < 2:
        return []
    both = [Column("median", "gap"), Column("90 %")]
    return [
        Table(
            "By kind of write, ms",
            [Column("request"), *both * 2, Column("writes", "soft gap"), Column("unknown", "soft")],
            [_api_row(name, of_api) for name, of_api in found.by_api.items()],
            [
                Group("", 1),
                Group("stale window", 2, "gap without"),
                Group("read-after-write", 2, "gap with"),
                Group("", 2),
            ],
        )
    ]


def _api_row(name: str, found: Visibility) -> Row:
    spreads = [found.stale, found.read_after_write]
    known = [one for one in spreads if one]
    return Row(
        name,
        [
            *(cell for one in spreads for cell in sections.ms_cells(one, "p50", "p90")),
            words.number(max(one.count + one.unknown for one in known)),
            sections.unknown_cell(*spreads),
        ],
    )


def _sweep(found: LowestAckedOffset) -> list[Block]:
    if not found.sweep:
        return []
    variants = words.in_order(v for point in found.sweep for v in point.by_variant)
    points = [
        *((f"{words.number(point.interval_ms)} ms", point.by_variant) for point in found.sweep),
        *([("as recorded", found.by_variant)] if {*variants} & {*found.by_variant} else []),
    ]
    both = [Column("median", "gap"), Column("90 %")]
    return [
        Table(
            "Read-after-write in ms if brokers sent a heartbeat every so many ms "
            "(broker.heartbeat.interval.ms)",
            [Column("interval"), *both * len(variants)],
            [
                Row(
                    name,
                    [
                        cell
                        for variant in variants
                        for cell in sections.ms_cells(
                            by_variant.get(variant, Visibility()).read_after_write, "p50", "p90"
                        )
                    ],
                )
                for name, by_variant in points
            ],
            [
                Group("", 1),
                *(
                    Group(words.variant_name(v), 2, f"gap {words.variant_class(v)}")
                    for v in variants
                ),
            ],
        )
    ]

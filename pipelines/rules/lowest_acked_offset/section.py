"""lowest_acked_offset in tables and pictures: when metadata writes are everywhere, who knows it."""

from __future__ import annotations

from collections.abc import Sequence

from kip_replay.pipelines.report import sections, words
from kip_replay.pipelines.report.accuracy import Check
from kip_replay.pipelines.report.values import known
from kip_replay.pipelines.report.view import (
    Block,
    Detail,
    Head,
    KeyFigure,
    Note,
    Row,
    Section,
    Table,
)
from kip_replay.pipelines.rules.lowest_acked_offset.figures import READ_AFTER_WRITE, STALE, Figures
from kip_replay.pipelines.rules.lowest_acked_offset.words import (
    ABOUT,
    PROSE,
    answer,
    as_clients_saw,
    interval_sentence,
    price,
    summary,
)
from kip_replay.replay.rules import FINEST_EVIDENCE, LOWEST_ACKED

_SPREAD = ("p50", "p90")
_COLUMNS = ("median|gap", "90 %")


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
        weight=lambda one: one.writes,
        overview=_overview,
        detail=_detail,
        sure=as_clients_saw(checks),
    )


def _reason(one: Figures) -> str | None:
    if not one.writes:
        return "hold no metadata write. Those are in the request logs of the controllers."
    if one.stale is None and one.read_after_write is None:
        return (
            "hold metadata writes, but none in the steady phase of which it could be told when "
            "every broker had it."
        )
    return None


def _overview(telling: Sequence[Figures]) -> Table:
    return Table(
        "How late a metadata write is applied everywhere, and known to be, ms",
        [
            Head(["recording"]),
            Head(_COLUMNS, "stale, by finest evidence", "gap without"),
            Head(_COLUMNS, "stale, by heartbeats", "gap without"),
            Head(["median|gap with", "90 %| with"], "read-after-write", "gap with"),
            Head(["writes|soft gap", "unknown|soft"]),
        ],
        [_overview_row(one) for one in telling],
    )


def _overview_row(one: Figures) -> Row:
    spreads = [one.finest, one.stale, one.read_after_write]
    cells = sections.ms_cells(*spreads, of=_SPREAD)
    return Row(one.recording, [*cells, words.number(one.writes), sections.unknown_cell(*spreads)])


def _detail(one: Figures, place: int) -> Detail:
    intervals = interval_sentence(one)
    return Detail(
        name=one.recording,
        facts=known([one.version, words.count(one.writes, "metadata write")]),
        summary=summary(one),
        keys=[
            KeyFigure(f"{name}, {which}", None, words.short_ms(getattr(spread, p)), "ms")
            for name, spread in (
                ("Stale window", one.finest or one.stale),
                ("Read-after-write", one.read_after_write),
            )
            if spread is not None
            for which, p in (("median", "p50"), ("90 %", "p90"))
        ],
        keys_note="The stale window begins with the answer and ends with the finest evidence that "
        "it is over; read-after-write begins with the request.",
        blocks=[
            *_visibility(one, f"known-{place}"),
            *_by_api(one),
            *_sweep(one),
            *([Note(intervals)] if intervals else []),
        ],
    )


def _visibility(one: Figures, name: str) -> list[Block]:
    variants = words.in_order(one.variants(swept=False))
    tables = [
        sections.spread_table(
            caption,
            "writes",
            [
                (words.variant_name(v), words.variant_class(v), one.spread(metric, v))
                for v in variants
            ],
        )
        for caption, metric in (
            ("Stale window, from the answer, ms", STALE),
            ("Read-after-write, from the request, ms", READ_AFTER_WRITE),
        )
    ]
    lines = [
        (style, label, one.curves.get((metric, variant, "all")), one.spread(metric, variant))
        for style, label, metric, variant in (
            ("other", "stale, finest evidence", STALE, FINEST_EVIDENCE),
            ("without", "stale window", STALE, LOWEST_ACKED),
            ("with", "read-after-write", READ_AFTER_WRITE, LOWEST_ACKED),
        )
    ]
    return sections.distributions(
        one,
        name,
        lines,
        "ms after the answer (stale window) or the request (read-after-write)",
        "How late metadata writes are everywhere",
        ("Metadata writes", "share after so long"),
        tables,
    )


def _by_api(one: Figures) -> list[Block]:
    if len(one.apis) < 2:
        return []
    rows = []
    for api in one.apis:
        spreads = one.of_api(api)
        writes = words.number(max(spread.values for spread in known(spreads)))
        cells = sections.ms_cells(*spreads, of=_SPREAD)
        rows.append(Row(api, [*cells, writes, sections.unknown_cell(*spreads)]))
    return [
        Table(
            "By kind of write, ms",
            [
                Head(["request"]),
                Head(_COLUMNS, "stale window", "gap without"),
                Head(_COLUMNS, "read-after-write", "gap with"),
                Head(["writes|soft gap", "unknown|soft"]),
            ],
            rows,
        )
    ]


def _sweep(one: Figures) -> list[Block]:
    if not one.swept:
        return []
    variants = words.in_order(one.variants(swept=True))
    ats: list[int | None] = [*one.swept]
    if {*variants} & one.variants(swept=False):
        ats.append(None)
    rows = [
        Row(
            "as recorded" if at is None else f"{words.number(at)} ms",
            sections.ms_cells(
                *(one.spread(READ_AFTER_WRITE, v, at=at) for v in variants), of=_SPREAD
            ),
        )
        for at in ats
    ]
    heads = [
        Head(_COLUMNS, words.variant_name(v), f"gap {words.variant_class(v)}") for v in variants
    ]
    return [
        Table(
            "Read-after-write in ms if brokers sent a heartbeat every so many ms "
            "(broker.heartbeat.interval.ms)",
            [Head(["interval"]), *heads],
            rows,
        )
    ]

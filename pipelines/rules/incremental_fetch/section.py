"""incremental_fetch in words and pictures: what fetch sessions save, and what N slots do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from markupsafe import Markup

from kip_replay.pipelines.report import sections, words
from kip_replay.pipelines.report.data import RecordingReport, Report
from kip_replay.pipelines.report.view import (
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
from kip_replay.pipelines.rules.incremental_fetch.figures import (
    EVENTS,
    RULE,
    WITHOUT_SESSIONS,
    IncrementalFetch,
    SessionTraffic,
)
from kip_replay.pipelines.rules.incremental_fetch.words import (
    ABOUT,
    METHOD,
    NOTES,
    SOURCES,
    WORDS,
    answer,
    as_recorded,
    both_ways,
    in_figures,
    kind_name,
    price,
    saved,
)
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.rules import FULL, INCREMENTAL, INCREMENTAL_DRAFT

_REPLAYED = (FULL, INCREMENTAL, INCREMENTAL_DRAFT)
_VARIANTS = (RECORDED, *_REPLAYED)
_NOTHING = "hold no FETCH of topic partitions. Such FETCHes are in the request logs of the brokers."
_NOT_STEADY = "hold no FETCH of topic partitions in the steady phase that could be replayed."


# --- the section ---------------------------------------------------------------------------------


def section(report: Report) -> Section:
    """The rule's section."""
    told = [r for r in report.recordings if _why_silent(r.incremental_fetch) is None]
    ranked = sections.most_telling(told, saved)
    details = (partial(_detail, recording, place) for place, recording in enumerate(ranked))
    doubts = [(r.name, r.incremental_fetch.doubts) for r in report.recordings]
    return Section(
        rule=RULE,
        short="Fetch sessions",
        question="What do fetch sessions save?",
        proposal="KIP-227, in Kafka since 1.1, and its draft beside it",
        answer=answer(report),
        price=price(report),
        about=ABOUT,
        table=_overview(told) if told else None,
        notes=NOTES if told else [],
        silent=sections.silent((r, _why_silent(r.incremental_fetch)) for r in report.recordings),
        details=sections.shown(details),
        left_out=[recording.name for recording in ranked[sections.MOST_DETAILS :]],
        sure=sections.sure(report, RULE),
        doubts_said=sections.doubts_said(doubts),
        doubts=sections.doubt_table(
            doubts,
            {"fetches": "FETCHes"},
            "fetch_session_outcomes",
        ),
        method=METHOD,
        words=WORDS,
        sources=SOURCES,
    )


def _why_silent(found: IncrementalFetch) -> str | None:
    if not found.fetches:
        return _NOTHING
    return _NOT_STEADY if both_ways(found) is None else None


def _overview(told: Sequence[RecordingReport]) -> Table:
    replayed = [Column("full", "gap"), Column("sessions", "with"), Column("draft")]
    return Table(
        "What a FETCH carries in full, with sessions, and with the draft’s",
        [Column("recording"), Column("of", "left"), *replayed * 3, Column("unknown", "soft gap")],
        [_overview_row(recording) for recording in told],
        [
            Group("", 2),
            Group("partitions in a FETCH", 3, "gap"),
            Group("partitions in its answer", 3, "gap"),
            Group("B/s besides records, all clients", 3, "gap"),
            Group("", 1),
        ],
    )


def _overview_row(recording: RecordingReport) -> Row:
    found = recording.incremental_fetch
    kind = found.lead_kind or ""
    lead = [found.of(variant, kind) for variant in _REPLAYED]
    every = [found.of(variant) for variant in _REPLAYED]
    cells = [_cell(one, "request_partitions_mean", 1) for one in lead]
    cells += [_cell(one, "response_partitions_mean", 1) for one in lead]
    cells += [_cell(one, "overhead_per_second") for one in every]
    unknown = max((found.unknown.get(variant, 0) for variant in _REPLAYED), default=0)
    return Row(recording.name, [kind_name(kind), *cells, words.number(unknown)])


def _cell(traffic: SessionTraffic | None, figure: str, decimals: int = 0) -> str:
    return words.number(getattr(traffic, figure) if traffic else None, decimals)


# --- one recording -------------------------------------------------------------------------------


def _detail(recording: RecordingReport, place: int) -> Detail:
    found = recording.incremental_fetch
    spans = [one.span_s for of_kind in found.figures.values() for one in of_kind.values()]
    ran = "uses fetch sessions" if found.uses_sessions else "uses no fetch session"
    same = as_recorded(found)
    return Detail(
        name=recording.name,
        facts=sections.facts(recording, ran, sections.steady(max(spans, default=0.0))),
        said=in_figures([recording]),
        keys=_key_figures(found),
        keys_note=Markup(
            "<span class='without'>Full FETCHes</span> → <span class='with'>fetch sessions</span>. "
            "Both follow from what changed between the FETCHes that were logged."
        ),
        blocks=[
            _picture(recording, f"session-{place}"),
            *_tables(found),
            *_sweep(found),
            *([Note(same)] if same else []),
        ],
    )


def _key_figures(found: IncrementalFetch) -> list[KeyFigure]:
    pair = both_ways(found)
    kind = found.lead_kind
    lead = [found.of(variant, kind) for variant in (FULL, INCREMENTAL)]
    keys = []
    for name, figure in (
        ("Partitions in a FETCH", "request_partitions_mean"),
        ("Partitions in its answer", "response_partitions_mean"),
    ):
        full, sessions = (_cell(one, figure, 1) for one in lead)
        keys.append(KeyFigure(f"{name}, {kind_name(kind or '')}", full, sessions, ""))
    if pair is not None:
        for name, figure in (
            ("Besides records, all", "overhead_per_second"),
            ("Bytes, all", "bytes_per_second"),
        ):
            sizes = words.two_sizes(*(getattr(one, figure) or 0.0 for one in pair))
            keys.append(KeyFigure(name, *sizes))
    return keys


def _picture(recording: RecordingReport, name: str) -> Figure:
    found = recording.incremental_fetch
    parts = {}
    # The longest bar first: its parts have room for their names.
    for variant in (FULL, INCREMENTAL_DRAFT, INCREMENTAL, RECORDED):
        traffic = found.of(variant)
        if traffic is not None:
            parts[variant] = [
                ("FETCHes", traffic.request_bytes_per_second or 0.0),
                ("answers", traffic.answer_overhead_per_second or 0.0),
            ]
    drawing = sections.bars(name, recording.name, parts, True, "Bytes a second besides records")
    return Figure("Bytes a second besides records", "all clients", drawing)


def _tables(found: IncrementalFetch) -> list[Table]:
    """A table for each kind of client."""
    columns = [
        Column("FETCHes/s"),
        Column("in a FETCH", "gap"),
        Column("in its answer"),
        Column("FETCHes", "gap"),
        Column("answers"),
        Column("all, with records"),
    ]
    groups = [
        Group("", 2),
        Group("partitions", 2, "gap"),
        Group("bytes/s (answers: besides records)", 3, "gap"),
    ]
    return [
        Table(
            kind_name(kind).capitalize(),
            [Column(""), *columns],
            [
                _traffic_row(variant, traffic)
                for variant in _VARIANTS
                if (traffic := found.of(variant, kind)) is not None
            ],
            groups,
        )
        for kind in found.kinds
    ]


def _traffic_row(variant: str, traffic: SessionTraffic) -> Row:
    return Row(
        words.variant_name(variant),
        [
            _cell(traffic, "fetches_per_second", 1),
            _cell(traffic, "request_partitions_mean", 2),
            _cell(traffic, "response_partitions_mean", 2),
            _cell(traffic, "request_bytes_per_second"),
            _cell(traffic, "answer_overhead_per_second"),
            _cell(traffic, "bytes_per_second"),
        ],
        f"variant {words.variant_class(variant)}",
    )


def _sweep(found: IncrementalFetch) -> list[Block]:
    if not found.sweep:
        return []
    kinds = [kind for kind in found.kinds if kind != WITHOUT_SESSIONS]
    enough = found.figures.get(INCREMENTAL, {})
    rows = [
        _sweep_row(words.number(point.slots), point.traffic, point.events, kinds)
        for point in found.sweep
    ]
    rows.append(_sweep_row("enough for all", enough, found.events, kinds))
    return [
        Table(
            "So many slots for sessions on each broker (max.incremental.fetch.session.cache.slots; "
            "fewer than 8 are none)",
            [
                Column("slots"),
                *(Column(kind_name(kind), "gap" if n == 0 else "") for n, kind in enumerate(kinds)),
                Column("FETCHes/s", "gap"),
                Column("B/s besides records"),
                *(Column(name, "gap" if n == 0 else "") for n, name in enumerate(EVENTS)),
            ],
            rows,
            [
                Group("", 1),
                *([Group("partitions in a FETCH", len(kinds), "gap")] if kinds else []),
                Group("all clients", 2, "gap"),
                Group("sessions", len(EVENTS), "gap"),
            ],
        )
    ]


def _sweep_row(
    name: str,
    traffic: Mapping[str, SessionTraffic],
    events: Mapping[str, int],
    kinds: Sequence[str],
) -> Row:
    total = sum(traffic.values(), SessionTraffic())
    return Row(
        name,
        [
            *(_cell(traffic.get(kind), "request_partitions_mean", 1) for kind in kinds),
            _cell(total, "fetches_per_second", 1),
            _cell(total, "overhead_per_second"),
            *(words.number(events.get(event, 0)) for event in EVENTS),
        ],
    )

"""incremental_fetch in tables and pictures: what fetch sessions save, and what N slots do."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kip_replay.pipelines.report import sections, words
from kip_replay.pipelines.report.accuracy import Check
from kip_replay.pipelines.report.values import Traffic, known
from kip_replay.pipelines.report.view import (
    Block,
    Column,
    Detail,
    Figure,
    Head,
    KeyFigure,
    Note,
    Row,
    Section,
    Table,
)
from kip_replay.pipelines.rules.incremental_fetch.figures import EVENTS, WITHOUT_SESSIONS, Figures
from kip_replay.pipelines.rules.incremental_fetch.words import (
    ABOUT,
    PROSE,
    answer,
    as_recorded,
    in_figures,
    kind_name,
    price,
)
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.rules import FULL, INCREMENTAL, INCREMENTAL_DRAFT

_REPLAYED = (FULL, INCREMENTAL, INCREMENTAL_DRAFT)


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
    if not one.fetches:
        return (
            "hold no FETCH of topic partitions. Such FETCHes are in the request logs of the "
            "brokers."
        )
    if one.overheads is None:
        return "hold no FETCH of topic partitions in the steady phase that could be replayed."
    return None


def _overview(telling: Sequence[Figures]) -> Table:
    names = (
        "partitions in a FETCH",
        "partitions in its answer",
        "B/s besides records, all clients",
    )
    return Table(
        "What a FETCH carries in full, with sessions, and with the draft’s",
        [
            Head(["recording", "of|left"]),
            *(Head(["full|gap", "sessions|with", "draft"], name) for name in names),
            Head(["unknown|soft gap"]),
        ],
        [_overview_row(one) for one in telling],
    )


def _overview_row(one: Figures) -> Row:
    lead = [one.lead(variant) for variant in _REPLAYED]
    cells = [
        *(_listed(each, "request", 1) for each in lead),
        *(_listed(each, "response", 1) for each in lead),
        *(words.number(one.rates(variant).overhead) for variant in _REPLAYED),
        words.number(max(map(one.unknown, _REPLAYED))),
    ]
    return Row(one.recording, [kind_name(one.lead_kind or ""), *cells])


def _listed(traffic: Traffic | None, way: str, decimals: int) -> str:
    """Partitions in a request or a response, mean."""
    return words.number(getattr(traffic or Traffic(), f"{way}_partitions_mean"), decimals)


def _detail(one: Figures, place: int) -> Detail:
    ran = "uses fetch sessions" if one.uses_sessions else "uses no fetch session"
    same = as_recorded(one)
    return Detail(
        name=one.recording,
        facts=known([one.version, ran, sections.steady(one)]),
        summary=in_figures([one]),
        keys=_key_figures(one),
        keys_note=Markup(
            "<span class='without'>Full FETCHes</span> → <span class='with'>fetch sessions</span>. "
            "Both follow from what changed between the FETCHes that were logged."
        ),
        blocks=[
            _picture(one, f"session-{place}"),
            *(_table(one, kind) for kind in one.kinds),
            *_sweep(one),
            *([Note(same)] if same else []),
        ],
    )


def _key_figures(one: Figures) -> list[KeyFigure]:
    keys = []
    for name, way in (
        ("Partitions in a FETCH", "request"),
        ("Partitions in its answer", "response"),
    ):
        full, with_sessions = (_listed(one.lead(v), way, 1) for v in (FULL, INCREMENTAL))
        keys.append(KeyFigure(f"{name}, {kind_name(one.lead_kind or '')}", full, with_sessions, ""))
    for name, figure in (("Besides records, all", "overhead"), ("Bytes, all", "bytes")):
        sizes = (getattr(one.rates(v), figure) or 0.0 for v in (FULL, INCREMENTAL))
        keys.append(KeyFigure(name, *words.two_sizes(*sizes)))
    return keys


def _picture(one: Figures, name: str) -> Figure:
    title = "Bytes a second besides records"
    parts = {
        variant: [
            ("FETCHes", traffic.rates.request_bytes or 0.0),
            ("answers", traffic.rates.response_overhead or 0.0),
        ]
        # The longest bar first: its parts have room for their names.
        for variant in (FULL, INCREMENTAL_DRAFT, INCREMENTAL, RECORDED)
        if (traffic := one.total(variant))
    }
    return Figure(title, "all clients", sections.bars(one, name, parts, title, of_bytes=True))


def _table(one: Figures, kind: str) -> Table:
    return Table(
        kind_name(kind).capitalize(),
        [
            Head(["", "FETCHes/s"]),
            Head(["in a FETCH|gap", "in its answer"], "partitions"),
            Head(
                ["FETCHes|gap", "answers", "all, with records"],
                "bytes/s (answers: besides records)",
            ),
        ],
        [
            Row(
                words.variant_name(variant),
                [
                    words.number(traffic.rates.fetches, 1),
                    _listed(traffic, "request", 2),
                    _listed(traffic, "response", 2),
                    words.number(traffic.rates.request_bytes),
                    words.number(traffic.rates.response_overhead),
                    words.number(traffic.rates.bytes),
                ],
                f"variant {words.variant_class(variant)}",
            )
            for variant in (RECORDED, *_REPLAYED)
            if (traffic := one.total(variant, kind))
        ],
    )


def _sweep(one: Figures) -> list[Block]:
    if not one.swept:
        return []
    kinds = [kind for kind in one.kinds if kind != WITHOUT_SESSIONS]
    of_kinds = [Column(kind_name(k), "" if place else "gap") for place, k in enumerate(kinds)]
    heads = [
        Head(["slots"]),
        *([Head(of_kinds, "partitions in a FETCH")] if kinds else []),
        Head(["FETCHes/s|gap", "B/s besides records"], "all clients"),
        Head([f"{EVENTS[0]}|gap", *EVENTS[1:]], "sessions"),
    ]
    rows = [_sweep_row(one, words.number(slots), slots, kinds) for slots in one.swept]
    return [
        Table(
            "So many slots for sessions on each broker (max.incremental.fetch.session.cache.slots; "
            "fewer than 8 are none)",
            heads,
            [*rows, _sweep_row(one, "enough for all", None, kinds)],
        )
    ]


def _sweep_row(one: Figures, name: str, at: int | None, kinds: Sequence[str]) -> Row:
    rates = one.rates(INCREMENTAL, at=at)
    events = one.events(at)
    return Row(
        name,
        [
            *(_listed(one.total(INCREMENTAL, kind, at), "request", 1) for kind in kinds),
            words.number(rates.fetches, 1),
            words.number(rates.overhead),
            *(words.number(events.get(event, 0)) for event in EVENTS),
        ],
    )

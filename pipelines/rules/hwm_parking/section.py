"""hwm_parking in tables and pictures: when replicas know of a commit, and what FETCHes cost."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kip_replay.pipelines.report import sections, words
from kip_replay.pipelines.report.accuracy import Check
from kip_replay.pipelines.report.values import known
from kip_replay.pipelines.report.view import (
    Beside,
    Block,
    Detail,
    Figure,
    Head,
    KeyFigure,
    Note,
    Row,
    Section,
    Table,
)
from kip_replay.pipelines.rules.hwm_parking.figures import BROKERS, LAG, VOTERS, Figures
from kip_replay.pipelines.rules.hwm_parking.words import (
    PROSE,
    about,
    answer,
    cost_sentence,
    kind_name,
    lag_sentence,
    price,
    protocol_sentence,
    sources,
    unexplained_sentence,
)
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.rules import WITH_KIP, WITHOUT_KIP

#: In tables: what is measured first, then both replays.
_VARIANTS = (RECORDED, WITHOUT_KIP, WITH_KIP)
_KINDS = (BROKERS, VOTERS)


def section(every: Sequence[Figures], checks: Sequence[Check]) -> Section:
    """The rule's section."""
    return sections.section(
        every,
        checks,
        PROSE,
        answer=answer(every),
        price=price(every),
        about=about(every),
        reason=_reason,
        weight=_changes,
        overview=_overview,
        detail=_detail,
    )


def _reason(one: Figures) -> str | None:
    if not one.responses:
        return (
            "hold no FETCH of the metadata log. Such FETCHes are in the request logs of the "
            "controllers."
        )
    if one.lags is None:
        return "do not tell when a replica learned of a change in the steady phase."
    return None


def _changes(one: Figures) -> int:
    """Changes that the replay tells of, whatever the cluster ran."""
    lag = one.lag(WITH_KIP)
    return lag.count if lag else 0


def _overview(telling: Sequence[Figures]) -> Table:
    names = ("lag, median, ms", "lag, 99 %, ms", "FETCHes/s", "bytes/s")
    return Table(
        "How late replicas learn, and what it costs",
        [
            Head(["recording"]),
            *(Head(["without|gap", "with|with"], name) for name in names),
            Head(["unknown|soft gap"]),
        ],
        [_overview_row(one) for one in telling],
    )


def _overview_row(one: Figures) -> Row:
    assert one.lags is not None
    cells = [cell for p in ("p50", "p99") for cell in sections.ms_cells(*one.lags, of=[p])]
    cells += [words.number(rate, 1) for rate in one.fetches_per_second or (None, None)]
    cells += [words.number(rate) for rate in one.bytes_per_second or (None, None)]
    return Row(one.recording, [*cells, sections.unknown_cell(*one.lags)])


def _detail(one: Figures, place: int) -> Detail:
    return Detail(
        name=one.recording,
        facts=known([one.version, protocol_sentence(one), sections.steady(one)]),
        summary=lag_sentence(one) + cost_sentence(one),
        keys=_key_figures(one),
        keys_note=Markup(
            "<span class='without'>Without</span> → <span class='with'>with</span> KIP-1166. {}"
        ).format(sources(one)),
        blocks=[
            *_lag(one, f"lag-{place}"),
            *_cost(one, f"cost-{place}"),
            *_sweep(one),
            Note(unexplained_sentence(one)),
        ],
    )


def _key_figures(one: Figures) -> list[KeyFigure]:
    keys = []
    if one.lags is not None:
        for name, percentile in (("Median lag", "p50"), ("99th percentile", "p99")):
            slow, fast = (words.short_ms(getattr(lag, percentile)) for lag in one.lags)
            keys.append(KeyFigure(f"{name}, {kind_name(one.lag_kind)}", slow, fast, "ms"))
    if one.fetches_per_second is not None:
        slow, fast = (words.number(rate, 1) for rate in one.fetches_per_second)
        keys.append(KeyFigure("FETCHes a second", slow, fast, "/s"))
    if one.bytes_per_second is not None:
        keys.append(KeyFigure("Bytes a second", *words.two_sizes(*one.bytes_per_second)))
    return keys


def _lag(one: Figures, name: str) -> list[Block]:
    kind = one.lag_kind
    present = [variant for variant in _VARIANTS if one.lag(variant)]
    who = kind_name(kind)
    tables = [
        sections.spread_table(
            f"Lag of {kind_name(of)}, ms",
            "changes",
            [(words.variant_class(v), words.variant_class(v), one.lag(v, of)) for v in present],
        )
        for of in (kind, *(other for other in _KINDS if other != kind))
        if all(one.lag(variant, of) for variant in present)
    ]
    lines = [
        (words.variant_class(v), words.variant_name(v), one.curves.get((LAG, v, kind)), one.lag(v))
        # Drawn last is on top: the recorded dots lie on the line that they should follow.
        for v in (*present[1:], present[0])
    ]
    return sections.distributions(
        one,
        name,
        lines,
        "ms from the commit until the replica is told",
        f"How long until {who} learn of a commit",
        (f"Lag of {who}", "share of changes known after so long"),
        tables,
    )


def _cost(one: Figures, name: str) -> list[Block]:
    present = [v for v in _VARIANTS if one.total(v)]
    if not present:
        return [Note("No FETCH of the metadata log in the steady phase.")]
    kinds = [k for k in _KINDS if any(one.total(v, k) for v in present)]

    def figure(caption: str, which: str, title: str, place: int) -> Figure:
        parts = {v: [(kind_name(k), one.rates(v, k)[place] or 0.0) for k in kinds] for v in present}
        of_bytes = which == "bytes"
        return Figure(
            caption, "", sections.bars(one, f"{name}-{which}", parts, title, of_bytes=of_bytes)
        )

    blocks: list[Block] = [
        Beside(
            [
                figure("FETCHes of the metadata log", "fetches", "FETCHes a second", 0),
                figure("Bytes, both ways", "bytes", "Bytes a second", 1),
            ]
        ),
        _cost_table(one, present, kinds),
    ]
    unknown = sum(total.unknown_sizes for v in present if (total := one.total(v)))
    if unknown:
        blocks.append(
            Note(
                f"The size of {words.number(unknown)} requests or answers is not known; they count "
                "no bytes."
            )
        )
    return blocks


def _cost_table(one: Figures, present: Sequence[str], kinds: Sequence[str]) -> Table:
    names = [*map(kind_name, kinds)]
    columns = [f"{names[0]}|gap", *names[1:], "all|total"] if names else ["all|gap"]

    def rates(variant: str, place: int) -> list[float | None]:
        return [one.rates(variant, kind)[place] for kind in (*kinds, None)]

    rows = [
        Row(
            words.variant_name(v),
            [*(words.number(r, 2) for r in rates(v, 0)), *map(words.number, rates(v, 1))],
            f"variant {words.variant_class(v)}",
        )
        for v in present
    ]
    # Both replayed, so that nothing but the rule differs.
    if {WITHOUT_KIP, WITH_KIP} <= {*present}:
        cells = [
            words.signed(None if a is None or b is None else a - b, decimals)
            for place, decimals in ((0, 2), (1, 0))
            for a, b in zip(rates(WITH_KIP, place), rates(WITHOUT_KIP, place), strict=True)
        ]
        rows.append(Row("with − without", cells, row_style="difference"))
    heads = [Head([""]), Head(columns, "FETCHes a second"), Head(columns, "bytes a second")]
    return Table("What it costs", heads, rows)


def _sweep(one: Figures) -> list[Block]:
    if not one.swept:
        return []
    recorded = "as recorded"
    if one.max_wait_ms:
        ends = [words.number(wait) for wait in dict.fromkeys(one.max_wait_ms)]
        recorded = f"{' to '.join(ends)} ms, as recorded"
    columns = ["median|gap", "99 %", "FETCHes/s", "bytes/s"]
    return [
        Table(
            f"Waiting less or more: lag of {kind_name(one.lag_kind)} in ms if a FETCH stays parked "
            "for at most so long (maxWaitMs)",
            [
                Head(["longest wait"]),
                Head(columns, "without KIP-1166", "gap without"),
                Head(columns, "with KIP-1166", "gap with"),
            ],
            [
                *(_sweep_row(one, f"{words.number(at)} ms", at) for at in one.swept),
                _sweep_row(one, recorded, None),
            ],
        )
    ]


def _sweep_row(one: Figures, name: str, at: int | None) -> Row:
    cells = []
    for variant in (WITHOUT_KIP, WITH_KIP):
        fetches, sizes, *_ = one.rates(variant, at=at)
        cells += sections.ms_cells(one.lag(variant, at=at), of=("p50", "p99"))
        cells += [words.number(fetches, 1), words.number(sizes)]
    return Row(name, cells)

"""hwm_parking in words and pictures: when replicas learn of a commit, and what FETCHes cost."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from markupsafe import Markup

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
from kip_replay.pipelines.rules.hwm_parking.figures import (
    BROKERS,
    RULE,
    VOTERS,
    Figures,
    HwmParking,
    SweepPoint,
)
from kip_replay.pipelines.rules.hwm_parking.words import (
    METHOD,
    SOURCES,
    WORDS,
    answer,
    comparison,
    cost_sentence,
    kind_name,
    lag_sentence,
    price,
    protocol_sentence,
    rates,
    sources,
    unexplained_sentence,
)
from kip_replay.replay.outcomes import RECORDED
from kip_replay.replay.rules import WITH_KIP, WITHOUT_KIP

#: In tables: what is measured first, then both replays.
_VARIANTS = (RECORDED, WITHOUT_KIP, WITH_KIP)
_KINDS = (BROKERS, VOTERS)
_DOUBTS_OF = {
    "answers": "answers to a FETCH",
    **{
        f"advances {p}": f"changes, per replica, {p} phase"
        for p in ("starting", "steady", "stopping")
    },
}
_NOTHING = (
    "hold no FETCH of the metadata log. Such FETCHes are in the request logs of the controllers."
)
_NO_LAG = "do not tell when a replica learned of a change in the steady phase."


# --- the section ---------------------------------------------------------------------------------


def section(report: Report) -> Section:
    """The rule's section."""
    said = [r for r in report.recordings if _why_silent(r.hwm_parking) is None]
    waits = {wait for r in report.recordings for wait in r.hwm_parking.max_wait_ms or ()}
    times_out = f" after {words.number(waits.pop())} ms" if len(waits) == 1 else ""
    ranked = sections.most_telling(said, lambda r: _changes(r.hwm_parking))
    details = (partial(_detail, recording, place) for place, recording in enumerate(ranked))
    doubts = [(r.name, r.hwm_parking.doubts) for r in report.recordings]
    return Section(
        rule=RULE,
        short="Learning of changes",
        question="How soon do brokers learn of a metadata change?",
        proposal="KIP-1166, released in Kafka 4.1",
        answer=answer(report),
        price=price(report),
        about=_about(times_out),
        table=_overview(said) if said else None,
        notes=[
            "Without and with KIP-1166, in the steady phase; what the cluster ran is recorded, the "
            "other is replayed. Bytes are those on the wire, requests and answers together."
        ]
        if said
        else [],
        silent=sections.silent((r, _why_silent(r.hwm_parking)) for r in report.recordings),
        details=sections.shown(details),
        left_out=[recording.name for recording in ranked[sections.MOST_DETAILS :]],
        sure=sections.sure(report, RULE),
        doubts_said=sections.doubts_said(doubts),
        doubts=sections.doubt_table(
            doubts,
            _DOUBTS_OF,
            "fetch_parking_outcomes and high_watermark_lag",
        ),
        method=METHOD,
        words=WORDS,
        sources=SOURCES,
    )


def _about(times_out: str) -> Markup:
    return Markup(
        "A metadata change (a new topic, a changed config) counts once it is committed. Without "
        "KIP-1166 a replica that already has the records hears of the commit only with its next "
        "answer: at the next change, or when its FETCH times out{}. With it, it is told at once: a "
        "change can then take two answers instead of one, the first with the records, the second "
        "with the commit. That is up to one more FETCH for each change and replica."
    ).format(times_out)


def _why_silent(found: HwmParking) -> str | None:
    if not found.metadata_fetches:
        return _NOTHING
    return _NO_LAG if comparison(found).lags is None else None


def _changes(found: HwmParking) -> int:
    """Changes that a recording tells of: those of the replay, whatever the cluster ran."""
    lag = found.of(WITH_KIP).lag.get(found.lag_kind)
    return lag.count if lag else 0


def _overview(said: Sequence[RecordingReport]) -> Table:
    both = "without", "with"
    columns = [
        Column("recording"),
        *(Column(name, "gap" if name == both[0] else "with") for _ in range(4) for name in both),
        Column("unknown", "soft gap"),
    ]
    groups = [
        Group("", 1),
        Group("lag, median, ms", 2, "gap"),
        Group("lag, 99 %, ms", 2, "gap"),
        Group("FETCHes/s", 2, "gap"),
        Group("bytes/s", 2, "gap"),
        Group("", 1),
    ]
    return Table(
        "How late replicas learn, and what it costs", columns, [*map(_overview_row, said)], groups
    )


def _overview_row(recording: RecordingReport) -> Row:
    both = comparison(recording.hwm_parking)
    assert both.lags is not None
    fetches, sizes = both.fetches_per_second, both.bytes_per_second
    cells = [words.number(getattr(lag, p), 1) for p in ("p50", "p99") for lag in both.lags]
    cells += [words.number(rate, 1) for rate in fetches or (None, None)]
    cells += [words.number(rate) for rate in sizes or (None, None)]
    return Row(recording.name, [*cells, sections.unknown_cell(*both.lags)])


# --- one recording -------------------------------------------------------------------------------


def _detail(recording: RecordingReport, place: int) -> Detail:
    found = recording.hwm_parking
    return Detail(
        name=recording.name,
        facts=sections.facts(recording, protocol_sentence(found), sections.steady(found.span_s)),
        said=lag_sentence(found) + cost_sentence(found),
        keys=_key_figures(found),
        keys_note=Markup(
            "<span class='without'>Without</span> → <span class='with'>with</span> KIP-1166. {}"
        ).format(sources(found)),
        blocks=[
            *_lag(recording, f"lag-{place}"),
            *_cost(recording, f"cost-{place}"),
            *_sweep(found),
            Note(unexplained_sentence(found)),
        ],
    )


def _key_figures(found: HwmParking) -> list[KeyFigure]:
    both = comparison(found)
    who = kind_name(found.lag_kind)
    keys = []
    if both.lags is not None:
        for name, percentile in (("Median lag", "p50"), ("99th percentile", "p99")):
            slow, fast = (words.short_ms(getattr(lag, percentile)) for lag in both.lags)
            keys.append(KeyFigure(f"{name}, {who}", slow, fast, "ms"))
    if both.fetches_per_second is not None:
        slow, fast = (words.number(rate, 1) for rate in both.fetches_per_second)
        keys.append(KeyFigure("FETCHes a second", slow, fast, "/s"))
    if both.bytes_per_second is not None:
        keys.append(KeyFigure("Bytes a second", *words.two_sizes(*both.bytes_per_second)))
    return keys


def _lag(recording: RecordingReport, name: str) -> list[Block]:
    found = recording.hwm_parking
    kind = found.lag_kind
    present = [(v, found.of(v)) for v in _VARIANTS if kind in found.of(v).lag]
    who = kind_name(kind)
    picture = sections.distribution(
        name,
        recording.name,
        # Drawn last is on top: the recorded dots lie on the line that they should follow.
        [
            (words.variant_class(v), words.variant_name(v), f.curve.get(kind), f.lag[kind])
            for v, f in (*present[1:], present[0])
        ],
        "ms from the commit until the replica is told",
        f"How long until {who} learn of a commit",
    )
    tables = [_lag_table(kind, present)]
    others = [k for k in _KINDS if k != kind and all(k in f.lag for _, f in present)]
    tables += [_lag_table(k, present) for k in others]
    if picture is None:
        return [*tables]
    figure = Figure(f"Lag of {who}", "share of changes known after so long", picture)
    return [Beside([figure, *tables])]


def _lag_table(kind: str, present: Sequence[tuple[str, Figures]]) -> Table:
    columns = [Column(""), *map(Column, ("median", "90 %", "99 %", "longest"))]
    return Table(
        f"Lag of {kind_name(kind)}, ms",
        [*columns, Column("changes", "soft"), Column("unknown", "soft")],
        [
            Row(
                words.variant_class(variant),
                [
                    *sections.ms_cells(figures.lag[kind], "p50", "p90", "p99", "max"),
                    words.number(figures.lag[kind].count),
                    words.number(figures.lag[kind].unknown),
                ],
                f"variant {words.variant_class(variant)}",
            )
            for variant, figures in present
        ],
    )


def _cost(recording: RecordingReport, name: str) -> list[Block]:
    found = recording.hwm_parking
    present = [v for v in _VARIANTS if found.of(v).traffic]
    if not present:
        return [Note("No FETCH of the metadata log in the steady phase.")]
    kinds = [k for k in _KINDS if any(k in found.of(v).traffic for v in present)]

    def parts(place: int) -> dict[str, list[tuple[str, float]]]:
        return {
            v: [(kind_name(k), rates(found.of(v).traffic.get(k))[place] or 0.0) for k in kinds]
            for v in present
        }

    blocks: list[Block] = [
        Beside(
            [
                Figure(
                    "FETCHes of the metadata log",
                    "",
                    sections.bars(
                        f"{name}-fetches", recording.name, parts(0), False, "FETCHes a second"
                    ),
                ),
                Figure(
                    "Bytes, both ways",
                    "",
                    sections.bars(
                        f"{name}-bytes", recording.name, parts(1), True, "Bytes a second"
                    ),
                ),
            ]
        ),
        _cost_table(found, present, kinds),
    ]
    unknown = sum(t.unknown_sizes for v in present for t in found.of(v).traffic.values())
    if unknown:
        blocks.append(
            Note(
                f"The size of {words.number(unknown)} requests or answers is not known; they count "
                "no bytes."
            )
        )
    return blocks


def _cost_table(found: HwmParking, present: Sequence[str], kinds: Sequence[str]) -> Table:
    names = [*map(kind_name, kinds), "all"]
    columns = [
        Column(name, "gap" if place == 0 else "total" if name == "all" else "")
        for _ in range(2)
        for place, name in enumerate(names)
    ]
    rows = [_cost_row(variant, found.of(variant), kinds) for variant in present]
    less = _difference(found, kinds)
    return Table(
        "What it costs",
        [Column(""), *columns],
        [*rows, less] if less else rows,
        [
            Group("", 1),
            Group("FETCHes a second", len(names), "gap"),
            Group("bytes a second", len(names), "gap"),
        ],
    )


def _cost_row(variant: str, figures: Figures, kinds: Sequence[str]) -> Row:
    found = [*(rates(figures.traffic.get(k)) for k in kinds), rates(figures.total_traffic)]
    return Row(
        words.variant_name(variant),
        [*(words.number(rate[0], 2) for rate in found), *(words.number(rate[1]) for rate in found)],
        f"variant {words.variant_class(variant)}",
    )


def _difference(found: HwmParking, kinds: Sequence[str]) -> Row | None:
    """With less without, both replayed, so that nothing but the rule differs."""
    without, with_kip = found.of(WITHOUT_KIP), found.of(WITH_KIP)
    if not without.traffic or not with_kip.traffic:
        return None

    def less(place: int) -> list[float | None]:
        pairs = [
            (rates(with_kip.traffic.get(k))[place], rates(without.traffic.get(k))[place])
            for k in kinds
        ]
        pairs.append((rates(with_kip.total_traffic)[place], rates(without.total_traffic)[place]))
        return [None if a is None or b is None else a - b for a, b in pairs]

    cells = [
        *(words.signed(value, 2) for value in less(0)),
        *(words.signed(value) for value in less(1)),
    ]
    return Row("with − without", cells, row_style="difference")


def _sweep(found: HwmParking) -> list[Block]:
    if not found.sweep:
        return []
    kind = found.lag_kind
    as_recorded = SweepPoint(0, found.of(WITHOUT_KIP), found.of(WITH_KIP))
    waits = found.max_wait_ms
    said = "as recorded"
    if waits:
        said = f"{words.number(waits[0])} ms, as recorded"
    if waits and waits[0] != waits[1]:
        said = f"{words.number(waits[0])} to {words.number(waits[1])} ms, as recorded"
    points = [(f"{words.number(point.max_wait_ms)} ms", point) for point in found.sweep]
    columns = [Column("median", "gap"), Column("99 %"), Column("FETCHes/s"), Column("bytes/s")]
    return [
        Table(
            f"Waiting less or more: lag of {kind_name(kind)} in ms if a FETCH stays parked for at "
            "most so long (maxWaitMs)",
            [Column("longest wait"), *columns, *columns],
            [_sweep_row(name, point, kind) for name, point in (*points, (said, as_recorded))],
            [
                Group("", 1),
                Group("without KIP-1166", 4, "gap without"),
                Group("with KIP-1166", 4, "gap with"),
            ],
        )
    ]


def _sweep_row(name: str, point: SweepPoint, kind: str) -> Row:
    cells = []
    for variant in (point.without_kip, point.with_kip):
        fetches, sizes = rates(variant.total_traffic)
        cells += [
            *sections.ms_cells(variant.lag.get(kind), "p50", "p99"),
            words.number(fetches, 1),
            words.number(sizes),
        ]
    return Row(name, cells)

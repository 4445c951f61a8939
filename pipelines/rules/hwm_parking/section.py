"""hwm_parking in tables and pictures: when replicas know of a commit, and what FETCHes cost."""

from collections.abc import Iterator, Sequence
from functools import partial

from kip_replay.pipelines.page import sections, view, words
from kip_replay.pipelines.page.accuracy import Check
from kip_replay.pipelines.page.decisions import Limits
from kip_replay.pipelines.page.values import known
from kip_replay.pipelines.page.view import Detail, Head, KeyFigure, Note, Section
from kip_replay.pipelines.rules.hwm_parking import words as text
from kip_replay.pipelines.rules.hwm_parking.decision import decide, rests_on
from kip_replay.pipelines.rules.hwm_parking.figures import BROKERS, LAG, VOTERS, Figures
from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP
from kip_replay.replay.outcomes import RECORDED

#: In tables: what is measured first, then both replays.
_VARIANTS = (RECORDED, WITHOUT_KIP, WITH_KIP)
_KINDS = (BROKERS, VOTERS)
_MEASURES = ("lag, median, ms", "lag, 99 %, ms", "FETCHes/s", "bytes/s")
_OVERVIEW = (
    Head(["recording"]),
    *(Head(["without|gap", "with|with"], name) for name in _MEASURES),
    Head(["unknown|soft gap"]),
)


def section(every: Sequence[Figures], checks: Sequence[Check], limits: Limits) -> Section:
    overview = "How late replicas learn, and what it costs", _OVERVIEW, _overview
    weighed = partial(decide, limits=limits), rests_on(limits)
    return sections.section(every, checks, text.PROSE, overview, _detail, _reported, *weighed)


def _reported(one: Figures) -> tuple[object, object]:
    return (one.responses, one.lags)


def _overview(one: Figures) -> list[str]:
    assert one.lags is not None
    cells = [cell for p in ("p50", "p99") for cell in sections.ms_cells(*one.lags, of=[p])]
    cells += [words.number(rate, 1) for rate in one.fetches_per_second or (None, None)]
    cells += [words.number(rate) for rate in one.bytes_per_second or (None, None)]
    return [*cells, sections.unknown_cell(*one.lags)]


def _detail(one: Figures) -> Detail:
    facts = known([one.version, text.protocol_sentence(one), sections.steady(one)])
    summary = text.lag_sentence(one) + text.cost_sentence(one)
    note = sections.before_after("Without", "with", f" KIP-1166. {text.sources(one)}")
    blocks = [*_lag(one), *_cost(one)]
    blocks.append(Note(text.unexplained_sentence(one)))
    return Detail(one.recording, facts, summary, [*_key_figures(one)], note, blocks)


def _key_figures(one: Figures) -> Iterator[KeyFigure]:
    for name, percentile in (("Median lag", "p50"), ("99th percentile", "p99")):
        if one.lags is not None:
            named = f"{name}, {words.kind_name(one.lag_kind)}"
            yield sections.ms_key(named, percentile, *one.lags)
    if one.fetches_per_second is not None:
        slow, fast = (words.number(rate, 1) for rate in one.fetches_per_second)
        intervals = [one.traffic_interval("fetches", source) for source in one.sources]
        between = sections.within(intervals, lambda rate: words.number(rate, 1))
        yield KeyFigure("FETCHes a second", slow, fast, "/s", between)
    if one.bytes_per_second is not None:
        intervals = [one.traffic_interval("bytes", source) for source in one.sources]
        sizes = words.two_sizes(*one.bytes_per_second)
        yield KeyFigure("Bytes a second", *sizes, sections.within(intervals, words.size))


def _lag(one: Figures) -> Sequence[view.Block]:
    kind, who = one.lag_kind, words.kind_name(one.lag_kind)
    present = [variant for variant in _VARIANTS if one.lag(variant)]
    tables = []
    for of in (kind, *(other for other in _KINDS if other != kind)):
        if all(one.lag(variant, of) for variant in present):
            style = words.variant_class
            spreads = [(style(v), style(v), one.lag(v, of)) for v in present]
            caption = f"Lag of {words.kind_name(of)}, ms"
            tables.append(sections.spread_table(caption, "changes", spreads))
    lines = [
        (words.variant_class(v), words.variant_name(v), one.curves.get((LAG, v, kind)), one.lag(v))
        # Drawn last is on top: the recorded dots lie on the line that they should follow.
        for v in (*present[1:], present[0])
    ]
    labels = f"Lag of {who}", "share of changes known after so long"
    return sections.distributions(lines, "ms from the commit until the response", labels, tables)


def _cost(one: Figures) -> Iterator[view.Block]:
    present = {v: total for v in _VARIANTS if (total := one.total(v))}
    if not present:
        yield Note("No FETCH of the metadata log in the steady phase.")
        return
    kinds = [k for k in _KINDS if any(one.total(v, k) for v in present)]

    def bars(place: int, caption: str) -> view.Bars:
        names = {k: words.kind_name(k) for k in kinds}
        parts = {v: [(names[k], one.rates(v, k)[place] or 0.0) for k in kinds] for v in present}
        return sections.bars(parts, (caption, ""), of_bytes=place == 1)

    yield view.Beside([bars(0, "FETCHes of the metadata log"), bars(1, "Bytes, both ways")])
    if unknown := sum(total.unknown_sizes for total in present.values()):
        size = f"The size of {words.number(unknown)} requests or responses is not known"
        yield Note(f"{size}; they count no bytes.")

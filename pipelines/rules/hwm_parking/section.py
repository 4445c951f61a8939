"""hwm_parking in tables and pictures: when replicas know of a commit, and what FETCHes cost."""

from collections.abc import Iterator, Sequence
from functools import partial
from operator import attrgetter

from kip_replay.pipelines.page import decisions, sections, view, words
from kip_replay.pipelines.page.accuracy import Check
from kip_replay.pipelines.page.decisions import Advice, Decision, Limits, at_least, at_most
from kip_replay.pipelines.page.values import known
from kip_replay.pipelines.page.view import Detail, Head, KeyFigure, Note, Prose, Section
from kip_replay.pipelines.rules.hwm_parking import words as text
from kip_replay.pipelines.rules.hwm_parking.figures import BROKERS, LAG, VOTERS, Figures, Protocol
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
    reported = attrgetter("responses", "lags")
    prose, weighed = Prose.of(Figures.NAME), (partial(decide, limits=limits), rests_on(limits))
    return sections.section(every, checks, prose, overview, _detail, reported, *weighed)


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
    blocks = [*_lag(one), *_cost(one), Note(text.unexplained_sentence(one))]
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


_UPGRADE = """\
# KIP-1166 has no setting: it comes with Kafka 4.1, once controllers and brokers run it.
# What a controller runs (SupportedMaxVersion of metadata.version is 4.1-IV1 or later):
bin/kafka-features.sh --bootstrap-controller CONTROLLER:9093 describe"""

_GAIN, _FETCHES, _BYTES = (
    "decide_saved_ms_min",
    "decide_more_fetches_per_second_max",
    "decide_more_bytes_per_second_max",
)


def rests_on(limits: Limits) -> list[str]:
    least, fetches, size = (limits[name] for name in (_GAIN, _FETCHES, _BYTES))
    return [
        f"gain: at least {words.milliseconds(least)} less (hwm_parking.{_GAIN})",
        f"price: at most {words.number(fetches)} FETCHes/s more (hwm_parking.{_FETCHES})",
        f"and at most {words.size(size)}/s more (hwm_parking.{_BYTES})",
    ]


def decide(one: Figures, limits: Limits) -> Decision:
    """Do it where brokers learn of changes soon enough for few enough FETCHes and bytes."""
    who = words.kind_name(one.lag_kind)
    gain = decisions.of_spreads(f"median lag of {who}", "p50", *one.lags) if one.lags else None
    fetches, size = (
        decisions.of_rates(name, one, amount, one.sources)
        for name, amount in (("on the active controller", "fetches"), ("bytes, both ways", "bytes"))
    )
    advice = decisions.weighed(
        at_least(gain.less_within if gain else None, limits[_GAIN]),
        at_most(fetches.more_within if fetches else None, limits[_FETCHES]),
        at_most(size.more_within if size else None, limits[_BYTES]),
    )
    price = known([fetches, size])
    runs = "This cluster runs KIP-1166"
    if gain is None:
        why = decisions.mostly(one)
        unknown = f"it is not known how soon {who} learn of most metadata changes{why}."
        if one.protocol is Protocol.WITH:
            return Decision(Advice.NOTHING, f"{runs}; {unknown}", None, price)
        return Decision(Advice.NOT_ENOUGH, f"I{unknown[1:]}", None, price)
    sooner = f"{who} learn of a committed change {gain.sooner} (median)"
    if one.protocol is Protocol.WITH:
        return Decision(Advice.NOTHING, f"{runs}: with it, {sooner}.", gain, price)
    where = " on every node" if one.protocol is Protocol.MIXED else ""
    reason = f"With Kafka 4.1 or later{where}, {sooner}."
    if advice is Advice.DONT:
        is_little = at_least(gain.less_within, limits[_GAIN]) is False
        reason += " That is too little." if is_little else " It costs too many FETCHes or bytes."
    elif advice is Advice.NOT_ENOUGH:
        between = (of.less_within if of else None for of in (gain, fetches, size))
        reason += f" {decisions.unsure(*between)}"
    return Decision(advice, reason, gain, price, _UPGRADE if advice is Advice.DO else "")

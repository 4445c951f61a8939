"""incremental_fetch in tables and pictures: what fetch sessions save, and what N slots do."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from math import ceil
from operator import attrgetter

from kip_replay.pipelines.page import decisions, sections, view, words
from kip_replay.pipelines.page.accuracy import Check
from kip_replay.pipelines.page.decisions import Advice, Decision, Effect, Limits, at_least
from kip_replay.pipelines.page.values import Traffic, known
from kip_replay.pipelines.page.view import Detail, Head, KeyFigure, Note, Prose, Section, Table
from kip_replay.pipelines.rules.incremental_fetch import words as text
from kip_replay.pipelines.rules.incremental_fetch.figures import CACHE_SLOTS, Figures
from kip_replay.replay.incremental_fetch import FULL, INCREMENTAL, INCREMENTAL_DRAFT
from kip_replay.replay.incremental_fetch.cache import SHARDS
from kip_replay.replay.outcomes import RECORDED

_REPLAYED = (FULL, INCREMENTAL, INCREMENTAL_DRAFT)
_IN_FETCH, _IN_RESPONSE = "partitions in a FETCH", "partitions in its response"
_OVERVIEW = (
    Head(["recording", "of|left"]),
    Head(["full|gap", "sessions|with", "draft"], _IN_FETCH),
    Head(["full|gap", "sessions|with", "draft"], _IN_RESPONSE),
    Head(["full|gap", "sessions|with", "draft"], "B/s besides records, all clients"),
    Head(["unknown|soft gap"]),
)


def section(every: Sequence[Figures], checks: Sequence[Check], limits: Limits) -> Section:
    caption = "What a FETCH carries in full, with sessions, and with the draft’s"
    overview = caption, _OVERVIEW, _overview
    reported = attrgetter("fetches", "overheads")
    prose, weighed = Prose.of(Figures.NAME), (partial(decide, limits=limits), rests_on(limits))
    return sections.section(every, checks, prose, overview, _detail, reported, *weighed)


def _overview(one: Figures) -> list[str]:
    lead = [one.lead(variant) for variant in _REPLAYED]
    cells = [_listed(each, way, 1) for way in ("request", "response") for each in lead]
    cells += [words.number(one.rates(variant).overhead) for variant in _REPLAYED]
    unknown = words.number(max(map(one.unknown, _REPLAYED)))
    return [words.kind_name(one.lead_kind or ""), *cells, unknown]


def _listed(traffic: Traffic | None, way: str, decimals: int) -> str:
    """Partitions in a request or a response, mean."""
    return words.number(getattr(traffic or Traffic(), f"{way}_partitions_mean"), decimals)


def _detail(one: Figures) -> Detail:
    ran = "uses fetch sessions" if one.uses_sessions else "uses no fetch session"
    facts = known([one.version, ran, sections.steady(one)])
    follow = ". Both follow from what changed between the FETCHes that were logged."
    note = sections.before_after("Full FETCHes", "fetch sessions", follow)
    blocks: list[view.Block] = [_picture(one), *(_table(one, kind) for kind in one.kinds)]
    blocks += [Note(sentence) for sentence in known([text.as_recorded(one)])]
    return Detail(one.recording, facts, text.summary(one), [*_key_figures(one)], note, blocks)


def _key_figures(one: Figures) -> Iterator[KeyFigure]:
    def within(amount: str, kind: str | None, wording: Callable[[float], str]) -> str:
        intervals = [one.traffic_interval(amount, v, kind) for v in (FULL, INCREMENTAL)]
        return sections.within(intervals, wording)

    listed = within("partitions", one.lead_kind, lambda mean: words.number(mean, 1))
    for name, way, between in ((_IN_FETCH, "request", listed), (_IN_RESPONSE, "response", "")):
        full, with_sessions = (_listed(one.lead(v), way, 1) for v in (FULL, INCREMENTAL))
        named = f"P{name[1:]}, {words.kind_name(one.lead_kind or '')}"
        yield KeyFigure(named, full, with_sessions, "", between)
    both_ways = within("bytes", None, words.size)
    names = ("Besides records, all", "overhead", ""), ("Bytes, all", "bytes", both_ways)
    for name, figure, between in names:
        sizes = (getattr(one.rates(v), figure) or 0.0 for v in (FULL, INCREMENTAL))
        yield KeyFigure(name, *words.two_sizes(*sizes), between)


def _picture(one: Figures) -> view.Bars:
    parts = {}
    # The longest bar first: its parts have room for their names.
    for variant in (FULL, INCREMENTAL_DRAFT, INCREMENTAL, RECORDED):
        if traffic := one.total(variant):
            sizes = traffic.rates.request_bytes, traffic.rates.response_overhead
            parts[variant] = [("FETCHes", sizes[0] or 0.0), ("responses", sizes[1] or 0.0)]
    caption = "Bytes a second besides records", "all clients"
    return sections.bars(parts, caption, of_bytes=True)


def _table(one: Figures, kind: str) -> Table:
    columns = ["FETCHes|gap", "responses", "all, with records"]
    heads = [
        Head(["", "FETCHes/s"]),
        Head(["in a FETCH|gap", "in its response"], "partitions"),
        Head(columns, "bytes/s (responses: besides records)"),
    ]
    rows = []
    for variant in (RECORDED, *_REPLAYED):
        if traffic := one.total(variant, kind):
            rates = traffic.rates
            sizes = rates.request_bytes, rates.response_overhead, rates.bytes
            listed = [_listed(traffic, way, 2) for way in ("request", "response")]
            cells = [words.number(rates.fetches, 1), *listed, *map(words.number, sizes)]
            style = f"variant {words.variant_class(variant)}"
            rows.append(view.Row(words.variant_name(variant), cells, style))
    return Table(words.kind_name(kind).capitalize(), heads, rows)


#: Kafka's default.
DEFAULT_SLOTS = 1000

#: With a larger share of FETCHes that could not be replayed, the others are not what they all take.
UNKNOWN_MAX = 0.1

_GAIN, _HEADROOM = "decide_saved_bytes_per_second_min", "decide_slots_headroom"


def rests_on(limits: Limits) -> list[str]:
    least, headroom = words.size(limits[_GAIN]), words.number(limits[_HEADROOM], 1)
    return [
        f"gain: at least {least}/s less (incremental_fetch.{_GAIN})",
        f"slots: {headroom} times the fewest that are enough here, and no fewer than "
        f"Kafka’s {words.number(DEFAULT_SLOTS)} (incremental_fetch.{_HEADROOM})",
    ]


def decide(one: Figures, limits: Limits) -> Decision:
    """Do it where sessions save enough and are off, or too few slots are there."""
    name, variants = "FETCHes and responses, both ways", (FULL, INCREMENTAL)
    is_known = max(map(one.unknown, variants)) <= UNKNOWN_MAX * one.fetches
    gain = decisions.of_rates(name, one, "bytes", variants) if is_known else None
    refused, evicted = one.turned_away
    got_none = f"{words.count(refused, 'FETCH', 'FETCHes')} requested a session and got none"
    if not one.uses_sessions:
        advice = decisions.weighed(at_least(gain.less_within if gain else None, limits[_GAIN]))
        why = f"No session is in use here{f': {got_none}' if refused else ''}."
    elif refused or evicted:
        # What sessions save is recorded here; that some get none is what there is to mend.
        advice = Advice.DO
        why = f"There are too few slots: {got_none}, {words.number(evicted)} lost theirs."
    else:
        advice = Advice.NOTHING
        why = "Sessions are in use, and none was refused or evicted."
    verb = "has" if advice is Advice.NOTHING else "needs"
    reason = " ".join([why, *_saved(one, gain), _open(one, verb)])
    if advice is Advice.NOT_ENOUGH:
        reason += f" {decisions.unsure(gain.less_within if gain else None)}"
    enough = (one.fewest_slots or one.peak) + one.not_counted
    slots = max([slots_for(enough, limits[_HEADROOM]), *one.slots_in_force])
    paste = f"# server.properties of every broker\n{CACHE_SLOTS}={slots}"
    return Decision(advice, reason, gain, paste=paste if advice is Advice.DO else "")


def _saved(one: Figures, gain: Effect | None) -> Iterator[str]:
    if gain is None:
        unknown = words.number(max(one.unknown(FULL), one.unknown(INCREMENTAL)))
        of = f"{unknown} of {words.count(one.fetches, 'FETCH', 'FETCHes')}"
        yield f"What they save is not known of {of}{decisions.mostly(one)}."
    elif gain.less == 0:
        yield "Sessions save nothing."
    else:
        saves = (
            f"save {gain.change.removesuffix(' less')}" if gain.less > 0 else f"take {gain.change}"
        )
        yield f"Sessions {saves}."


def _open(one: Figures, verb: str) -> str:
    text = f"A broker {verb} at most {words.count(one.peak, 'session')} at once"
    if one.not_counted:
        text += f", and some of {words.number(one.not_counted)} that began before the log"
    return f"{text}."


def slots_for(enough: int, headroom: float) -> int:
    """Slots where so many are just enough, as many in each shard."""
    return max(DEFAULT_SLOTS, ceil(enough * headroom / SHARDS) * SHARDS)

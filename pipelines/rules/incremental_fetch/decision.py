"""What to do about fetch sessions in a cluster: how many slots their brokers should have."""

from collections.abc import Iterator
from math import ceil

from kip_replay.pipelines.page import decisions, words
from kip_replay.pipelines.page.decisions import Advice, Decision, Effect, Limits, at_least
from kip_replay.pipelines.rules.incremental_fetch.figures import CACHE_SLOTS, Figures
from kip_replay.replay.incremental_fetch import FULL, INCREMENTAL
from kip_replay.replay.incremental_fetch.cache import SHARDS

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

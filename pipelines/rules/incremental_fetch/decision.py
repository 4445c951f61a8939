"""What to do about fetch sessions in a cluster: how many slots their brokers should have."""

from __future__ import annotations

from math import ceil

from kip_replay.pipelines.report import decisions, words
from kip_replay.pipelines.report.decisions import Advice, Decision, Limits, at_least
from kip_replay.pipelines.rules.incremental_fetch.figures import CACHE_SLOTS, Figures
from kip_replay.replay.incremental_fetch import FULL, INCREMENTAL
from kip_replay.replay.incremental_fetch.cache import SHARDS

#: Kafka's default.
DEFAULT_SLOTS = 1000

_GAIN, _HEADROOM = "decide_saved_bytes_per_second_min", "decide_slots_headroom"


def rests_on(limits: Limits) -> list[str]:
    """The limits, each with its setting."""
    least, headroom = words.size(limits[_GAIN]), words.number(limits[_HEADROOM], 1)
    return [
        f"gain: at least {least}/s less (incremental_fetch.{_GAIN})",
        f"slots: {headroom} times the fewest that are enough here, and no fewer than "
        f"Kafka’s {words.number(DEFAULT_SLOTS)} (incremental_fetch.{_HEADROOM})",
    ]


def decide(one: Figures, limits: Limits) -> Decision:
    """Do it where sessions save enough and are off, or too few slots are there."""
    gain = decisions.of_rates("FETCHes and responses, both ways", one, "bytes", (FULL, INCREMENTAL))
    is_gain = at_least(gain.less_within if gain else None, limits[_GAIN])
    slots = slots_for(one.fewest_slots or one.peak, limits[_HEADROOM])
    refused, evicted = one.turned_away
    open_ = f"At most {words.count(one.peak, 'session')} are open at once on a broker"
    saves = ""
    if gain is not None:
        saves = f"With sessions, FETCHes and responses: {gain.change}."
    if not one.uses_sessions:
        advice = decisions.weighed(is_gain)
        reason = f"No session is used here. {saves} {open_} if all get a slot."
    elif refused or evicted:
        # What sessions save is recorded here; that some get none is what there is to mend.
        advice = Advice.DO
        reason = (
            f"{words.count(refused, 'session was', 'sessions were')} refused and "
            f"{words.number(evicted)} evicted for want of slots. {saves} {open_} if all get one."
        )
    else:
        advice = Advice.NOTHING
        reason = f"Sessions are in use, and none was refused or evicted. {saves} {open_}."
    if advice is Advice.NOT_ENOUGH:
        reason += f" {decisions.unsure(gain.less_within if gain else None)}"
    paste = f"# server.properties of every broker\n{CACHE_SLOTS}={slots}"
    return Decision(advice, reason, gain, paste=paste if advice is Advice.DO else "")


def slots_for(enough: int, headroom: float) -> int:
    """Slots where so many are just enough, as many in each shard."""
    return max(DEFAULT_SLOTS, ceil(enough * headroom / SHARDS) * SHARDS)

"""What to do about a change of the protocol: a verdict for each rule and recording.

A verdict weighs the gain against the price, both of one recording and in absolute terms, each with
the interval in which it lies nine times in ten (``analysis/intervals.py``). It is made only where
the whole interval lies on one side of its limit; the limits are settings (``conf/decisions.toml``).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, TypeAlias

from kip_replay.pipelines.analysis.intervals import Interval
from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.values import Percentiles, RuleFigures
from kip_replay.replay.outcomes import Verdict

#: Settings of a rule's section that its verdicts rest on, by name.
Limits: TypeAlias = Mapping[str, Any]
#: Of what is not there, or does not differ.
NONE = Interval(0.0, 0.0)


class Advice(Enum):
    DO = "do it"
    DONT = "don’t"
    NOTHING = "nothing to do"
    NOTHING_YET = "nothing to do yet"
    NOT_ENOUGH = "not enough data"


@dataclass(frozen=True)
class Effect:
    """What a change does to a figure, from ``before`` to ``after``.

    ``unit``: ms, B/s or FETCHes/s. ``less_within``: where ``less`` lies; None without enough data.
    """

    name: str
    unit: str
    before: float
    after: float
    less_within: Interval | None = None

    @property
    def less(self) -> float:
        """By how much it falls; below 0 where it rises."""
        return self.before - self.after

    @property
    def more_within(self) -> Interval | None:
        less = self.less_within
        return less and Interval(-less.high, -less.low)

    @property
    def change(self) -> str:
        """'327 ms less', '4.5 kB/s more'."""
        if self.less == 0:
            return "no change"
        return f"{self.wording(abs(self.less))} {'less' if self.less > 0 else 'more'}"

    @property
    def sooner(self) -> str:
        """'327 ms sooner', of a duration."""
        if self.less == 0:
            return "no sooner"
        return f"{self.wording(abs(self.less))} {'sooner' if self.less > 0 else 'later'}"

    @property
    def change_within(self) -> str:
        """The ends of that, the smaller change first."""
        ends = self.less_within if self.less >= 0 else self.more_within
        if ends is None:
            return "not enough data for an interval"
        low, high = self.wording(ends.low), self.wording(ends.high)
        figure, _, unit = low.partition(words.SPACE)
        return f"{figure if high.endswith(f'{words.SPACE}{unit}') else low} to {high}"

    def wording(self, value: float) -> str:
        if value == 0:
            return f"0{words.SPACE}{self.unit}"
        if self.unit == "ms":
            return words.milliseconds(value)
        if self.unit == "B/s":
            return f"{words.size(value)}/s"
        return f"{words.number(value, 1)}{words.SPACE}{self.unit}"


@dataclass(frozen=True)
class Decision:
    """What to do in one recording, and why.

    ``reason``: sentences. ``paste``: lines of configuration. ``is_withdrawn``: for what the logs
    lack.
    """

    advice: Advice
    reason: str
    gain: Effect | None = None
    price: Sequence[Effect] = ()
    paste: str = ""
    is_withdrawn: bool = False

    @property
    def style(self) -> str:
        return self.advice.name.lower().replace("_", "-")


def at_least(between: Interval | None, limit: float) -> bool | None:
    """Whether a figure reaches a limit; None where its interval is not known or reaches across."""
    if between is None:
        return None
    return True if between.low >= limit else False if between.high < limit else None


def at_most(between: Interval | None, limit: float) -> bool | None:
    """Whether a figure stays within a limit; None as above."""
    if between is None:
        return None
    return True if between.high <= limit else False if between.low > limit else None


def weighed(is_gain: bool | None, *is_affordable: bool | None) -> Advice:
    """What a gain that counts and prices that are affordable come to."""
    every = (is_gain, *is_affordable)
    if False in every:
        return Advice.DONT
    return Advice.NOT_ENOUGH if None in every else Advice.DO


def unsure(*intervals: Interval | None) -> str:
    """Why there is no verdict, and what to do about it."""
    if None in intervals:
        return "There is too little data for an interval: record longer."
    return "An interval reaches across its limit: record longer."


def mostly(one: RuleFigures) -> str:
    """For a sentence on what is not known to end with: the reason that most outcomes have."""
    reasons: Counter[str] = Counter()
    for doubt in one.doubts:
        if doubt.verdict == Verdict.UNKNOWN.value:
            reasons[doubt.reason] += max(doubt.counts.values())
    return (
        f", most often since {min(reasons, key=lambda of: (-reasons[of], of))}" if reasons else ""
    )


def of_spreads(
    name: str, percentile: str, before: Percentiles, after: Percentiles
) -> Effect | None:
    """What becomes of a percentile; None unless both are known.

    The interval is the widest that those of both leave; where not one value differs, it is 0.
    """
    values = [getattr(spread, percentile) for spread in (before, after)]
    if None in values:
        return None
    low, high = (spread.intervals.get(percentile) for spread in (before, after))
    within = None if low is None or high is None else apart(low, high)
    if within and replace(before, intervals={}) == replace(after, intervals={}):
        within = NONE
    return Effect(name, "ms", values[0], values[1], within)


def apart(before: Interval, after: Interval) -> Interval:
    """Where a figure less another lies at the widest: they err together, or apart."""
    return Interval(before.low - after.high, before.high - after.low)


def from_none(name: str, after: float, within: Interval | None) -> Effect:
    """What a change brings that was not there before, in ms."""
    return Effect(name, "ms", 0.0, after, within and apart(NONE, within))


def of_rates(name: str, one: RuleFigures, amount: str, variants: Sequence[str]) -> Effect | None:
    """What becomes of ``fetches`` or ``bytes`` a second, from one variant to another."""
    before, after = (getattr(one.rates(variant), amount) for variant in variants)
    if before is None or after is None:
        return None
    within = one.traffic_change(amount, *variants)
    return Effect(name, "B/s" if amount == "bytes" else "FETCHes/s", before, after, within)

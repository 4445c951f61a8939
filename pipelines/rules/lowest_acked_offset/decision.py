"""What to do about the lowest acknowledged offset in heartbeats: the draft is in no release."""

from kip_replay.pipelines.analysis.intervals import Interval
from kip_replay.pipelines.page import decisions, words
from kip_replay.pipelines.page.decisions import Advice, Decision, Effect, Limits, at_least
from kip_replay.pipelines.rules.lowest_acked_offset.figures import Figures

_GAIN = "decide_stale_window_ms_min"


def rests_on(limits: Limits) -> list[str]:
    least = words.milliseconds(limits[_GAIN])
    return [f"gain: a stale window of at least {least} (lowest_acked_offset.{_GAIN})"]


def decide(one: Figures, limits: Limits) -> Decision:
    """Worth having where some broker shows the old state for long enough after the response."""
    window, known_after = one.window, one.read_after_write
    if window is None or window.p50 is None:
        why = decisions.mostly(one)
        reason = f"Of most metadata writes it is not known when every broker had them{why}."
        return Decision(Advice.NOT_ENOUGH, reason)
    within = window.intervals.get("p50")
    if within and not one.is_estimated:
        within = Interval(0.0, within.high)  # a bound: it may be over any time before
    name = "how long clients may read old metadata, if they wait for that to end (median)"
    gain = Effect(name, "ms", window.p50, 0.0, within)
    price = []
    if known_after is not None and known_after.p50 is not None:
        within = known_after.intervals.get("p50")
        price = [decisions.from_none("how long they then wait (median)", known_after.p50, within)]
    up_to = "" if one.is_estimated else "up to "
    reason = (
        f"After the response to a metadata write, some broker shows the old state for {up_to}"
        f"{words.milliseconds(window.p50)} (median)."
    )
    advice = decisions.weighed(at_least(gain.less_within, limits[_GAIN]))
    if advice is Advice.DO:
        advice = Advice.NOTHING_YET
        reason += " A client could wait for its end with the draft; no Kafka release has it."
    elif advice is Advice.DONT:
        reason += " That is too little to wait for."
    else:
        reason += f" {decisions.unsure(gain.less_within)}"
    return Decision(advice, reason, gain, price)

"""What to do about acks=min.insync.replicas in a cluster: KIP-926 is in no release."""

from kip_replay.pipelines.page import decisions, words
from kip_replay.pipelines.page.decisions import Advice, Decision, Limits, at_least, at_most
from kip_replay.pipelines.rules.min_isr_acks.figures import Figures

_GAIN, _PRICE = "decide_saved_ms_min", "decide_exposure_ms_max"


def rests_on(limits: Limits) -> list[str]:
    least, most = (words.milliseconds(limits[name]) for name in (_GAIN, _PRICE))
    return [
        f"gain: at least {least} less (min_isr_acks.{_GAIN})",
        f"price: exposed for at most {most}, 9 in 10 times (min_isr_acks.{_PRICE})",
    ]


def decide(one: Figures, limits: Limits) -> Decision:
    """Worth having where producers wait long enough less, and records are exposed briefly."""
    waits = one.waits
    gain = decisions.of_spreads("median wait of producers", "p50", *waits) if waits else None
    exposure = one.exposure()
    late = exposure.intervals.get("p90") if exposure else None
    advice = decisions.weighed(
        at_least(gain.less_within if gain else None, limits[_GAIN]), at_most(late, limits[_PRICE])
    )
    if gain is None:
        why = decisions.mostly(one)
        reason = f"Of most PRODUCEs it is not known when their responses would come{why}."
        return Decision(Advice.NOT_ENOUGH, reason)
    reason = f"Producers with acks=all would get their responses {gain.sooner} (median)."
    price = []
    if exposure is not None and exposure.p90 is not None:
        price = [decisions.from_none("exposure, 9 in 10 at most", exposure.p90, late)]
    if advice is Advice.DO:
        advice = Advice.NOTHING_YET
        reason += " It would be worth having; no Kafka release has it."
    elif advice is Advice.DONT:
        is_little = at_least(gain.less_within, limits[_GAIN]) is False
        reason += " That is too little." if is_little else " Records are exposed for too long."
    else:
        reason += f" {decisions.unsure(gain.less_within, late)}"
    return Decision(advice, reason, gain, price)

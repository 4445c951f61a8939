"""What to do about KIP-1166 in a cluster: it is in Kafka 4.1, and has no setting."""

from kip_replay.pipelines.page import decisions, words
from kip_replay.pipelines.page.decisions import Advice, Decision, Limits, at_least, at_most
from kip_replay.pipelines.page.values import known
from kip_replay.pipelines.rules.hwm_parking.figures import Figures, Protocol

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

"""hwm_parking in words: what a commit that replicas know at once changes, and how that is known."""

from markupsafe import Markup

from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.words import bold
from kip_replay.pipelines.rules.hwm_parking.figures import Figures, Protocol


def lag_sentence(one: Figures) -> Markup:
    """What the KIP does to the lag in one recording that has one."""
    assert one.lags is not None
    if one.medians is None:
        lacking = ", ".join(
            f"{words.number(lag.unknown)} of {words.number(lag.values)} {name} KIP-1166"
            for lag, name in zip(one.lags, ("without", "with"), strict=True)
            if lag.p50 is None
        )
        return Markup(
            "The median lag is not known: of too many changes it is unknown when they were "
            "learned ({})."
        ).format(lacking)
    slow, fast = (bold(words.milliseconds(median)) for median in one.medians)
    if not one.makes_a_difference:
        text = (
            "KIP-1166 changes little here: {} learn a committed metadata change in {} with it and "
            "in {} without it (median)."
        )
    else:
        how, end = {
            Protocol.WITHOUT: ("With KIP-1166, {} would", ""),
            Protocol.WITH: ("Thanks to KIP-1166, which this cluster runs, {}", ""),
        }.get(one.protocol, ("If every node ran KIP-1166, {} would", " with none running it"))
        text = f"{how} learn a committed metadata change in {{}} instead of {{}}{end} (median)."
    return Markup(text).format(words.kind_name(one.lag_kind), fast, slow)


def cost_sentence(one: Figures) -> Markup:
    """What the KIP costs in this recording; empty where no rate is known."""
    if one.fetches_per_second is None:
        return Markup("")
    without, with_kip = one.fetches_per_second
    costs = "It costs" if one.protocol is Protocol.WITH else "It would cost"
    change = f"{words.number(abs(with_kip - without), 1)} {_more(one.fetches_per_second, 'fewer')}"
    rates = words.number(with_kip, 1), words.number(without, 1)
    text = Markup(" {} {} ({} instead of {})").format(
        costs, bold(f"{change} FETCHes a second"), *rates
    )
    if one.bytes_per_second is None:
        return text + "."
    without, with_kip = one.bytes_per_second
    change = f"{words.size(abs(with_kip - without))} a second {_more(one.bytes_per_second, 'less')}"
    sizes = words.size(with_kip), words.size(without)
    return Markup("{} and {} ({} instead of {}).").format(text, bold(change), *sizes)


def _more(pair: tuple[float, float], less: str) -> str:
    return "more" if pair[1] >= pair[0] else less


def sources(one: Figures) -> str:
    """Where the figures of one recording come from, and how many are unknown."""
    text = {
        Protocol.WITHOUT: "Without: recorded in this cluster. With: replayed from its logs.",
        Protocol.WITH: "With: recorded in this cluster. Without: replayed from its logs.",
    }.get(one.protocol, "Both are replayed from the logs of this cluster.")
    if one.lags is None or not any(lag.unknown for lag in one.lags):
        return text
    without, with_kip = (words.number(lag.unknown) for lag in one.lags)
    return (
        f"{text} Of {without} changes without and {with_kip} with KIP-1166 it is unknown when they "
        "were learned; they count as the slowest."
    )


def protocol_sentence(one: Figures) -> str:
    """Which protocol the recorded cluster ran, and how that is known."""
    share = words.number(one.protocol_share * 100)
    return {
        Protocol.WITHOUT: "runs without KIP-1166",
        Protocol.WITH: "runs KIP-1166",
        Protocol.MIXED: f"runs KIP-1166 in part: {share} % of its FETCHes carry a high watermark",
        Protocol.UNKNOWN: "not known whether it runs KIP-1166",
    }[one.protocol]


def unexplained_sentence(one: Figures) -> str:
    """How many recorded responses nothing explains."""
    unexplained, judged = one.judged
    if not judged:
        return "No FETCH of the metadata log got its response from a leader."
    return (
        f"{words.number(unexplained)} of {words.number(judged)} recorded responses "
        f"({words.number(100 * unexplained / judged, 2)} %) are explained by no rule."
    )

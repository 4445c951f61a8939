"""lowest_acked_offset in words: when a metadata write is everywhere, and who knows it."""

from collections.abc import Sequence
from itertools import product

from markupsafe import Markup

from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.accuracy import Check
from kip_replay.pipelines.page.values import known
from kip_replay.pipelines.page.words import bold
from kip_replay.pipelines.rules.lowest_acked_offset.figures import READ_AFTER_WRITE, Figures

#: What clients saw, beside the estimate (metric of prediction_accuracy).
SEEN = "create_topics_stale_window_p50"
#: What reads after writes should stay below, 9 in 10 times, to look for the interval it takes.
_GOALS_MS = (500, 100)


def as_clients_saw(checks: Sequence[Check]) -> str:
    """When clients that watched saw new topics, a sentence for each recording that has it."""
    found = [c for c in checks if c.metric == SEEN and c.is_self_check]
    return "".join(
        f" Clients that watched saw a new topic on every broker {words.milliseconds(c.recorded)} "
        f"after the response in {c.recorded_in} (median), where the estimate is "
        f"{words.milliseconds(c.predicted)}."
        for c in found
        if c.recorded is not None and c.predicted is not None
    )


def summary(one: Figures) -> Markup:
    """The stale window and read-after-write of one recording."""
    if one.medians is None:
        spreads = known([one.window, one.read_after_write])
        return Markup(
            "The medians are not known: of {} of {} metadata writes it is unknown when every "
            "broker had them, or when that was known."
        ).format(words.number(max(s.unknown for s in spreads)), words.number(one.writes))
    stale, known_after = (bold(words.milliseconds(median)) for median in one.medians)
    proof = one.stale.p50 if one.is_estimated and one.stale else None
    return Markup(
        "After the response to a metadata write, some broker {} the old state for {} (median){}. "
        "With the draft, the broker that forwarded it would have known that it was over {} after "
        "the request."
    ).format(
        "showed" if one.is_estimated else "may have shown",
        stale if one.is_estimated else Markup("up to {}").format(stale),
        "" if proof is None else f"; heartbeats prove it after {words.milliseconds(proof)}",
        known_after,
    )


def interval_sentence(one: Figures) -> str | None:
    """Which heartbeat interval would bring reads after writes below the goals."""
    if not one.swept:
        return None
    variants = words.in_order(one.variants(swept=True))
    tried = product(one.swept, variants)
    spreads = {(at, v): one.spread(READ_AFTER_WRITE, v, at=at) for at, v in tried}
    found = []
    for goal in _GOALS_MS:
        limit = f"{words.number(goal)}{words.SPACE}ms"
        enough = [
            key for key, of in spreads.items() if of and of.p90 is not None and of.p90 <= goal
        ]
        if not enough:
            found.append(f"below {limit} with none of the intervals tried")
            continue
        longest = max(interval for interval, _ in enough)
        how = [words.variant_name(variant) for interval, variant in enough if interval == longest]
        every = f"{words.number(longest)}{words.SPACE}ms ({words.joined(how)})"
        found.append(f"below {limit} with a heartbeat every {every}")
    return f"9 in 10 reads after writes: {'; '.join(found)}."

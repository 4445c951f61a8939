"""min_isr_acks in words: how much sooner producers get their responses, and what that exposes."""

from markupsafe import Markup

from kip_replay.pipelines.page import sections, words
from kip_replay.pipelines.page.words import bold
from kip_replay.pipelines.rules.min_isr_acks.figures import Figures


def summary(one: Figures) -> Markup:
    """Waits and exposure of one recording."""
    assert one.waits is not None
    if one.medians is None:
        unknown = words.number(max(wait.unknown for wait in one.waits))
        values = words.number(max(wait.values for wait in one.waits))
        return Markup(
            "The median wait is not known: of {} of {} responses it is unknown when they "
            "would come."
        ).format(unknown, values)
    before, after = one.medians
    text = (
        "Waiting for min.insync.replicas only changes little here: producers would get their "
        "responses in {}, with acks=all in {} (median)."
        if after >= sections.NO_DIFFERENCE * before
        else "With acks=min.insync.replicas, producers would get their responses in {} instead of "
        "{} (median)."
    )
    waits = Markup(text).format(bold(words.milliseconds(after)), bold(words.milliseconds(before)))
    exposure = one.exposure()
    if exposure is None or exposure.p50 is None:
        return waits
    return Markup(
        "{} For {} (median; 9 in 10: at most {}) after that not every in-sync replica has the "
        "records."
    ).format(waits, bold(words.milliseconds(exposure.p50)), words.milliseconds(exposure.p90))


def arrivals(one: Figures) -> str | None:
    """How many PRODUCEs came on their own, and what hangs on when the others were sent."""
    row = next(iter(one.found("arrivals")), None)
    if row is None:
        return None
    between = one.sent_at_other_times
    hangs = f": median {words.between(between)}" if between else ""
    ended = f" The log ended before {words.number(row['after_the_log'])} of the responses."
    return (
        f"{words.number(row['own'])} of {words.count(row['n'], 'PRODUCE')} came on their own; the "
        f"others may have been sent earlier or later than estimated{hangs}."
        f"{ended if row['after_the_log'] else ''}"
    )

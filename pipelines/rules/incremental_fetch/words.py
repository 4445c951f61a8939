"""incremental_fetch in words: what fetch sessions save, and how that is known."""

from markupsafe import Markup

from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.words import bold
from kip_replay.pipelines.rules.incremental_fetch.figures import FOLLOWER, KINDS, Figures

_ONE = dict.fromkeys(KINDS, "a consumer’s") | {FOLLOWER: "a follower’s"}


def summary(one: Figures) -> Markup:
    """What FETCHes list and take with sessions, and without."""
    before, after = one.overheads or (0.0, 0.0)
    sizes = Markup("{} a second besides records instead of {}").format(
        *(bold(words.size(of)) for of in (after, before))
    )
    if one.partitions is None:
        return Markup("With fetch sessions, FETCHes and their responses take {}.").format(sizes)
    many, few = (bold(words.number(mean, 1)) for mean in one.partitions)
    return Markup(
        "With fetch sessions {} FETCH lists {} partitions instead of {}, and FETCHes and their "
        "responses take {}."
    ).format(_ONE.get(one.lead_kind or "", "a client’s"), few, many, sizes)


def as_recorded(one: Figures) -> str | None:
    """How many FETCHes come out as recorded; None where none could be compared."""
    equal, compared = one.compared
    if not compared:
        return None
    return (
        f"{words.number(equal)} of {words.number(compared)} recorded incremental FETCHes come out "
        "of the replay the same: partitions, their order, and every byte."
    )

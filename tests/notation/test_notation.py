"""The notation itself: what it accepts, and how it rejects the rest."""

import pytest

from . import NotationError, check

SCENE = "voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, with KIP-1166\n"


def test_history_that_the_rule_agrees_with_passes() -> None:
    check(SCENE + "\n# nothing\n 2 fetches 15 knowing -1   -> high watermark 15  # and more\n")


@pytest.mark.parametrize(
    ("history", "complaint"),
    [
        (SCENE.replace("with ", ""), "'KIP-1166' is no rule: without KIP-1166, with KIP-1166"),
        (SCENE.replace("log ends", "logs end"), "'logs end at 15' is nothing of the leader"),
        (SCENE + "2 jumps -> nobody", "'2 jumps' is no event"),
        (SCENE + "2 fetches -> nobody", "'2 fetches' is no event"),
    ],
)
def test_what_cannot_be_read_is_named(history: str, complaint: str) -> None:
    with pytest.raises(NotationError, match=complaint):
        check(history)


@pytest.mark.parametrize(
    "line",
    [
        "2 fetches 15 knowing -1",
        "2 fetches 15 knowing -1 -> parked",
        "2 fetches 15 knowing 15 -> high watermark 15",
        "2 fetches 12 -> records 12..14, high watermark 12",
        "2 fetches 12 -> records 12..15, high watermark -1",
        "2 fetches 15 -> 3: high watermark 15; parked",
        "leader appends to 20 -> 2: records 15..20, high watermark 15",
        "2 fetches 15 -> parked; leader has high watermark 12",
        "2 fetches 15 knowing -1 -> high watermark 15\n2 then fetches 15 -> parked",
    ],
)
def test_disagreement_fails_with_line_and_rule(line: str) -> None:
    with pytest.raises(AssertionError, match=r"2 .*fetches|leader appends"):
        check(SCENE + line)


def test_only_the_rule_that_disagrees_is_named() -> None:
    with pytest.raises(AssertionError, match="-> high watermark 15, without KIP-1166"):
        check(
            SCENE.replace("with ", "without | with ")
            + "2 fetches 15 knowing -1 -> high watermark 15"
        )

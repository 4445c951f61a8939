"""The notation itself: a history that the rule disagrees with fails."""

import pytest

from . import check

SCENE = "voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, with KIP-1166\n"


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

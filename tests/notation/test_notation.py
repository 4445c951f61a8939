"""The notation itself: what it accepts, and how it rejects the rest."""

import pytest

from kip_replay.replay.hwm_parking import NOT_SENT, UNKNOWN_OFFSET

from . import NotationError, check
from .grammar import (
    Appends,
    Completed,
    DrainsNoBatch,
    Fetches,
    Passes,
    Resigns,
    RollsSegment,
    parse,
)

SCENE = "voters 1 2 3, leader 1, epoch 5 starts at 10, log ends at 15, with KIP-1166\n"
BOTH = SCENE.replace("with KIP-1166", "without | with KIP-1166")


def test_scene_is_read() -> None:
    scene = parse(
        "voters 1 2 3, leader 4, epoch 5 starts at 10, epoch 3 ends at 8, log starts at 6,"
        " log ends at 15, snapshot ends at 6, high watermark 12, without KIP-1166"
    ).scene

    assert (scene.voters, scene.leader) == ((1, 2, 3), 4)
    assert (scene.epoch, scene.epoch_start_offset, scene.epoch_ends) == (5, 10, {3: 8})
    assert (scene.log_start_offset, scene.log_end_offset, scene.snapshot) == (6, 15, 6)
    assert (scene.high_watermark, scene.rules) == (12, (False,))


def test_high_watermark_is_unknown_unless_the_scene_has_it() -> None:
    assert parse(SCENE).scene.high_watermark == UNKNOWN_OFFSET


def test_fetch_without_knowing_sends_no_high_watermark() -> None:
    (step,) = parse(SCENE + "2 fetches 10 -> parked").steps
    assert step.event == Fetches(2, 10, NOT_SENT, None, 500, is_next=False)


def test_fetch_has_what_it_knows_and_how_long_it_waits() -> None:
    (step,) = parse(SCENE + "2 then fetches 10 of epoch 3 knowing -1 waiting 0 ms -> parked").steps
    assert step.event == Fetches(2, 10, -1, 3, 0, is_next=True)


def test_other_events_are_read() -> None:
    steps = parse(
        SCENE
        + "leader appends to 20 -> nobody\nleader rolls its segment -> nobody\n"
        + "500 ms pass -> nobody\nleader resigns -> nobody\nleader drains no batch -> nobody"
    ).steps
    events = [Appends(20), RollsSegment(), Passes(500), Resigns(), DrainsNoBatch()]
    assert [step.event for step in steps] == events


def test_comments_and_blank_lines_are_skipped() -> None:
    (step,) = parse(SCENE + "\n# nothing\n  500 ms pass -> nobody  # quiet\n").steps
    assert (step.number, step.text) == (4, "500 ms pass -> nobody")


def test_response_without_a_name_is_the_fetchers_own_and_immediate() -> None:
    (step,) = parse(SCENE + "2 fetches 10 -> records 10..15, high watermark -1").steps
    assert step.outcomes[0].responses == (Completed(2, "records", False, (10, 15), -1),)


def test_response_with_a_name_was_parked() -> None:
    (step,) = parse(SCENE + "2 fetches 15 -> 3: high watermark 15; parked").steps
    assert step.outcomes[0].responses == (Completed(3, "high_watermark", True, None, 15),)


def test_bar_parts_the_rules() -> None:
    (step,) = parse(BOTH + "500 ms pass -> 3: timeout, high watermark -1 | nobody").steps
    without, with_kip = step.outcomes
    assert (len(without.responses), len(with_kip.responses)) == (1, 0)


def test_without_a_bar_the_rules_agree() -> None:
    (step,) = parse(BOTH + "2 fetches 15 -> parked").steps
    assert step.outcomes[0] == step.outcomes[1]


@pytest.mark.parametrize(
    ("history", "complaint"),
    [
        ("# only this", "a history begins with its scene"),
        ("voters 1, leader 1, with KIP-1166", "line 1: the scene lacks epoch N starts at, log"),
        ("leaders 1", "line 1: 'leaders 1' is nothing of the leader"),
        (SCENE + "2 fetches 10", "line 2: no '->'"),
        (SCENE + "2 jumps -> nobody", "line 2: '2 jumps' is no event (N fetches"),
        (SCENE + "2 fetches -> nobody", "line 2: '2 fetches' is no event"),
        (SCENE + "\n500 ms pass -> 3: asleep", "line 3: '3: asleep' is no response"),
        (SCENE + "500 ms pass -> timeout, high watermark 1", "line 2: whose response is"),
        (SCENE + "500 ms pass -> parked", "line 2: 'parked' belongs to a FETCH"),
        (SCENE + "500 ms pass -> nobody | nobody", "line 2: 2 outcomes, but the scene has 1"),
        (SCENE + "2 fetches 10 -> nobody", "line 2: 2 needs 'parked' or one response"),
        (SCENE + "2 fetches 10 -> parked; error", "line 2: 2 needs 'parked' or one response"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(history: str, complaint: str) -> None:
    with pytest.raises(NotationError) as error:
        parse(history)
    assert complaint in str(error.value)


def test_replica_with_a_parked_fetch_sends_no_second_one() -> None:
    with pytest.raises(NotationError, match="line 3: 2 is parked already"):
        check(SCENE + "2 fetches 15 -> parked\n2 fetches 15 -> parked")


def test_next_fetch_needs_an_earlier_one() -> None:
    with pytest.raises(NotationError, match="line 2: 'then fetches' follows an earlier FETCH"):
        check(SCENE + "2 then fetches 15 -> parked")


def test_history_that_the_rule_agrees_with_passes() -> None:
    check(SCENE + "2 fetches 15 knowing -1 -> high watermark 15")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("2 fetches 15 knowing -1 -> parked", "2: high watermark 15 at once"),
        ("2 fetches 15 knowing 15 -> high watermark 15", "nobody"),
        ("2 fetches 12 -> records 12..14, high watermark 12", "2: records 12..15, high"),
        ("2 fetches 12 -> records 12..15, high watermark -1", "high watermark 12 at once"),
        ("2 fetches 15 -> 3: high watermark 15; parked", "nobody"),
        ("leader appends to 20 -> 2: records 15..20, high watermark 15", "nobody"),
        ("2 fetches 15 -> parked; leader has high watermark 12", "leader has high watermark 15"),
    ],
)
def test_disagreement_shows_line_rule_and_both_sides(line: str, found: str) -> None:
    with pytest.raises(AssertionError) as error:
        check(SCENE + line)
    history_has, _, rule_has = str(error.value).partition("the rule has:")
    assert f"line 2 with KIP-1166: {line}" in history_has
    assert found in rule_has


def test_only_the_rule_that_disagrees_is_named() -> None:
    with pytest.raises(AssertionError, match="line 2 without KIP-1166"):
        check(BOTH + "2 fetches 15 knowing -1 -> high watermark 15")


def test_next_fetch_is_compared_with_what_the_responses_taught() -> None:
    with pytest.raises(AssertionError, match="it fetches 15 of epoch 5 knowing 15"):
        check(SCENE + "2 fetches 15 knowing -1 -> high watermark 15\n2 then fetches 15 -> parked")


def test_time_adds_up_for_who_is_parked() -> None:
    check(
        SCENE
        + """
        8 fetches 15              -> parked
        300 ms pass               -> nobody
        9 fetches 15              -> parked
        200 ms pass               -> 8: timeout, high watermark -1
        300 ms pass               -> 9: timeout, high watermark -1
        """
    )

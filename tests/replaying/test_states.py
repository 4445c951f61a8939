"""States that were altered, exchanged or doubled are not those that a rule has saved."""

from typing import Any

import pytest

from kip_replay.pipelines.replaying.states import FollowsFrom, checksum, saved_by

FOLLOWS_FROM = FollowsFrom(1_795_206_993_549_000, 2, 0, "rule", "dependencies")
RULE, OTHER = "hwm_parking", "min_isr_acks"


def saved(rule: str, key: str, state: bytes, follows_from: FollowsFrom = FOLLOWS_FROM) -> Any:
    row = {"rule": rule, "state_key": key, "state": state, "fingerprint": str(follows_from)}
    return row | {"checksum": checksum(row)}


def three() -> list[dict[str, Any]]:
    return [saved(RULE, "1", b"one"), saved(RULE, "2", b"two"), saved(OTHER, "1", b"other")]


def test_what_a_rule_has_saved_is_found_whatever_others_have() -> None:
    rows = three()
    assert saved_by(rows, RULE) == saved_by(rows, OTHER) == FOLLOWS_FROM
    assert saved_by(rows, "lowest_acked_offset") is None
    rows[2]["state"] = b"altered"
    assert (saved_by(rows, RULE), saved_by(rows, OTHER)) == (FOLLOWS_FROM, None)


@pytest.mark.parametrize(
    "altered",
    [
        {"state": b"onf"},
        {"state": None},
        {"state": b"two"},
        {"state_key": "3"},
        {"fingerprint": "garbage"},
        {"fingerprint": str(FOLLOWS_FROM._replace(until_us=0))},
        {"checksum": ""},
        saved(RULE, "2", b"one"),
        saved(RULE, "1", b"one", FOLLOWS_FROM._replace(ingest_epoch=1)),
    ],
)
def test_states_with_one_that_is_not_as_it_was_saved_are_not_used(altered: dict[str, Any]) -> None:
    rows = three()
    rows[0] |= altered
    assert saved_by(rows, RULE) is None


def test_a_state_of_another_rule_is_not_used() -> None:
    rows = three()
    rows[2] = saved(OTHER, "3", b"other") | {"rule": RULE}
    assert saved_by(rows, RULE) is None

"""States that were altered, exchanged or doubled are not those that a rule has saved."""

from typing import Any

import pytest
from msgspec.structs import replace

from kip_replay.pipelines.replaying.states import checksum, covered_by
from kip_replay.pipelines.warehouse.steps import Covered

COVERED = Covered(
    identity="rule", part="dependencies", until_us=1_795_206_993_549_000, is_growing=True
)
RULE, OTHER = "hwm_parking", "min_isr_acks"


def saved(rule: str, key: str, state: bytes, covered: Covered = COVERED) -> Any:
    row = {"rule": rule, "state_key": key, "state": state, "fingerprint": str(covered)}
    return row | {"checksum": checksum(row)}


def three() -> list[dict[str, Any]]:
    return [saved(RULE, "1", b"one"), saved(RULE, "2", b"two"), saved(OTHER, "1", b"other")]


def test_what_a_rule_has_saved_is_found_whatever_others_have() -> None:
    rows = three()
    assert covered_by(rows, RULE) == covered_by(rows, OTHER) == COVERED
    assert covered_by(rows, "lowest_acked_offset") is None
    rows[2]["state"] = b"altered"
    assert (covered_by(rows, RULE), covered_by(rows, OTHER)) == (COVERED, None)


@pytest.mark.parametrize(
    "altered",
    [
        {"state": b"onf"},
        {"state": None},
        {"state": b"two"},
        {"state_key": "3"},
        {"fingerprint": "garbage"},
        {"fingerprint": str(replace(COVERED, until_us=0))},
        {"checksum": ""},
        saved(RULE, "2", b"one"),
        saved(RULE, "1", b"one", replace(COVERED, epochs={"ingested_files": 1})),
    ],
)
def test_states_with_one_that_is_not_as_it_was_saved_are_not_used(altered: dict[str, Any]) -> None:
    rows = three()
    rows[0] |= altered
    assert covered_by(rows, RULE) is None


def test_a_state_of_another_rule_is_not_used() -> None:
    rows = three()
    rows[2] = saved(OTHER, "3", b"other") | {"rule": RULE}
    assert covered_by(rows, RULE) is None

"""incremental_fetch against real brokers, beside what prediction_accuracy has.

Sessions recorded: every incremental FETCH is derived with the partitions, the order and the bytes
that it had, both ways. Sessions not recorded: every full one is.
"""

import pytest

from . import some_of
from .recorded import found

pytestmark = pytest.mark.golden

#: Incremental FETCHes of each recording that sessions were on in.
INCREMENTAL_FETCHES = {
    "sessions-on": 1168,
    "acks-not-enough": 1886,
    "mixed-4.2": 6527,
    "failover-4.0": 626,
    "metadata-4.0": 666,
}
#: A variant's rows beside those of the log.
BESIDE = """
    FROM fetch_session_outcomes AS one JOIN fetch_session_outcomes AS recorded
    USING (request_id, attempt) WHERE recorded.variant = 'recorded' AND """


@pytest.mark.parametrize(
    "name", some_of(INCREMENTAL_FETCHES, "sessions-on", "acks-not-enough", "metadata-4.0")
)
def test_every_incremental_fetch_is_the_recorded_one(name: str) -> None:
    rows = found(
        name,
        "incremental_fetch",
        "SELECT count(*) FILTER (one.equals_recorded), count(*) FILTER (NOT one.equals_recorded),"
        " bool_and(recorded.is_full) FILTER (one.equals_recorded IS NULL),"
        f" bool_and(one.verdict = 'replayed') {BESIDE} one.variant = 'incremental'"
        " AND one.parameter = 'none'",
    )
    assert rows == [(INCREMENTAL_FETCHES[name], 0, True, True)]


@pytest.mark.parametrize(
    ("variant", "columns"),
    [
        ("one.variant = 'full'", "request_bytes response_bytes request_partitions"),
        # session_slots = 0 is what the recording without sessions really did.
        ("one.variant = 'incremental' AND one.parameter_value = 0", "response_bytes is_full"),
    ],
)
def test_full_fetches_are_those_recorded_without_sessions(variant: str, columns: str) -> None:
    same = " AND ".join(f"one.{name} = recorded.{name}" for name in columns.split())
    counts = f"SELECT count(*), count(*) FILTER ({same}) {BESIDE} {variant}"
    assert found("sessions-off", "incremental_fetch", counts) == [(2057, 2057)]


@pytest.mark.parametrize("kind", ["follower", "consumer"])
def test_bytes_beside_records_predicted_from_full_fetches(kind: str) -> None:
    """Of FETCHes under which no partition comes or goes: with how many a consumer begins is no
    matter of sessions.
    """
    means = [
        found(
            name,
            "incremental_fetch",
            "SELECT avg(request_bytes + response_bytes - record_bytes) FROM fetch_session_outcomes"
            f" WHERE variant = '{variant}' AND parameter = 'none' AND client_kind = '{kind}'"
            " AND NOT is_full AND added_partitions = 0 AND forgotten_partitions = 0",
        )[0][0]
        for name, variant in (("sessions-off", "incremental"), ("sessions-on", "recorded"))
    ]
    assert means[0] == pytest.approx(means[1], rel=0.05)


def test_draft_is_for_followers() -> None:
    rows = found(
        "sessions-off",
        "incremental_fetch",
        "SELECT client_kind, verdict, count(*) FROM fetch_session_outcomes"
        " WHERE variant = 'incremental_draft' AND NOT is_full GROUP BY ALL",
    )
    assert rows == [("follower", "replayed", 781)]

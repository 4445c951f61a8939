"""Histories of heartbeats that read like the draft KIP and like Kafka's own tests."""

from __future__ import annotations

import pytest
from notation.heartbeats import NotationError, check

RUNNING = """
A unfences with 7 -> lowest 7
B unfences with 7 -> lowest 7, raw -1 | lowest 7
A heartbeats 7    -> lowest 7, raw -1 | lowest 7
B heartbeats 7    -> lowest 7
"""


def test_example_of_the_draft() -> None:
    """ "Read-after-write visibility": A writes 10 while B is at 8.

    The draft's controller knows 8 from B's FETCH. Existing heartbeats alone tell it 7: what B had
    when it last sent one.
    """
    check(
        RUNNING
        + """
        B fetches 8
        A fetches 10
        A heartbeats 10 -> lowest 7 | lowest 8
        B fetches 10
        B heartbeats 10 -> lowest 10
        """
    )


def test_broker_that_asks_first_learns_one_interval_later() -> None:
    """A's report comes with the value from before B's: with heartbeats only, it costs a round."""
    check(
        RUNNING
        + """
        A heartbeats 10 -> lowest 7
        B heartbeats 10 -> lowest 10
        A heartbeats 10 -> lowest 10
        """
    )


def test_calculate_next_broker_state() -> None:
    """BrokerHeartbeatManagerTest.testCalculateNextBrokerState: lowestActiveOffset.

    1 (here A) holds 98 as the lowest; who is fenced (D) or shutting down (E) does not count; when A
    is fenced, B's 99 is the lowest.
    """
    history = """
    A unfences with 98
    A heartbeats 98
    B unfences with 99
    B heartbeats 99
    D registers
    C unfences with 99
    C heartbeats 99  -> lowest 98
    E unfences with 97
    E stops with 97  -> lowest 98
    5 s pass
    B heartbeats 99
    C heartbeats 99
    5.15 s pass
    B heartbeats 99  -> lowest 99
    """
    check(history)


def test_registration_change_resets_offset_until_the_next_heartbeat() -> None:
    check(
        RUNNING
        + """
        C unfences with 7 -> lowest 7
        A heartbeats 9    -> lowest 7, raw -1 | lowest 7
        B heartbeats 9    -> lowest 7, raw -1 | lowest 7
        C heartbeats 9    -> lowest 9
        """
    )


def test_lagging_broker_that_unfences_pulls_raw_down_and_the_other_not() -> None:
    """The value that never falls is then above what that broker has: the draft does not say so."""
    check(
        RUNNING
        + """
        A heartbeats 100
        B heartbeats 101  -> lowest 100
        C unfences with 50 -> lowest 100, raw 50
        C heartbeats 50    -> lowest 100, raw 50
        C heartbeats 102   -> lowest 100
        """
    )


def test_new_controller_has_heard_nobody() -> None:
    """``activate``: every offset is -1 until its broker's next heartbeat."""
    check(
        RUNNING
        + """
        controller 2 takes over
        A heartbeats 9  -> lowest 7, raw -1 | lowest 7
        B heartbeats 9  -> lowest 9
        """
    )


def test_silent_broker_holds_the_offset_until_the_session_and_a_scan_are_over() -> None:
    """9 s, looked at every 1.125 s. B was last heard just before the first 5 s pass."""
    check(
        RUNNING
        + """
        5 s pass
        A heartbeats 20  -> lowest 7
        5 s pass
        A heartbeats 21  -> lowest 7
        0.1 s pass
        A heartbeats 22  -> lowest 22
        """
    )


def test_broker_in_controlled_shutdown_does_not_count() -> None:
    check(
        RUNNING
        + """
        A heartbeats 9  -> lowest 7
        B stops with 7  -> lowest 9
        A heartbeats 10 -> lowest 10
        B is gone with 8 -> lowest 10
        """
    )


def test_broker_in_controlled_shutdown_counts_if_asked_for() -> None:
    """The draft says "all unfenced brokers", and it is unfenced."""
    check(
        RUNNING
        + """
        A heartbeats 9   -> lowest 7
        B stops with 7   -> lowest 7
        A heartbeats 10  -> lowest 7, raw -1 | lowest 7
        B stops with 9   -> lowest 9
        B is gone with 9 -> lowest 10
        """,
        counts_stopping=True,
    )


def test_nobody_counts() -> None:
    check(
        """
        A registers       -> nobody counts
        A unfences with 7 -> lowest 7
        A is gone with 7  -> nobody counts
        """
    )


def test_restarted_broker_counts_when_it_unfences() -> None:
    check(
        RUNNING
        + """
        B restarts         -> lowest 7
        A heartbeats 12    -> lowest 12
        B unfences with 11 -> lowest 12, raw 11
        """
    )


@pytest.mark.parametrize(
    ("history", "complaint"),
    [
        ("A sleeps", "line 1: 'A sleeps' is no event"),
        ("A registers -> low", "line 1: 'low' is no outcome"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(history: str, complaint: str) -> None:
    with pytest.raises(NotationError) as error:
        check(history)
    assert complaint in str(error.value)


def test_disagreement_names_line_reading_and_finding() -> None:
    with pytest.raises(AssertionError, match=r"line 1, heartbeats only.*\n.*found: lowest 7"):
        check("A unfences with 7 -> lowest 8")

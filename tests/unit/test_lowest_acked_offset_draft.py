"""Histories of heartbeats that read like the draft KIP and like Kafka's own tests."""

import pytest
from notation.heartbeats import check

HISTORIES = {
    "unfencing": """
        A unfences with 7 -> lowest 7
        B unfences with 7 -> lowest 7, raw -1 | lowest 7
        A heartbeats 7    -> lowest 7, raw -1 | lowest 7
        B heartbeats 7    -> lowest 7
    """,
    "example of the draft": """
        # "Read-after-write visibility": A writes 10 while B is at 8. The draft's controller knows 8
        # from B's FETCH. Existing heartbeats alone show 7: what B had when it last sent one.
        A, B run with 7
        B fetches 8
        A fetches 10
        A heartbeats 10 -> lowest 7 | lowest 8
        B fetches 10
        B heartbeats 10 -> lowest 10
    """,
    "BrokerHeartbeatManagerTest.testCalculateNextBrokerState: lowestActiveOffset": """
        # 1 (here A) holds 98 as the lowest; who is fenced (D) or shutting down (E) does not count;
        # when A is fenced, B's 99 is the lowest.
        A unfences with 98
        A heartbeats 98
        B unfences with 99
        B heartbeats 99
        D registers
        C unfences with 99
        C heartbeats 99  -> lowest 98
        E unfences with 97
        # Its shutdown offset is that of records which follow the response: it counts once more.
        E stops with 97  -> lowest 98, raw 97
        5 s pass
        B heartbeats 99
        C heartbeats 99
        5.15 s pass
        B heartbeats 99  -> lowest 99
    """,
    "a lagging broker that unfences pulls raw down, and the other not": """
        # What never falls is then above what that broker has: the draft does not see it.
        A, B run with 7
        A heartbeats 100
        B heartbeats 101   -> lowest 100
        C unfences with 50 -> lowest 100, raw 50
        C heartbeats 50    -> lowest 100, raw 50
        C heartbeats 102   -> lowest 100
    """,
    "activate: a new controller has every offset at -1 until its broker's next heartbeat": """
        A, B run with 7
        controller 2 takes over
        A heartbeats 9  -> lowest 7, raw -1 | lowest 7
        B heartbeats 9  -> lowest 9
    """,
    "a silent broker holds the offset until its session and a scan are over": """
        # 9 s, scanned every 1.125 s. B's last heartbeat comes just before the first 5 s pass.
        A, B run with 7
        5 s pass
        A heartbeats 20  -> lowest 7
        5 s pass
        A heartbeats 21  -> lowest 7
        0.1 s pass
        A heartbeats 22  -> lowest 22
        B heartbeats 22  -> lowest 22  # it unfences, so its registration changes
        A heartbeats 23  -> lowest 22, raw -1 | lowest 22
    """,
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_history(history: str) -> None:
    check(history)


def test_broker_in_controlled_shutdown_counts_by_setting() -> None:
    """The draft has "all unfenced brokers", and it is unfenced."""
    check(
        """
        A, B run with 7
        A heartbeats 9   -> lowest 7
        B stops with 7   -> lowest 7
        A heartbeats 10  -> lowest 7, raw -1 | lowest 7
        B stops with 9   -> lowest 9
        B is gone with 9 -> lowest 10
        """,
        counts_stopping=True,
    )


def test_disagreement_names_line_reading_and_finding() -> None:
    with pytest.raises(AssertionError, match=r"line 1, heartbeats only.*\n.*found: lowest 7"):
        check("A unfences with 7 -> lowest 8")

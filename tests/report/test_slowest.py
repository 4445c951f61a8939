"""Slow requests in words, where recordings have no such case: constructed rows of the tables."""

from typing import Any

import pytest
from duckdb_tables import Row, database_of, rows_in

from kip_replay.pipelines.page import words
from kip_replay.pipelines.page.slowest import MOST, NAME_CHARACTERS
from kip_replay.pipelines.page.view import Slow, Slowest
from kip_replay.pipelines.rules.hwm_parking.slowest import slowest as hwm_parking
from kip_replay.pipelines.rules.incremental_fetch.slowest import slowest as incremental_fetch
from kip_replay.pipelines.rules.lowest_acked_offset.slowest import slowest as lowest_acked_offset
from kip_replay.pipelines.rules.min_isr_acks.slowest import slowest as min_isr_acks
from kip_replay.replay.tables import TABLES

#: Tags, a right-to-left mark, a quote, a line end and a null, longer than a sentence has room for.
HOSTILE = "<script>alert('1')</script>\u202e\"\n\x00" + "x" * 100
PARTS = ("request_queue_ms", "local_ms", "remote_ms", "response_queue_ms", "send_ms")
#: What rows of outcomes have in common.
ROW: dict[str, Any] = {"recording": "r", "request_id": "a", "parameter": "none", "client_id": "c"}


def ms(at: float) -> int:
    """Microseconds of a time that counts milliseconds from midnight."""
    return round(at * 1000)


def request(request_id: str, api_name: str, at: float, total: float, **other: Any) -> Row:
    """A request whose time is all in the handler, unless it says otherwise."""
    row: dict[str, Any] = ROW | dict.fromkeys(PARTS, 0.0) | {"request_id": request_id, "node_id": 1}
    row |= {"source_file": "1.log", "line_number": int(request_id, 36), "api_name": api_name}
    row |= dict.fromkeys(("received_at", "dequeued_at", "handled_at"), ms(at))
    row |= dict.fromkeys(("built_at", "completed_at"), ms(at + total))
    return row | {"total_ms": total, "local_ms": total} | other


def view(name: str, **rows: list[Row]) -> list[dict[str, Any]]:
    found = database_of({TABLES[table]: rows_in(TABLES[table], of) for table, of in rows.items()})
    return found.sql(f"SELECT * FROM {name} ORDER BY rank").to_arrow_table().to_pylist()


def only(slowest: Any, **rows: list[Row]) -> Slow:
    """The one row of the report."""
    (slow,) = report(slowest, **rows).rows
    return slow._replace(sentence=slow.sentence.replace(words.SPACE, " "))


def report(slowest: Any, **rows: list[Row]) -> Slowest:
    filled = {TABLES[table]: rows_in(TABLES[table], of) for table, of in rows.items()}
    found = slowest(database_of(filled))
    assert set(found) == {"r"}
    one: Slowest = found["r"]
    return one


# --- all requests --------------------------------------------------------------------------------


def test_what_a_client_wishes_to_wait_is_not_slow() -> None:
    cases = {
        "a": ("FETCH", 502, 500, 2),  # its max.wait is over
        "b": ("FETCH", 330, 320, 10),  # data came
        "c": ("FETCH", 1100, 1090, 600),  # for longer than it wished
        "d": ("FETCH", 40, 0, 40),
        "e": ("JOIN_GROUP", 3000, 2990, 10),
        "f": ("SYNC_GROUP", 3000, 2990, 10),
        "g": ("PRODUCE", 300, 290, 300),
    }
    requests = [
        request(n, api, 0, total, remote_ms=waited, local_ms=total - waited)
        | {"handled_at": ms(total - waited), "max_wait_ms": 500, "is_cluster_metadata": False}
        for n, (api, total, waited, _) in cases.items()
    ]
    fetches = [row for row in requests if row["api_name"] == "FETCH"]
    found = view("slowest_requests", requests=requests, fetches=fetches)
    slow_ms = {row["line_number"]: row["slow_ms"] for row in found}
    assert slow_ms == {int(n, 36): slow for n, (*_, slow) in cases.items()}
    ranked = [row for row in found if row["api_name"] == "FETCH"]
    assert [row["rank"] for row in ranked] == [1, 2, 3, 4]
    assert [row["longest_part"] for row in ranked[:2]] == ["remote", "local"]


# --- min_isr_acks --------------------------------------------------------------------------------

ACKS = ROW | {"node_id": 1, "topic": "t", "partition": 0, "acks": -1, "base_offset": 7}
ACKS |= {"isr": [1, 2, 3], "min_insync_replicas": 2, "recorded_error": 0}
ACKS |= {"request_recorded_latency_ms": 1000.0}


def produce(**outcome: Any) -> dict[str, list[Row]]:
    waited = request("a", "PRODUCE", 0, 1000, remote_ms=1000.0, local_ms=0.0)
    return {"requests": [waited], "produce_ack_outcomes": [ACKS | outcome]}


def test_a_produce_that_no_fetch_explains() -> None:
    one = only(min_isr_acks, **produce(base_offset=None, isr=None, reason="the ISR is not there"))
    assert "Which follower it waited for is not in the log." in one.sentence
    assert "would have responded is unknown: the ISR is not there." in one.sentence
    outcome = produce(recorded_error=7, request_min_isr_latency_ms=990.0, missing_followers=[2, 3])
    timed_out = only(min_isr_acks, **outcome)
    assert "It got error 7." in timed_out.sentence
    assert "No FETCH of follower 2 (and 1 other), in sync at the append," in timed_out.sentence
    assert "left the ISR" not in timed_out.sentence
    assert timed_out.sentence.endswith("it would have waited as long.")


@pytest.mark.parametrize(
    ("replayed", "said"),
    [
        (1004.0, "before the response: it had left the ISR by then."),
        (4000.0, "before the response: acks=all replayed takes 4,000 ms."),
        (None, "before the response: why it was not waited for is not in the log."),
    ],
)
def test_a_follower_that_was_not_waited_for(replayed: float | None, said: str) -> None:
    outcome = produce(isr=[1, 2], missing_followers=[2], request_acks_all_latency_ms=replayed)
    one = only(min_isr_acks, **outcome)
    fetch = "No FETCH of follower 2, in sync at the append, beyond it is in the log"
    assert f"{fetch} {said}" in one.sentence


def test_names_from_logs_are_shortened_and_their_controls_are_written_out() -> None:
    tables = produce(topic=HOSTILE)
    tables["requests"] = [
        {**row, "client_id": HOSTILE, "source_file": HOSTILE} for row in tables["requests"]
    ]
    one = only(min_isr_acks, **tables)
    assert one.sentence.isprintable()
    for name in (one.client, one.topic):
        assert len(name) == NAME_CHARACTERS
        assert name in one.sentence
        assert "\\u202e" in name
    assert one.source.isprintable()
    assert len(one.sentence) < 400
    tables["requests"] = [{**row, "client_id": None} for row in tables["requests"]]
    assert only(min_isr_acks, **tables).client == "a client without a name"


def test_no_more_rows_than_are_read() -> None:
    requests = [request(f"{n:x}", "PRODUCE", n, 10 + n) for n in range(1, 151)]
    slowest = report(min_isr_acks, requests=requests)
    assert [row.ms for row in slowest.rows] == [float(ms) for ms in range(160, 160 - MOST, -1)]
    assert slowest.note.startswith("20 of 150 PRODUCEs")
    assert len(view("slow_produces", requests=requests)) == 100


# --- hwm_parking ---------------------------------------------------------------------------------

REPLICA = ROW | {"leader_id": 1, "leader_epoch": 1, "replica_id": 2}
LAG = REPLICA | {"high_watermark": 5, "leader_at": ms(0), "learned_at": ms(100), "lag_ms": 100.0}
LAG |= {"phase": "steady", "verdict": "replayed", "is_voter": False}


def learned(completion: str, **fetch: Any) -> dict[str, list[Row]]:
    line = request("a", "FETCH", -10, 110)
    parked = REPLICA | {"variant": "recorded", "sequence": 3, "recorded_request_id": "a"}
    parked |= {"received_at": ms(-10), "built_at": ms(100), "fetch_offset": 5}
    parked |= {"response_high_watermark": 5, "decision": "parked", "parked_ms": 105.0}
    return {
        "requests": [line],
        "fetches": [line | {"max_wait_ms": 500, "replica_id": 2}],
        "fetch_parking_outcomes": [parked | {"completion": completion} | fetch],
        "high_watermark_lag": [
            LAG | {"variant": "recorded"},
            LAG | {"variant": "without_kip_1166", "lag_ms": 300.0},
            LAG | {"variant": "recorded", "replica_id": 3, "verdict": "unknown", "lag_ms": None},
        ],
    }


@pytest.mark.parametrize(
    ("completion", "said"),
    [
        ("timeout", "was parked for 105 ms, its max wait being 500 ms."),
        ("drain", "was parked for 105 ms, until it was returned empty, when the controller’s"),
        ("unexplained", "was returned after 105 ms, which no rule explains."),
        ("error", "was parked for 105 ms, until it was returned with an error."),
    ],
)
def test_what_returned_a_fetch(completion: str, said: str) -> None:
    one = only(hwm_parking, **learned(completion))
    assert f"Its FETCH, of offset 5, was there already and {said}" in one.sentence
    assert one.sentence.endswith("With KIP-1166 it would have been an unknown time.")
    assert one.source == "1.log:10"


def test_a_replica_that_runs_kip_1166() -> None:
    tables = learned(
        "high_watermark", replica_high_watermark=4, decision="immediate", parked_ms=0.0
    )
    assert only(hwm_parking, **tables).sentence.endswith("without, it would have been 300 ms.")
    assert "; 1 unknown one left out." in report(hwm_parking, **tables).note


# --- lowest_acked_offset -------------------------------------------------------------------------

WRITE = ROW | {"controller_id": 1, "api_name": "CREATE_TOPICS", "offset_high": 9}
WRITE |= {"responded_at": ms(10), "last_broker_id": 3, "applied_everywhere_at": ms(910)}
WRITE |= {"stale_window_ms": 900.0, "verdict": "replayed"}


def write(shown_at: int | None) -> dict[str, list[Row]]:
    seen = ROW | {"broker_id": 3, "variant": "lowest_acked_offset", "evidence": "estimated"}
    seen |= {"applied_at_earliest": ms(5), "shown_at": shown_at}
    wait = {"variant": "lowest_acked_offset", "read_after_write_ms": 2000.0}
    return {
        "requests": [request("a", "CREATE_TOPICS", 0, 10)],
        "metadata_write_outcomes": [WRITE | {"variant": "estimated"}, WRITE | wait],
        "metadata_write_visibility": [seen],
    }


def test_a_broker_that_was_fenced_before_it_showed_a_write() -> None:
    fenced = only(lowest_acked_offset, **write(ms(5000)))
    assert "broker 3 was stale for 900 ms, until it was fenced, estimated." in fenced.sentence
    assert "commit is not in the log. No heartbeat in the logs shows" in fenced.sentence
    assert fenced.topic == ""
    shown = only(lowest_acked_offset, **write(ms(910)))
    assert "broker 3 was stale for 900 ms, estimated." in shown.sentence
    assert shown.sentence.endswith("takes the client 2,000 ms with the heartbeats in the log.")


# --- incremental_fetch ---------------------------------------------------------------------------


def sized(variant: str, request_id: str, request_bytes: int | None, error: int = 0) -> Row:
    row: dict[str, Any] = ROW | {
        "variant": variant,
        "request_id": request_id,
        "node_id": 1,
        "replica_id": -1,
    }
    row |= {"request_bytes": request_bytes, "response_bytes": 100, "record_bytes": 0}
    row |= {"client_kind": "consumer", "request_partitions": 4, "is_full": True}
    return row | {"session_id": 0, "session_epoch": 0, "session_error": error}


def test_what_sessions_save_is_unknown_where_some_of_it_is() -> None:
    lines = [request(n, "FETCH", 0, 10) for n in "ab"]
    recorded = [sized("recorded", "a", 900), sized("recorded", "b", None, 71)]
    tables = {
        "requests": lines,
        "fetch_session_outcomes": [*recorded, sized("incremental", "a", None)],
    }
    one = only(incremental_fetch, **tables)
    assert one.sentence.startswith("c’s 2 FETCHes to broker 1 cost 1.0 kB besides records.")
    assert "1 response has a session error. What sessions would save is unknown." in one.sentence
    assert "; 1 FETCH of unknown size left out" in report(incremental_fetch, **tables).note

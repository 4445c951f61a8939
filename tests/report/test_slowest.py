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


def ms(at: float) -> int:
    """Microseconds of a time that counts milliseconds from midnight."""
    return round(at * 1000)


def request(request_id: str, api_name: str, at: float, total: float, **other: Any) -> Row:
    """A request whose time is all in the handler, unless it says otherwise."""
    row = dict.fromkeys(PARTS, 0.0) | {
        "recording": "r",
        "request_id": request_id,
        "node_id": 1,
        "source_file": "1.log",
        "line_number": int(request_id, 36),
        "api_name": api_name,
        "total_ms": total,
        "local_ms": total,
        "received_at": ms(at),
        "dequeued_at": ms(at),
        "handled_at": ms(at),
        "built_at": ms(at + total),
        "completed_at": ms(at + total),
        "client_id": "c",
    }
    return row | other


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
    def fetch(request_id: str, at: float, total: float, waited: float) -> tuple[Row, Row]:
        row = request(request_id, "FETCH", at, total, remote_ms=waited, local_ms=total - waited)
        row |= {"handled_at": ms(at + total - waited)}
        return row, row | {"max_wait_ms": 500, "is_cluster_metadata": False}

    pairs = [
        fetch("a", 0, 502, 500),  # its max.wait is over
        fetch("b", 0, 330, 320),  # data came
        fetch("c", 0, 1100, 1090),  # for longer than it wished
        fetch("d", 0, 40, 0),
    ]
    groups = [
        request(n, f"{api}_GROUP", 0, 3000, remote_ms=2990.0, local_ms=10.0)
        for n, api in (("e", "JOIN"), ("f", "SYNC"))
    ]
    produce = request("g", "PRODUCE", 0, 300, remote_ms=290.0, local_ms=10.0)
    found = view(
        "slowest_requests",
        requests=[*(row for row, _ in pairs), *groups, produce],
        fetches=[row for _, row in pairs],
    )
    slow = {(row["line_number"], row["api_name"]): row for row in found}
    fetches = [row for row in found if row["api_name"] == "FETCH"]
    assert [(row["rank"], row["line_number"], row["slow_ms"]) for row in fetches] == [
        (1, 12, 600),
        (2, 13, 40),
        (3, 11, 10),
        (4, 10, 2),
    ]
    assert [row["longest_part"] for row in fetches[:2]] == ["remote", "local"]
    assert slow[14, "JOIN_GROUP"]["slow_ms"] == slow[15, "SYNC_GROUP"]["slow_ms"] == 10
    assert slow[16, "PRODUCE"]["slow_ms"] == 300
    assert slow[16, "PRODUCE"]["longest_part"] == "remote"


# --- min_isr_acks --------------------------------------------------------------------------------

ACKS = {
    "recording": "r",
    "parameter": "none",
    "node_id": 1,
    "topic": "t",
    "partition": 0,
    "acks": -1,
    "base_offset": 7,
    "isr": [1, 2, 3],
    "min_insync_replicas": 2,
    "recorded_error": 0,
    "request_recorded_latency_ms": 1000.0,
}


def produce(**outcome: Any) -> dict[str, list[Row]]:
    waited = request("a", "PRODUCE", 0, 1000, remote_ms=1000.0, local_ms=0.0)
    return {"requests": [waited], "produce_ack_outcomes": [ACKS | {"request_id": "a"} | outcome]}


def test_a_produce_that_no_fetch_explains() -> None:
    one = only(min_isr_acks, **produce(base_offset=None, isr=None, reason="the ISR is not there"))
    assert "Which follower it waited for is not in the log." in one.sentence
    assert "would have responded is unknown: the ISR is not there." in one.sentence
    timed_out = only(min_isr_acks, **produce(recorded_error=7, request_min_isr_latency_ms=990.0))
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
    one = only(min_isr_acks, **produce(isr=[1, 2], request_acks_all_latency_ms=replayed))
    fetch = "No FETCH of follower 2, in sync at the append, beyond it is in the log"
    assert f"{fetch} {said}" in one.sentence


def test_a_produce_that_waits_for_nobody() -> None:
    one = only(min_isr_acks, **produce(acks=1))
    assert one.sentence.endswith("1,000 ms waiting. With acks=1 it waits for no follower.")


def test_a_produce_of_several_partitions_whose_client_is_throttled() -> None:
    tables = produce(request_min_isr_latency_ms=20.0)
    (outcome,) = tables["produce_ack_outcomes"]
    tables["produce_ack_outcomes"] = [{**outcome, "partition": n} for n in range(3)]
    tables["requests"] = [{**row, "throttle_ms": 250.0} for row in tables["requests"]]
    one = only(min_isr_acks, **tables)
    assert one.sentence.startswith("c’s PRODUCE to t-0 and 2 other partitions at 00:00:00.000 UTC")
    assert "A quota throttles the client for 250 ms more. With acks=min" in one.sentence


def test_a_fetch_that_was_there_and_took_long_to_be_handled() -> None:
    tables = produce(request_min_isr_latency_ms=20.0, isr=[1, 2])
    fetch = request("b", "FETCH", 15, 900)
    at_8 = {"topic": "t", "partition": 0, "fetch_offset": 8}
    tables["requests"].append(fetch)
    tables["fetches"] = [
        fetch
        | {
            "replica_id": 2,
            "is_cluster_metadata": False,
            "error_code": 0,
            "request_partitions": [at_8],
            "handled_at": ms(915),
        }
    ]
    one = only(min_isr_acks, **tables)
    assert (
        "of offset 8 (1.log:11), came after 15.0 ms, and took 900 ms to be handled." in one.sentence
    )
    assert " Follower 2 had it last" in one.sentence
    (outcome,) = tables["produce_ack_outcomes"]
    tables["produce_ack_outcomes"] = [{**outcome, "reason": "lines are missing"}]
    assert (
        "As far as the log shows, follower 2 had it last" in only(min_isr_acks, **tables).sentence
    )


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
    assert (
        only(
            min_isr_acks,
            **produce() | {"requests": [{**row, "client_id": None} for row in tables["requests"]]},
        ).client
        == "a client without a name"
    )


def test_no_more_rows_than_are_read() -> None:
    requests = [request(f"{n:x}", "PRODUCE", n, 10 + n) for n in range(1, 151)]
    slowest = report(min_isr_acks, requests=requests)
    assert [row.ms for row in slowest.rows] == [float(ms) for ms in range(160, 160 - MOST, -1)]
    assert slowest.note.startswith("20 of 150 PRODUCEs")
    assert len(view("slow_produces", requests=requests)) == 100


# --- hwm_parking ---------------------------------------------------------------------------------

LAG = {
    "recording": "r",
    "parameter": "none",
    "leader_id": 1,
    "leader_epoch": 1,
    "replica_id": 2,
    "high_watermark": 5,
    "leader_at": ms(0),
    "learned_at": ms(100),
    "lag_ms": 100.0,
    "phase": "steady",
    "verdict": "replayed",
    "is_voter": False,
}


def learned(completion: str, **fetch: Any) -> dict[str, list[Row]]:
    line = request("a", "FETCH", -10, 110)
    parked = {
        "recording": "r",
        "parameter": "none",
        "variant": "recorded",
        "leader_id": 1,
        "leader_epoch": 1,
        "replica_id": 2,
        "sequence": 3,
        "recorded_request_id": "a",
        "received_at": ms(-10),
        "built_at": ms(100),
        "fetch_offset": 5,
        "response_high_watermark": 5,
        "decision": "parked",
        "parked_ms": 105.0,
    }
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


def test_a_fetch_that_returned_the_high_watermark_before() -> None:
    tables = learned("records")
    (fetch,) = tables["fetch_parking_outcomes"]
    before = {"sequence": 2, "recorded_request_id": "b", "built_at": ms(20), "parked_ms": 0.0}
    for high_watermark, said in ((4, "still with 4 (1.log:11)."), (-1, "without one (1.log:11).")):
        stale = fetch | before | {"response_high_watermark": high_watermark}
        tables["fetch_parking_outcomes"] = [fetch, stale]
        tables["requests"] = [request(n, "FETCH", 0, 10) for n in "ab"]
        one = only(hwm_parking, **tables)
        before_it = f"Its FETCH before was returned at once {said} The next, of offset 5,"
        assert before_it in one.sentence


def test_a_replica_that_runs_kip_1166() -> None:
    tables = learned(
        "high_watermark", replica_high_watermark=4, decision="immediate", parked_ms=0.0
    )
    assert only(hwm_parking, **tables).sentence.endswith("without, it would have been 300 ms.")
    assert "; 1 unknown one left out." in report(hwm_parking, **tables).note


# --- lowest_acked_offset -------------------------------------------------------------------------

WRITE = {
    "recording": "r",
    "request_id": "a",
    "parameter": "none",
    "controller_id": 1,
    "api_name": "CREATE_TOPICS",
    "client_id": "c",
    "offset_high": 9,
    "responded_at": ms(10),
    "last_broker_id": 3,
    "applied_everywhere_at": ms(910),
    "stale_window_ms": 900.0,
    "verdict": "replayed",
}


def write(applied_at: int | None, **tables: list[Row]) -> dict[str, list[Row]]:
    seen = {
        "recording": "r",
        "request_id": "a",
        "broker_id": 3,
        "variant": "lowest_acked_offset",
        "parameter": "none",
        "evidence": "estimated",
        "applied_at_earliest": ms(5),
        "applied_at": applied_at,
    }
    wait = {"variant": "lowest_acked_offset", "read_after_write_ms": 2000.0}
    return {
        "requests": [request("a", "CREATE_TOPICS", 0, 10)],
        "metadata_write_outcomes": [WRITE | {"variant": "estimated"}, WRITE | wait],
        "metadata_write_visibility": [seen],
        **tables,
    }


def test_a_broker_that_was_fenced_before_it_applied_a_write() -> None:
    fenced = only(lowest_acked_offset, **write(ms(5000)))
    assert "broker 3 was stale for 900 ms, until it was fenced, estimated." in fenced.sentence
    assert (
        "learned of the commit is not in the log. No heartbeat in the logs shows" in fenced.sentence
    )
    assert fenced.topic == ""
    applied = only(lowest_acked_offset, **write(ms(910)))
    assert "broker 3 was stale for 900 ms, estimated." in applied.sentence
    beat = {"request_id": "b", "node_id": 2, "broker_id": 3, "error_code": 0}
    to_another = only(
        lowest_acked_offset,
        **write(
            ms(910),
            requests=[request("a", "CREATE_TOPICS", 0, 10), request("b", "BROKER_HEARTBEAT", 5, 1)],
            broker_heartbeats=[{"recording": "r", "current_metadata_offset": 9, **beat}],
        ),
    )
    assert "shows it, at offset 9, went to controller 2 (1.log:11)." in to_another.sentence
    assert applied.sentence.endswith("takes the client 2,000 ms with the heartbeats in the log.")


# --- incremental_fetch ---------------------------------------------------------------------------

SESSION = {
    "recording": "r",
    "parameter": "none",
    "node_id": 1,
    "client_id": "c",
    "client_kind": "consumer",
    "replica_id": -1,
    "request_partitions": 4,
    "is_full": True,
    "session_id": 0,
    "session_epoch": 0,
    "session_error": 0,
    "record_bytes": 0,
}


def sized(
    variant: str, request_id: str, request: int | None, response: int = 100, **other: Any
) -> Row:
    size = {"request_bytes": request, "response_bytes": response}
    return SESSION | {"variant": variant, "request_id": request_id} | size | other


def test_what_sessions_save_is_unknown_where_some_of_it_is() -> None:
    lines = [request(n, "FETCH", 0, 10) for n in "ab"]
    recorded = [sized("recorded", "a", 900), sized("recorded", "b", None, session_error=71)]
    tables = {
        "requests": lines,
        "fetch_session_outcomes": [*recorded, sized("incremental", "a", None)],
    }
    one = only(incremental_fetch, **tables)
    assert one.sentence.startswith("c’s 2 FETCHes to broker 1 cost 1.0 kB besides records.")
    assert "1 response has a session error. What sessions would save is unknown." in one.sentence
    assert "; 1 FETCH of unknown size left out" in report(incremental_fetch, **tables).note


def test_a_client_with_sessions_of_which_some_were_refused() -> None:
    lines = [request(n, "FETCH", 0, 10) for n in "abc"]
    incremental = {"is_full": False, "session_id": 5}
    recorded = [
        sized("recorded", "a", 900),
        sized("recorded", "b", 100, session_epoch=1, **incremental),
        sized("recorded", "c", 100, session_epoch=2, **incremental),
    ]
    refused = {"replica_id": -1, "session_epoch": 0, "response_session_id": 0, "error_code": 0}
    one = only(
        incremental_fetch,
        requests=lines,
        fetches=[{**lines[0], **refused, "is_cluster_metadata": False}],
        fetch_session_outcomes=[*recorded, *(row | {"variant": "incremental"} for row in recorded)],
    )
    assert "2 are incremental, 1 requests a new session (epoch 0). 1 request for" in one.sentence
    assert one.sentence.endswith("lists 4 partitions: 900 B and 100 B back, 0 of them records.")

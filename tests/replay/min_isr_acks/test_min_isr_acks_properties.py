"""Whatever producers, followers and controllers do: what must hold of every replayed leader."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from notation.leader_log import EPOCH_US, REPLICAS, History, Row, ms

from kip_replay.replay.min_isr_acks.events import LeaderEvent
from kip_replay.replay.model.partition import Errors

pytestmark = pytest.mark.property

OF = ("partition", "request")
ISRS = [(11,), (11, 12), (11, 13), (11, 12, 13)]
_ACTION = st.sampled_from(
    ["produce", "produce", "produce_0", "fetch", "fetch", "fetch", "isr", "consumer"]
)
#: How long after its begin a handler is done, at the least.
_HANDLERS_MS = st.sampled_from([0.5, 0.5, 3, 30])


@st.composite
def histories(draw: st.DrawFn, *, alters: bool = False) -> History:
    """A leader whose batches hold one to three records, followers that lag, an ISR that changes.

    Consumers, with a session or without, are parked or not while handlers overlap. ``alters``:
    min.insync.replicas changes too.
    """
    min_isr = draw(st.integers(1, 3))
    isr = draw(st.sampled_from(ISRS))
    history = History(isr=isr, min_isr=min_isr)
    now, log_end, edges = 0.0, 0, [0]
    stand = dict.fromkeys(REPLICAS[1:], 0)
    for action in draw(st.lists(_ACTION, min_size=3, max_size=40)):
        now += draw(st.sampled_from([1, 2, 7, 40, 900]))
        records = draw(st.integers(1, 3))
        if action == "fetch":
            replica = draw(st.sampled_from(REPLICAS[1:]))
            offset = stand[replica]
            ahead = [edge for edge in edges if edge >= offset]
            stand[replica] = draw(st.sampled_from(ahead))
            history.fetch(now, replica, offset, until_ms=now + draw(_HANDLERS_MS))
        elif not alters and action == "consumer":
            session = draw(st.integers(0, 2))
            history.consumer_fetch(
                now,
                *draw(st.sets(st.integers(0, 1))),
                forgets=sorted(draw(st.sets(st.integers(0, 1)))) if session else (),
                until_ms=now + draw(st.sampled_from([0, 5, 500])),
                session=session,
                full=draw(st.booleans()) or not session,
            )
        elif alters and action == "consumer":
            min_isr = draw(st.integers(1, 3))
            history.config(now, min_isr)
        elif action == "isr":
            isr = draw(st.sampled_from(ISRS))
            history.alter_partition(now, isr, now + 0.5)
        elif action == "produce" and len(isr) < min_isr:
            history.produce(now, -1, error=Errors.NOT_ENOUGH_REPLICAS)
        else:
            blind = action == "produce_0"
            timeout = draw(st.sampled_from([20, 30_000]))
            history.produce(
                now, None if blind else log_end, acks=0 if blind else -1, timeout_ms=timeout
            )
            log_end += records
            edges.append(log_end)
    return history


def replay(history: History, sweep: Sequence[int] = (), **options: Any) -> list[Row]:
    """Rows in the order of appends, the variant with the config in force first."""
    rows = history.rows(sweep=sweep, **options)
    return sorted(rows, key=lambda row: (row["parameter_value"] != -1, row["request_id"]))


@given(st.one_of(histories(), histories(alters=True)), st.sampled_from([None, 300_000]))
def test_whole_replay_keeps_the_protocol(history: History, until_ms: float | None) -> None:
    rows = replay(history, sweep=(1, 2, 3), until_ms=until_ms)
    produced = {event.request_id: event for event in history.events if event.kind == "produce"}
    in_force = [row for row in rows if row["parameter_value"] == -1]
    assert sorted(row["request_id"] for row in in_force) == sorted(produced)
    for row in rows:
        check_verdict(row, produced[row["request_id"]].acks)
        check_order_of_responses(row)
        check_timeout(row, (produced[row["request_id"]].timeout_us or 0) / 1000)
    if not any(event.operation == "set" for event in history.events):
        check_copies(in_force, [event for event in history.in_order() if event.kind == "fetch"])
    check_fewer_replicas_respond_sooner(rows)
    passed = [r for r in in_force if r["base_offset"] is not None and r["visible_at"]]
    times = [row["visible_at"] for row in sorted(passed, key=lambda row: row["base_offset"])]
    assert times == sorted(times)


def check_verdict(row: Row, acks: int | None) -> None:
    if acks == 0:
        assert row["verdict"] == "not_applicable"
        return
    known = row["acks_all_error"] is not None and row["min_isr_error"] is not None
    assert (row["verdict"] == "replayed") == known
    assert (row["reason"] is None) == known


def check_order_of_responses(row: Row) -> None:
    """Early is never after late, whatever acks a batch was sent with, and bounds are around it."""
    early, late = row["partition_min_isr_latency_ms"], row["partition_acks_all_latency_ms"]
    if row["acks_all_error"] == Errors.NONE:
        assert row["min_isr_error"] in (Errors.NONE, None)
        assert early is None or late is None or early <= late
    if row["min_isr_error"] in (Errors.NONE, Errors.REQUEST_TIMED_OUT) and row["visible_at"]:
        assert row["min_isr_acked_at"] <= row["visible_at"]
    assert row["exposure_ms"] is None or row["exposure_ms"] >= 0
    for name in ("acks_all", "min_isr"):
        best, low, high = (
            row[f"request_{name}_latency{which}_ms"] for which in ("", "_earliest", "_latest")
        )
        assert (best is None) or low <= best <= high


def check_timeout(row: Row, timeout_ms: float) -> None:
    for which in ("acks_all", "min_isr"):
        latency = row[f"partition_{which}_latency_ms"]
        if latency is not None:
            assert latency <= timeout_ms + 1
            assert row[f"{which}_error"] != Errors.REQUEST_TIMED_OUT or latency == timeout_ms + 1


def check_copies(rows: list[Row], fetches: list[LeaderEvent]) -> None:
    """Counted anew from the FETCHes: copies at the early response, the leader's own among them."""
    for row in rows:
        base, acked = row["base_offset"], row["min_isr_acked_at"]
        if row["min_isr_error"] != Errors.NONE or base is None:
            continue
        copies = {
            event.replica_id
            for event in fetches
            for partition in event.partitions or ()
            if (partition.fetch_offset or 0) > base
            and event.at_us <= round(acked.timestamp() * 1e6)
        }
        assert 1 + len(copies) >= row["min_insync_replicas"]
        assert row["replicas_at_min_isr_ack"] >= row["min_insync_replicas"]


def check_fewer_replicas_respond_sooner(rows: list[Row]) -> None:
    by_request: dict[str, dict[str, Row]] = {}
    for row in rows:
        by_request.setdefault(row["request_id"], {})[row["parameter_value"]] = row
    for of_request in by_request.values():
        for fewer, more in pairwise((1, 2, 3)):
            one, other = of_request[fewer], of_request[more]
            if other["min_isr_error"] == Errors.NONE:
                assert one["min_isr_error"] in (Errors.NONE, None)
                if one["min_isr_error"] == Errors.NONE:
                    assert one["min_isr_acked_at"] <= other["min_isr_acked_at"]


@given(histories())
def test_consumers_only_ever_delay_answers_and_move_nothing(history: History) -> None:
    """Against the same history without them: the high watermark and the bounds are the same."""
    alone = History(isr=None, min_isr=None)
    alone.events = [event for event in history.events if event.kind != "consumer_fetch"]
    late = {f"{of}_{which}_latency_ms" for of in OF for which in ("acks_all", "min_isr")}
    same = ("visible_at", "all_isr_acked_at", "min_isr_acked_at", "isr", "base_offset", "reason")
    both = (replay(one, until_ms=300_000) for one in (history, alone))
    for row, without in zip(*both, strict=True):
        assert [row[name] for name in same] == [without[name] for name in same]
        for name in late:
            assert (row[name] is None) == (without[name] is None)
            assert row[name] is None or row[name] >= without[name]


@given(histories())
def test_when_enough_replicas_had_a_batch_is_what_a_naive_count_gives(history: History) -> None:
    """Every PRODUCE, FETCH and ISR in order; each batch tried again after each of them.

    Only where batches log their offset and nobody outside the ISR may join it, so that it is short.
    """
    for replica in REPLICAS[1:]:
        history.heartbeat(-999, replica, epoch=2)  # another epoch than they fetch with
    if any(event.acks == 0 for event in history.events):
        return
    min_isr = next(int(event.value or 0) for event in history.events if event.kind == "config")
    isr, requested, log_end = set(REPLICAS), set[int](), 0
    stands = dict.fromkeys(REPLICAS[1:], -1)
    bases: dict[str, int] = {}
    passed: dict[str, list[float | None]] = {}
    for event in history.in_order():
        if not event.partitions or event.kind == "consumer_fetch":
            continue
        one = event.partitions[0]
        at_us = event.at_us
        if event.kind == "produce":
            at_us = event.handled_us or 0
            base = one.base_offset
            if base is not None and base >= 0:
                bases[event.request_id], log_end = base, base + 1
                passed[event.request_id] = [None, None]
        elif event.kind == "fetch":
            stands[event.replica_id or 0] = one.fetch_offset or 0
        elif event.kind == "isr_requested":
            requested = set(one.isr or ())
            continue
        else:
            isr, requested = set(one.isr or ()), set()
        if len(isr) < min_isr:
            continue
        ends = {11: log_end, **stands}
        maximal = min(ends[r] for r in isr | requested)
        copied = sorted((ends[r] for r in isr), reverse=True)[min_isr - 1]
        for request, base in bases.items():
            for which, level in enumerate((maximal, copied)):
                if level > base and passed[request][which] is None:
                    passed[request][which] = (at_us - EPOCH_US) / 1000
    for row in replay(history, until_ms=100_000):
        if (
            row["request_id"] in passed
            and row["acks_all_error"] == row["min_isr_error"] == Errors.NONE
        ):
            found = [ms(row["visible_at"]), ms(row["min_isr_acked_at"])]
            assert found == passed[row["request_id"]]

"""What the rules read, as Arrow batches: made without Spark, and before any clock runs."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from notation import heartbeats, leader_log, recorded

from kip_replay.replay.lowest_acked_offset.events import Event
from kip_replay.replay.min_isr_acks.events import Partition
from kip_replay.replay.min_isr_acks.events import batch_of as leader_batch

#: Rows of a batch, as Spark hands them to Python by default.
ROWS = 10_000


def metadata_fetches(replicas: int, appends: int) -> list[pa.RecordBatch]:
    """Kafka 4.0's metadata log: every replica is parked until the leader appends, every 500 ms.

    Replicas 2 and 3 are voters, the others brokers; all answers of an append carry the high
    watermark that the FETCHes before it made.
    """
    rows = []
    for number in range(appends):
        begin, end = 500.0 * number, 500.0 * (number + 1)
        for replica in range(2, replicas + 2):
            spread = replica / 100
            rows.append(
                recorded.fetched(
                    replica,
                    begin + 1 + spread,
                    end + spread,
                    100 + number,
                    record_bytes=80,
                    response_high_watermark=99 + number if number else -1,
                )
            )
    rows = recorded.in_order(rows)
    return [recorded.batch_of(rows[i : i + ROWS]) for i in range(0, len(rows), ROWS)]


def produces(partitions: int, rounds: int) -> list[pa.RecordBatch]:
    """A leader of ``partitions``: in a round each gets a batch, then two followers fetch them.

    acks=all, min.insync.replicas 2, replicas 11, 12 and 13; ten partitions to a PRODUCE.
    """
    history = leader_log.History(isr=None, min_isr=2)
    history.metadata(-1000, leader_log.REPLICAS)
    one = (history.events[-1].partitions or [])[0]
    _list(history, [one._replace(partition=number) for number in range(partitions)])
    for number in range(rounds):
        begin = 20.0 * number
        for first in range(0, partitions, 10):
            batch = [
                Partition("t", None, p, 100, number, 0)
                for p in range(first, min(first + 10, partitions))
            ]
            history.request(begin + 1 + first / partitions, batch, recorded_ms=begin + 9)
        for replica, at_ms in ((12, begin + 5), (13, begin + 9)):
            listed = [
                Partition("t", None, p, fetch_offset=number + 1, leader_epoch=0, is_refused=False)
                for p in range(partitions)
            ]
            history.fetch(at_ms, replica, None)
            _list(history, listed)
    events = history.in_order()
    return [leader_batch(events[i : i + ROWS]) for i in range(0, len(events), ROWS)]


def _list(history: leader_log.History, partitions: list[Partition]) -> None:
    """Has the last event be about these partitions."""
    history.events[-1] = history.events[-1]._replace(partitions=partitions)


def broker_heartbeats(brokers: int, rounds: int) -> list[pa.RecordBatch]:
    """Heartbeats every 2 s, the voters' FETCHes every 500 ms, and a new topic every 10 s."""
    events: list[Event] = heartbeats.born_empty()
    end = 10
    for number in range(rounds):
        begin = 10.0 + 2000.0 * number
        for quarter in range(4):
            end += 1
            for voter in (1, 3):
                at = begin + 500 * quarter + voter
                events.append(heartbeats.raft_fetch(voter, at, at + 499, end))
        if number % 5 == 0:
            events.append(heartbeats.create_topic(begin + 700, begin + 1200))
        events += [
            heartbeats.beat(11 + broker, begin + 1900 * broker / brokers, end - 4)
            for broker in range(brokers)
        ]
    return event_batches(events)


def event_batches(events: Sequence[Event]) -> list[pa.RecordBatch]:
    """Events of ``lowest_acked_offset`` in order, as batches."""
    rows: list[Any] = heartbeats.in_order(events)
    return [heartbeats.batch_of(rows[i : i + ROWS]) for i in range(0, len(rows), ROWS)]

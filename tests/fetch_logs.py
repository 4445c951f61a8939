"""FETCH logs by hand, and their replay: only what a test is about has to be said."""

from collections import namedtuple
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
from constructed import fed, rows_of

from kip_replay.replay.incremental_fetch.recorded import INPUT_SCHEMA
from kip_replay.replay.incremental_fetch.replay import IncrementalFetch
from kip_replay.replay.kafka.messages import FETCH, request_bytes, response_bytes

NODE = 11
NO_HIGH_WATERMARK = 2**63 - 1
Row = dict[str, Any]
#: A partition: its topic's id, else the topic's name, and its index.
Key = tuple[str, int]


def _element(of_list: str) -> Any:
    return namedtuple("Element", INPUT_SCHEMA.field(of_list).type.value_type.names)


#: A row of the replay's input, and the elements of its lists.
RecordedFetch = namedtuple("RecordedFetch", INPUT_SCHEMA.names)
RequestedPartition = _element("request_partitions")
ReturnedPartition = _element("response_partitions")
ForgottenPartition = _element("forgotten_partitions")
NodeEndpoint = _element("node_endpoints")


class Request(NamedTuple):
    session_id: int
    epoch: int
    partitions: Sequence[RequestedPartition]
    forgotten: Sequence[Key]
    version: int = 17


class Response(NamedTuple):
    error: int
    session_id: int
    partitions: Sequence[ReturnedPartition]


def requested(
    topic: str, partition: int, fetch_offset: int = 0, **others: Any
) -> RequestedPartition:
    """A partition requested; a topic of 22 characters is an id, any other a name."""
    values = {"fetch_offset": fetch_offset, "log_start_offset": 0, "partition_max_bytes": 1 << 20}
    values |= {"current_leader_epoch": 0, "last_fetched_epoch": -1}
    values |= {"replica_directory_id": None, "high_watermark": NO_HIGH_WATERMARK}
    return RequestedPartition(**_topic(topic), partition=partition, **(values | others))


def returned(
    topic: str, partition: int, high_watermark: int = 0, **others: Any
) -> ReturnedPartition:
    """A partition answered: without records and without an error unless said."""
    values: dict[str, Any] = dict.fromkeys(ReturnedPartition._fields)
    values |= {"error_code": 0, "record_bytes": 0, "aborted_transactions": 0}
    values |= {"last_stable_offset": high_watermark, "log_start_offset": 0}
    values["preferred_read_replica"] = -1
    values |= _topic(topic) | {"partition": partition, "high_watermark": high_watermark} | others
    return ReturnedPartition(**values)


def failed(topic: str, partition: int, error_code: int) -> ReturnedPartition:
    return returned(topic, partition, -1, error_code=error_code, log_start_offset=-1)


def is_id(topic: str) -> bool:
    return len(topic) == 22


def _topic(topic: str) -> dict[str, str | None]:
    return (
        {"topic_id": topic, "topic": None} if is_id(topic) else {"topic_id": None, "topic": topic}
    )


def fetched(*args: Any, **others: Any) -> RecordedFetch:
    """A FETCH as ``unweighed`` has it, with its sizes."""
    return weighed([unweighed(*args, **others)])[0]


def unweighed(
    at_ms: float,
    request: Request,
    response: Response | None,
    *,
    lasts_ms: float = 0,
    replica_id: int = 12,
    connection: str = "one",
    **others: Any,
) -> RecordedFetch:
    """A FETCH as a broker logs it: taken up at ``at_ms``, answered ``lasts_ms`` later."""
    is_follower = replica_id >= 0
    values: dict[str, Any] = dict.fromkeys(RecordedFetch._fields)
    values |= {"request_id": f"{at_ms:014.3f} {connection}", "connection": connection}
    values |= {"received_us": micros(at_ms), "dequeued_us": micros(at_ms)}
    values |= {"built_us": micros(at_ms + lasts_ms), "throttle_ms": 0.0}
    client_id = f"broker-{replica_id}-fetcher-0" if is_follower else "console-consumer"
    replica_epoch = 7 if is_follower and request.version >= 15 else -1
    values |= {"client_id": client_id, "replica_id": replica_id, "replica_epoch": replica_epoch}
    values |= {"api_version": request.version, "rack_id": "", "node_endpoints": []}
    values |= {"session_id": request.session_id, "session_epoch": request.epoch}
    gone = [ForgottenPartition(**_topic(topic), partition=p) for topic, p in request.forgotten]
    values |= {"request_partitions": request.partitions, "forgotten_partitions": gone}
    names = ("error_code", "response_session_id", "response_partitions")
    values |= zip(names, response or (None,) * 3, strict=True)
    return RecordedFetch(**(values | others))


def names_row(names: Mapping[str, str]) -> RecordedFetch:
    """The row that says which topic an id is of."""
    return RecordedFetch._make(
        sorted(names.items()) if name == "topic_names" else None for name in RecordedFetch._fields
    )


def weighed(rows: Sequence[RecordedFetch]) -> list[RecordedFetch]:
    """With the sizes that ingest counts, from whole messages."""
    batch = batch_of(rows)
    has_request = [None if row.request_partitions is None else 0 for row in rows]
    batch = batch.append_column("max_wait_ms", pa.array(has_request, pa.int64()))
    requests, responses = (
        count(FETCH, batch).to_pylist() for count in (request_bytes, response_bytes)
    )
    return [
        row._replace(request_bytes=request, response_bytes=response)
        for row, request, response in zip(rows, requests, responses, strict=True)
    ]


def micros(milliseconds: float) -> int:
    return round(milliseconds * 1000)


def batch_of(rows: Sequence[RecordedFetch]) -> pa.RecordBatch:
    """Rows as the batch that ``IncrementalFetch.feed`` takes."""
    columns = list(zip(*rows, strict=True)) or [()] * len(INPUT_SCHEMA)
    arrays = [
        pa.array([_plain(value) for value in column], field.type)
        for column, field in zip(columns, INPUT_SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=INPUT_SCHEMA)


def _plain(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    return [
        element._asdict()
        if hasattr(element, "_asdict")
        else dict(zip(("topic_id", "topic"), element, strict=True))
        for element in value
    ]


class Replayed(NamedTuple):
    outcomes: list[Row]
    evictions: list[Row]

    def variant(self, name: str, value: int = -1) -> list[Row]:
        return [
            row
            for row in self.outcomes
            if row["variant"] == name and row["parameter_value"] == value
        ]

    def events(self, value: int = -1) -> list[Row]:
        return [row for row in self.evictions if row["parameter_value"] == value]


def replay_of(
    pieces: Iterable[Sequence[RecordedFetch]],
    slots: Iterable[int] = (),
    names: Mapping[str, str] | None = None,
    **settings: Any,
) -> Replayed:
    """Feed a log piece by piece and gather everything that comes out."""
    start = partial(IncrementalFetch, NODE, slots, **settings)
    batches = map(batch_of, ([names_row(names)] if names else [], *pieces))
    result = Replayed([], [])
    for out in fed(start, batches):
        for rows, batch in zip(result, out, strict=True):
            rows.extend(rows_of(batch))
    return result

"""Messages of FETCH and PRODUCE as rows of their tables, drawn; and what tests make of them.

Topics come in runs. Lengths lie around those at which a varint takes a byte more. Fields are drawn
whatever the version: one that a version lacks must not count there.
"""

import base64
from itertools import groupby
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

NO_HIGH_WATERMARK = 2**63 - 1
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
errors = st.sampled_from([0, 1, 3, 6, 74, 100])
#: Lengths around those at which a varint takes a byte more, in characters of one byte and of two.
names = st.builds(
    lambda character, n: character * n,
    st.sampled_from("abé"),
    st.sampled_from([1, 5, 62, 63, 64, 125, 126, 127, 128]),
)
record_bytes = st.none() | st.sampled_from([0, 1, 126, 127, 128, 16382, 16383, 16384])
ids = st.integers(1, 2**128 - 1).map(
    lambda n: base64.urlsafe_b64encode(n.to_bytes(16, "big"))[:22].decode()
)


def topics(partitions: list[dict[str, Any]]) -> list[tuple[str, str, list[dict[str, Any]]]]:
    """Runs of adjacent partitions of a topic: its id, its name, the run."""
    groups = groupby(partitions, key=lambda p: (p["topic_id"], p["topic"]))
    return [(topic_id, topic, list(group)) for (topic_id, topic), group in groups]


@st.composite
def in_topics(draw: st.DrawFn, partition: st.SearchStrategy[dict]) -> list[dict[str, Any]]:
    """Partitions, those of a topic side by side."""
    drawn = draw(st.lists(st.tuples(ids, names, st.lists(partition, min_size=1)), max_size=4))
    unique = {topic_id: (topic, group) for topic_id, topic, group in drawn}
    by_name = {topic: (topic_id, group) for topic_id, (topic, group) in unique.items()}
    return [
        {**p, "topic_id": topic_id, "topic": topic}
        for topic, (topic_id, group) in by_name.items()
        for p in group
    ]


def one_row(schema: pa.Schema, row: dict[str, Any]) -> pa.RecordBatch:
    """A batch of this row; what it does not have is null."""
    arrays = [pa.array([row.get(f.name)], f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


node_endpoints = st.lists(
    st.fixed_dictionaries(
        {"node_id": int32, "host": names, "port": int32, "rack": st.none() | names}
    ),
    max_size=3,
)
indexes = ("partition", "current_leader_epoch", "last_fetched_epoch", "partition_max_bytes")
fetch_partition = st.fixed_dictionaries(
    dict.fromkeys(indexes, int32)
    | dict.fromkeys(("fetch_offset", "log_start_offset"), int64)
    | {"replica_directory_id": st.none() | ids}
    | {"high_watermark": st.just(NO_HIGH_WATERMARK) | int64}
)
fetch_request = st.fixed_dictionaries(
    dict.fromkeys(("min_bytes", "max_bytes", "session_id", "session_epoch"), int32)
    | {"replica_id": st.just(-1) | int32, "replica_epoch": st.just(-1) | int64}
    | {"max_wait_ms": st.integers(0, 2**31 - 1), "isolation_level": st.sampled_from([0, 1])}
    | {"cluster_id": st.none() | names, "rack_id": names | st.just("")}
    | {"request_partitions": in_topics(fetch_partition)}
    | {"forgotten_partitions": in_topics(st.fixed_dictionaries({"partition": int32}))}
)


def both_or_neither(first: str, second: str, b: st.SearchStrategy[int]) -> Any:
    neither = st.just({first: None, second: None})
    return neither | st.fixed_dictionaries({first: st.integers(0, 2**31 - 1), second: b})


@st.composite
def fetched_partition(draw: st.DrawFn) -> dict[str, Any]:
    offsets = ("high_watermark", "last_stable_offset", "log_start_offset")
    return {
        **{name: draw(int32) for name in ("partition", "preferred_read_replica")},
        **{name: draw(int64) for name in offsets},
        "error_code": draw(errors),
        "record_bytes": draw(record_bytes),
        "aborted_transactions": draw(st.none() | st.sampled_from([0, 1, 2, 126, 127, 130])),
        **draw(both_or_neither("current_leader_id", "current_leader_epoch", int32)),
        **draw(both_or_neither("diverging_epoch", "diverging_end_offset", int64)),
        **draw(both_or_neither("snapshot_epoch", "snapshot_end_offset", int64)),
    }


fetch_response = st.fixed_dictionaries(
    {
        "error_code": errors,
        "response_session_id": int32,
        "response_partitions": in_topics(fetched_partition()),
        "node_endpoints": node_endpoints,
    }
)


@st.composite
def produced_partition(draw: st.DrawFn) -> dict[str, Any]:
    messages = st.fixed_dictionaries({"batch_index_error_message": st.none() | names})
    return {
        "partition": draw(int32),
        "record_bytes": draw(record_bytes),
        "error_code": draw(errors),
        "base_offset": draw(int64),
        "log_append_time_ms": -1,
        "log_start_offset": draw(int64),
        "error_message": draw(st.none() | names),
        "record_errors": draw(st.lists(messages, max_size=3)),
        **draw(both_or_neither("current_leader_id", "current_leader_epoch", int32)),
    }


produce = st.fixed_dictionaries(
    {
        "transactional_id": st.none() | names,
        "acks": st.sampled_from([-1, 0, 1]),
        "timeout_ms": st.integers(0, 2**31 - 1),
        "has_response": st.just(True),
        "partitions": in_topics(produced_partition()),
        "node_endpoints": node_endpoints,
    }
)

"""FETCH, PRODUCE and BROKER_HEARTBEAT as columns of their tables, many lines at once.

These are nearly all of a busy log, and their partitions nearly all of a line. Which fields are
read, under which names and with which defaults follows from the message schemas
(``messages.schemas``): absent fields take Kafka's defaults, as older versions lack them and tagged
ones are written only where they differ. So an absent ``highWatermark`` is 2^63 - 1 (the sender
knows nothing of KIP-1166); -1 (unknown) is written out.

A response to PRODUCE need not list partitions in the order of the request, so they are matched by
topic and index. Whether a producer is idempotent only INIT_PRODUCER_ID shows: a row of
``producer_ids``.
"""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kip_replay.replay.log_tables import BrokerHeartbeats, Fetches, Produces
from kip_replay.replay.table import BOOL, INT, LONG, TEXT

from ..messages import APIS, BROKER_HEARTBEAT, FETCH, PRODUCE
from ..messages.layout import Field, Struct

Positions = NDArray[np.int64]
Bools = NDArray[np.bool_]
Columns = dict[str, pa.Array]
#: What follows from lines: rows by table, and ``lines`` themselves. Each row, in the order of the
#: lines, has the ``position`` of its line among them.
Rows = dict[str, pa.RecordBatch]


def list_of(lengths: Positions, flat: pa.Array, absent: Bools | None = None) -> Any:
    """A list array of ``lengths`` over ``flat``; ``absent`` rows (of length 0) are null."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    mask = None if absent is None or not absent.any() else pa.array(absent)
    return pa.ListArray.from_arrays(pa.array(offsets), flat, type=pa.list_(flat.type), mask=mask)


def lists_in(array: pa.ListArray) -> tuple[Positions, pa.Array]:
    """Lengths (null as 0) and elements one after the other."""
    lengths = np.diff(array.offsets.to_numpy()).astype(np.int64)
    if array.null_count:
        lengths[nulls_of(array)] = 0
    return lengths, array.flatten()


def nulls_of(array: pa.Array) -> Bools:
    if array.null_count == 0:
        return np.zeros(len(array), np.bool_)
    nulls: Bools = array.is_null().to_numpy(zero_copy_only=False)
    return nulls


METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
METADATA_TOPIC = "__cluster_metadata"
#: By API key, the table of its lines.
VIEWS = {FETCH.key: Fetches, PRODUCE.key: Produces, BROKER_HEARTBEAT.key: BrokerHeartbeats}
_SCALARS = dict.fromkeys(("int8", "int16", "int32"), INT) | dict.fromkeys(
    ("int64", "records"), LONG
)
_SCALARS |= {"bool": BOOL, "string": TEXT, "uuid": TEXT}


def body_type(struct: Struct) -> pa.StructType:
    """The type of a body as the log has it."""
    types = (body_type(f.struct) if f.struct else _SCALARS[f.type] for f in struct.fields)
    fields = zip(struct.fields, types, strict=True)
    return pa.struct([(f.json_name, pa.list_(t) if f.is_array else t) for f, t in fields])


def are_sound(struct: Struct, array: pa.StructArray, version: int) -> bool:
    """Returns whether bodies of a version have all that it has, with values that can be."""
    for field in struct.fields:
        value = array.field(field.json_name)
        is_required = version in field.versions and not field.may_be_absent
        if is_required and value.null_count > array.null_count:
            return False
        if field.is_array:
            value = value.flatten()
            if value.null_count:
                return False
        if field.struct is not None and not are_sound(field.struct, value, version):
            return False
        if field.limits is not None:
            least, largest = pc.min_max(value).as_py().values()
            if least is not None and not field.limits[0] <= least <= largest <= field.limits[1]:
                return False
    return True


# --- columns


def body_columns(key: int, lines: pa.RecordBatch) -> Columns:
    """Columns that an API's table has of the bodies of lines; null without a body."""
    api, row = APIS[key], pa.struct([*VIEWS[key].arrow_schema])
    requested = _columns(api.request.body, lines.column("request"), row, are_bodies=True)
    returned = _columns(api.response.body, lines.column("response"), row, are_bodies=True)
    columns = requested | returned
    if key == FETCH.key:
        is_there = columns["max_wait_ms"].is_valid()
        not_sent = pc.if_else(is_there, pa.scalar(-1, LONG), None)
        columns["replica_epoch"] = pc.coalesce(columns["replica_epoch"], not_sent)
        fetches_metadata = _fetch_metadata(columns["request_partitions"])
        columns["is_cluster_metadata"] = pc.if_else(is_there, fetches_metadata, None)
    if key == PRODUCE.key:
        columns["partitions"] = _side_by_side(requested["partitions"], returned["partitions"])
    return columns


def _columns(
    struct: Struct, array: pa.StructArray, row: pa.StructType, are_bodies: bool = False
) -> Columns:
    """Columns of structs. Lists are null where their field is missing or, of bodies, the body."""
    columns: Columns = {}
    for field in struct.fields:
        value, place = array.field(field.json_name), row.get_field_index(field.column)
        column = row.field(place).type if place >= 0 else pa.null()
        if field.is_array and not pa.types.is_list(column):  # only its length is kept
            columns[field.column] = pc.list_value_length(value)
        elif field.struct is None:
            columns[field.column] = _with_default(field, value, array)
        elif not field.is_array:
            # A tagged struct's value counts before that of the field that older versions have.
            for name, inner in _columns(field.struct, value, row).items():
                columns[name] = pc.coalesce(inner, columns[name]) if name in columns else inner
        else:
            if field.partitions is not None:
                lengths, inner = _partitions(field, value, column.value_type)
            else:
                lengths, elements = lists_in(value)
                inner = _columns(field.struct, elements, column.value_type)
            flat = pa.StructArray.from_arrays([*inner.values()], names=[*inner])
            columns[field.column] = list_of(lengths, flat, nulls_of(array if are_bodies else value))
    return columns


def _partitions(
    field: Field, topics: pa.ListArray, row: pa.StructType
) -> tuple[Positions, Columns]:
    """All partitions of lists of topics, each with what its topic goes by."""
    assert field.struct is not None
    assert field.partitions is not None
    topics_per_row, topic = lists_in(topics)
    per_topic, flat = lists_in(topic.field(field.partitions.json_name))
    row_of_topic = np.repeat(np.arange(len(topics)), topics_per_row)
    lengths = np.bincount(row_of_topic, weights=per_topic, minlength=len(topics)).astype(np.int64)
    parent = pa.array(np.repeat(np.arange(len(topic)), per_topic))
    columns = {
        name.column: topic.field(name.json_name).take(parent)
        for name in field.struct.fields
        if name is not field.partitions
    }
    if field.partitions.struct is None:
        return lengths, columns | {field.partitions.column: flat}
    return lengths, columns | _columns(field.partitions.struct, flat, row)


def _with_default(field: Field, value: pa.Array, parent: pa.StructArray) -> pa.Array:
    """Nulls replaced where there is a parent; without one nothing is known."""
    if value.null_count == 0 or field.default is None:
        return value
    filled = value.fill_null(field.default)
    if parent.null_count == 0:
        return filled
    return pc.if_else(parent.is_valid(), filled, pa.scalar(None, value.type))


def _fetch_metadata(request_partitions: pa.ListArray) -> pa.BooleanArray:
    """Raft FETCHes always name their partition: they have no sessions."""
    lengths, partitions = lists_in(request_partitions)
    by_id = pc.equal(pc.struct_field(partitions, "topic_id"), METADATA_TOPIC_ID).fill_null(False)
    by_name = pc.equal(pc.struct_field(partitions, "topic"), METADATA_TOPIC).fill_null(False)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    of_metadata = rows[pc.or_(by_id, by_name).to_numpy(zero_copy_only=False)]
    return pa.array(np.bincount(of_metadata, minlength=len(lengths)) > 0)


def _side_by_side(requested: pa.ListArray, returned: pa.ListArray) -> pa.ListArray:
    """Each requested partition with what was returned for it, null where nothing was."""
    lengths, request = lists_in(requested)
    response = lists_in(returned)[1].take(pc.index_in(_keys(requested), _keys(returned)))
    both = {
        field.name: array
        for partitions in (response, request)
        for field, array in zip(partitions.type, partitions.flatten(), strict=True)
    }
    partitions = pa.StructArray.from_arrays([*both.values()], names=[*both])
    return list_of(lengths, partitions, nulls_of(requested))


def _keys(partitions_of_lines: pa.ListArray) -> pa.StringArray:
    """Line, topic and index of each partition."""
    lengths, partitions = lists_in(partitions_of_lines)
    lines = pa.array(np.repeat(np.arange(len(lengths)), lengths))
    parts = [pc.struct_field(partitions, name) for name in ("partition", "topic_id", "topic")]
    texts = [part.cast(TEXT).fill_null("") for part in (lines, *parts)]
    return pc.binary_join_element_wise(*texts, "\0")

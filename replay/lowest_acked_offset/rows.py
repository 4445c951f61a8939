"""Outcome rows of many heartbeats or writes at once, as Arrow batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kip_replay.replay.kafka.messages import LOWEST_ACKNOWLEDGED_OFFSET_BYTES
from kip_replay.replay.lowest_acked_offset.events import NO_ANSWER
from kip_replay.replay.lowest_acked_offset.lines import Lines
from kip_replay.replay.lowest_acked_offset.reasons import (
    NOBODY_COUNTS,
    NOT_ACTIVE,
    NOT_ANSWERED,
    NOT_HEARD_YET,
)
from kip_replay.replay.lowest_acked_offset.runs import NOT_CERTAIN, Told
from kip_replay.replay.lowest_acked_offset.timelines import Bools, Ints
from kip_replay.replay.outcomes import Variant, Verdict
from kip_replay.replay.schema import (
    HEARTBEAT_OUTCOMES,
    METADATA_WRITE_OUTCOMES,
    METADATA_WRITE_VISIBILITY,
)

RULE = "lowest_acked_offset"
LOWEST_ACKED = "lowest_acked_offset"


#: Outputs of the replay: rows of these three tables, less what the caller knows.
HEARTBEAT_SCHEMA = HEARTBEAT_OUTCOMES.without("recording")
WRITE_SCHEMA = METADATA_WRITE_OUTCOMES.without("recording")
VISIBILITY_SCHEMA = METADATA_WRITE_VISIBILITY.without("recording")

Judgement = tuple[Verdict, str | None]
#: Values of a column: an array of Arrow or NumPy, or a sequence.
Column = Any


def rows(
    schema: pa.Schema, variant: Variant, size: int, columns: Mapping[str, Column]
) -> pa.RecordBatch:
    """Rows of one variant; columns not named are null. int64 stands for times as well."""
    said = variant.what_if(RULE)
    arrays = [
        pa.repeat(pa.scalar(said[field.name], field.type), size)
        if field.name in said
        else _column(columns[field.name], field.type)
        if field.name in columns
        else pa.nulls(size, field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _column(values: Column, type_: pa.DataType) -> pa.Array:
    array = values if isinstance(values, pa.Array) else pa.array(values)
    if pa.types.is_timestamp(type_) and pa.types.is_int64(array.type):
        return array.view(type_)
    return array.cast(type_)


def where(known: Bools, values: Ints | NDArray[np.float64]) -> pa.Array:
    """Values, null where they are not known."""
    return pa.array(values, mask=~known)


def judged(judgements: Sequence[Judgement], codes: Ints) -> dict[str, Column]:
    """Verdict and reason, each row's by its place among the judgements."""
    verdicts, reasons = zip(*judgements, strict=True)
    index = pa.array(codes)
    return {
        "verdict": pa.array([str(verdict) for verdict in verdicts]).take(index),
        "reason": pa.array(reasons, pa.string()).take(index),
    }


def heartbeat_rows(beats: Lines, told: Told) -> pa.RecordBatch:
    """What responses would have carried. ``told`` stands at ``NOT_CERTAIN`` for errors."""
    error = beats["error_code"]
    answered, certain = error == 0, told.unfenced != NOT_CERTAIN
    some = told.unfenced > 0
    codes = np.select((error == NO_ANSWER, ~answered, ~certain, ~some), (1, 2, 3, 4), 0)
    size = beats.arrow("response_bytes")
    same = (
        ("controller_id", "node_id"),
        ("broker_id", "broker_id"),
        ("received_at", "received_us"),
        ("built_at", "at_us"),
        ("current_metadata_offset", "offset"),
    )
    more = pa.compute.add(size, LOWEST_ACKNOWLEDGED_OFFSET_BYTES)
    columns: dict[str, Column] = {
        "request_id": beats.arrow("request_id"),
        **{name: beats[of] for name, of in same},
        "is_fenced": pa.array(beats.flags("is_fenced"), mask=~answered),
        "unfenced_brokers": where(certain, told.unfenced),
        "lowest_acknowledged_offset": where(some, told.clamped),
        "lowest_acknowledged_offset_raw": where(some, told.raw),
        "response_bytes": size,
        "replayed_response_bytes": more,
        **judged(_HEARTBEATS, codes),
    }
    return rows(HEARTBEAT_SCHEMA, Variant(LOWEST_ACKED), len(beats), columns)


_HEARTBEATS: Sequence[Judgement] = (
    (Verdict.REPLAYED, None),
    (Verdict.UNKNOWN, NOT_ANSWERED),
    (Verdict.NOT_APPLICABLE, NOT_ACTIVE),
    (Verdict.UNKNOWN, NOT_HEARD_YET),
    (Verdict.NOT_APPLICABLE, NOBODY_COUNTS),
)


def together(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Batches as one."""
    batches = [batch for batch in batches if batch.num_rows]
    if not batches:
        return pa.RecordBatch.from_pylist([], schema)
    return pa.concat_batches(batches)

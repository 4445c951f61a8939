"""Outcomes as an Arrow batch: times, latencies and names from what was written of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kip_replay.replay.min_isr_acks.reasons import INVALID_REQUIRED_ACKS, NONE, REASONS
from kip_replay.replay.min_isr_acks.settling import Written
from kip_replay.replay.min_isr_acks.state import NULL, Array
from kip_replay.replay.min_isr_acks.variants import ACKS_SCHEMA, RULE
from kip_replay.replay.outcomes import Variant, Verdict


class Names:
    """What positions in ``Written`` stand for.

    ``texts``: request and client ids by request; ``topics`` and ``partitions`` by leader.
    """

    def __init__(
        self,
        texts: dict[str, pa.Array],
        topics: pa.Array,
        partitions: Array,
        sets: Sequence[tuple[int, ...]],
    ) -> None:
        self.texts, self.topics, self.partitions = texts, topics, partitions
        self.sets = pa.array([list(members) for members in sets], pa.list_(pa.int32()))


def batch_of(
    node_id: int, variants: Sequence[Variant], written: Written, names: Names
) -> pa.RecordBatch:
    """Rows of produce_ack_outcomes, all columns but the recording."""
    columns = {
        **_what_if(variants, written.variant),
        **_request_columns(node_id, written, names),
        **_partition_columns(written, names),
        **_response_columns(written),
    }
    arrays = [columns[field.name].cast(field.type) for field in ACKS_SCHEMA]
    return pa.RecordBatch.from_arrays(arrays, schema=ACKS_SCHEMA)


def _what_if(variants: Sequence[Variant], variant: Array) -> dict[str, pa.Array]:
    columns = [one.what_if(RULE) for one in variants]
    return {name: _chosen([one[name] for one in columns], variant) for name in columns[0]}


def _chosen(values: Sequence[Any], positions: Array) -> pa.Array:
    """Values by position; one value needs no look."""
    if len(set(values)) == 1:
        return pa.repeat(values[0], len(positions))
    return pa.array(values).take(pa.array(positions))


def _request_columns(node_id: int, w: Written, names: Names) -> dict[str, pa.Array]:
    request = pa.array(w.request)
    recorded = _latency_ms(w.built_us, w.received_us)
    alone = np.where(w.partitions == 1, w.built_us, NULL)
    slowest = {
        f"request_{name}_latency{bound}_ms": _latency_ms(
            getattr(w, f"request_{field}{bound}_us"), w.received_us
        )
        for name, field in (("acks_all", "all"), ("min_isr", "min_isr"))
        for bound in ("", "_earliest", "_latest")
    }
    return {
        **{name: texts.take(request) for name, texts in names.texts.items()},
        "node_id": pa.repeat(pa.scalar(node_id, pa.int32()), len(request)),
        "acks": _longs(w.acks),
        "is_transactional": _flags(w.is_transactional),
        "is_idempotent": _flags(w.is_idempotent),
        "received_at": _longs(w.received_us),
        "built_at": _longs(w.built_us),
        "todays_min_isr_error": pa.repeat(pa.scalar(INVALID_REQUIRED_ACKS), len(request)),
        "request_recorded_latency_ms": recorded,
        "partition_recorded_latency_ms": _latency_ms(alone, w.received_us),
        **slowest,
    }


def _partition_columns(w: Written, names: Names) -> dict[str, pa.Array]:
    return {
        "topic": names.topics.take(pa.array(w.leader)),
        "partition": pa.array(names.partitions[w.leader]),
        "record_bytes": _longs(w.record_bytes),
        "base_offset": _longs(w.base_offset),
        "last_offset": _longs(w.last_offset),
        "appended_at": _longs(w.appended_us),
        "min_insync_replicas": _longs(w.min_isr),
        "isr": names.sets.take(pa.array(w.isr, mask=w.isr < 0)),
        "recorded_error": _longs(w.error_code),
    }


def _response_columns(w: Written) -> dict[str, pa.Array]:
    is_exposed = (
        (w.all_passed_us != NULL) & (w.min_isr_passed_us != NULL) & (w.min_isr_error == NONE)
    )
    exposed_until = np.where(is_exposed, w.all_passed_us, NULL)
    is_unknown = w.reason != 0
    return {
        "all_isr_acked_at": _longs(w.all_passed_us),
        "min_isr_acked_at": _longs(w.min_isr_passed_us),
        "visible_at": _longs(w.visible_us),
        "acks_all_error": _longs(w.all_error),
        "min_isr_error": _longs(w.min_isr_error),
        "partition_acks_all_latency_ms": _latency_ms(w.all_us, w.received_us),
        "partition_min_isr_latency_ms": _latency_ms(w.min_isr_us, w.received_us),
        "replicas_at_min_isr_ack": _longs(w.replicas),
        "exposure_ms": _latency_ms(exposed_until, w.min_isr_passed_us),
        "verdict": _chosen([Verdict.REPLAYED, Verdict.UNKNOWN], is_unknown.astype(np.int8)),
        "reason": pa.array(REASONS, pa.string()).take(pa.array(w.reason)),
    }


def _longs(values: Array) -> pa.Array:
    is_null = values == NULL
    return pa.array(values, mask=is_null if is_null.any() else None)


def _flags(values: Array) -> pa.Array:
    return pa.array(values == 1, mask=values == NULL)


def _latency_ms(at_us: Array, since_us: Array) -> pa.Array:
    """From one time to another, null where either is not known."""
    is_null = (at_us == NULL) | (since_us == NULL)
    return pa.array((at_us - since_us) / 1000, mask=is_null if is_null.any() else None)

"""Outcomes as an Arrow batch: times, latencies and names of settled batches."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..outcomes import Variant, Verdict
from .inputs import longs
from .log import NOWHERE, NULL, Array, Log
from .reasons import INVALID_REQUIRED_ACKS, NONE, REASONS
from .responses import Batches, Responses, is_appended
from .settling import Outcome, Settled
from .state import State
from .tables import ACKS_SCHEMA, RULE


def emitted(state: State, settled: Settled) -> pa.RecordBatch:
    """Rows of produce_ack_outcomes, all columns but the recording."""
    columns = _of_requests(state, settled)
    received_us = longs(settled.requests["received_us"])
    batches = [
        _of_variant(columns, received_us, settled.log, *one)
        for one in zip(state.variants, settled.outcomes, settled.stands, strict=True)
    ]
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def _of_requests(state: State, settled: Settled) -> dict[str, pa.Array]:
    """Columns that are the same for all variants."""
    log, known, requests = settled.log, settled.known, settled.requests
    conditions = state.leaderships.conditions
    received_us, built_us = (longs(requests[name]) for name in ("received_us", "built_us"))
    recorded = _latency_ms(built_us, received_us)
    alone = np.where(np.bincount(log.request)[log.request] == 1, built_us, NULL)
    names, numbers = state.topics.columns()
    isr = pa.array([one.isr for one in conditions], pa.list_(pa.int32()))
    isr = isr.take(pa.array(log.condition))
    if settled.has_previous_isr.any():
        previous = pa.array([one.previous for one in conditions], pa.list_(pa.int32()))
        previous = previous.take(pa.array(log.condition))
        isr = pc.if_else(pa.array(settled.has_previous_isr), previous, isr)
    certain_end = np.where(known.is_next_certain, known.next_base_offset - 1, NULL)
    return {
        "node_id": pa.repeat(pa.scalar(state.node_id, pa.int32()), len(built_us)),
        "topic": names.take(pa.array(log.partition)),
        "partition": pa.array(numbers[log.partition]),
        **{
            name: requests[name]
            for name in ("request_id", "client_id", "acks", "is_transactional", "is_idempotent")
        },
        "record_bytes": _longs(log.record_bytes),
        "received_at": _longs(received_us),
        "built_at": _longs(built_us),
        "base_offset": _longs(np.where(known.base_offset < 0, NULL, known.base_offset)),
        "last_offset": _longs(certain_end),
        "isr": isr,
        "recorded_error": _longs(log.error_code),
        "todays_min_isr_error": pa.repeat(pa.scalar(INVALID_REQUIRED_ACKS), len(built_us)),
        "partition_recorded_latency_ms": _latency_ms(alone, received_us),
        "request_recorded_latency_ms": recorded,
    }


def _of_variant(
    columns: dict[str, pa.Array],
    received_us: Array,
    log: Log,
    variant: Variant,
    outcome: Outcome,
    stands: Array,
) -> pa.RecordBatch:
    b, n = outcome.batches, len(log.order)
    appended = is_appended(b)
    visible_us = np.where(appended, outcome.committed.at_us, NULL)
    all_, few = outcome.acks_all, outcome.acks_min_isr
    is_exposed = (all_.passed_us != NULL) & (few.passed_us != NULL) & (few.error == NONE)
    reason = np.where(all_.reason != 0, all_.reason, few.reason)
    verdicts = pa.array([Verdict.REPLAYED.value, Verdict.UNKNOWN.value])
    is_shown = (few.error == NONE) & (outcome.copied.row != NOWHERE)
    more = {
        **{name: pa.repeat(value, n) for name, value in variant.what_if(RULE).items()},
        "appended_at": _longs(np.where(appended, b.appended_us, NULL)),
        "min_insync_replicas": _longs(np.where(b.min_isr < 0, NULL, b.min_isr)),
        "all_isr_acked_at": _longs(all_.passed_us),
        "min_isr_acked_at": _longs(few.passed_us),
        "visible_at": _longs(visible_us),
        "acks_all_error": _longs(all_.error),
        "min_isr_error": _longs(few.error),
        "partition_acks_all_latency_ms": _latency_ms(all_.at_us, received_us),
        "partition_min_isr_latency_ms": _latency_ms(few.at_us, received_us),
        "replicas_at_min_isr_ack": _longs(np.where(is_shown, _replicas(b, stands), NULL)),
        "exposure_ms": _latency_ms(np.where(is_exposed, all_.passed_us, NULL), few.passed_us),
        "verdict": verdicts.take(pa.array((reason != 0).astype(np.int8))),
        "reason": pa.array(REASONS, pa.string()).take(pa.array(reason)),
        **_slowest("acks_all", all_, log.request, received_us),
        **_slowest("min_isr", few, log.request, received_us),
    }
    all_columns = {**columns, **more}
    arrays = [
        one if one.type == field.type else one.cast(field.type)
        for one, field in ((all_columns[field.name], field) for field in ACKS_SCHEMA)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=ACKS_SCHEMA)


def _replicas(b: Batches, stands: Array) -> Array:
    """Replicas that had the batch for certain, the leader among them."""
    most = b.most[:, None]
    copies: Array = ((stands > most) & (most != NULL)).sum(axis=1)
    return 1 + copies


def _slowest(
    name: str, responses: Responses, request: Array, received_us: Array
) -> dict[str, pa.Array]:
    """When requests are completed: with their last partition; null if one is unknown."""
    is_first = np.append(True, request[1:] != request[:-1])
    begins = np.flatnonzero(is_first)
    number = np.cumsum(is_first) - 1
    found = {}
    bounds = (
        ("", responses.at_us),
        ("_earliest", responses.earliest_us),
        ("_latest", responses.latest_us),
    )
    for bound, us in bounds:
        slowest = us
        if len(begins) < len(us):
            least, most = (one.reduceat(us, begins)[number] for one in (np.minimum, np.maximum))
            slowest = np.where(least == NULL, NULL, most)
        found[f"request_{name}_latency{bound}_ms"] = _latency_ms(slowest, received_us)
    return found


def _longs(values: Array) -> pa.Array:
    is_null = values == NULL
    return pa.array(values, mask=is_null if is_null.any() else None)


def _latency_ms(at_us: Array, since_us: Array) -> pa.Array:
    """From one time to another, null where either is not known."""
    is_null = (at_us == NULL) | (since_us == NULL)
    return pa.array((at_us - since_us) / 1000, mask=is_null if is_null.any() else None)

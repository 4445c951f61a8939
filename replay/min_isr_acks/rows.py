"""Rows of produce_ack_outcomes as an Arrow batch: times, latencies and names."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from ..outcomes import Variant, Verdict
from .batches import Led
from .events import NULL
from .kip_926 import Isr
from .leadership import UNCERTAIN
from .reasons import ACKS_0, INVALID_REQUIRED_ACKS, NONE, REASONS
from .responses import Finalized, Responses
from .tables import ACKS_SCHEMA, RULE
from .topics import Array

_VERDICTS = pa.array([Verdict.REPLAYED, Verdict.UNKNOWN, Verdict.NOT_APPLICABLE], pa.string())
_NAMES = ("request_id", "client_id", "is_transactional", "is_idempotent")


def rows_of(
    known: Finalized, node_id: int, variants: Sequence[Variant], led: Sequence[Led]
) -> pa.RecordBatch:
    """Rows of finalized batches, each of a led partition: all columns but the recording."""
    columns, batches = _of_requests(known, led), []
    for place, variant in enumerate(variants):
        fixed = {"node_id": node_id, **variant.what_if(RULE)}
        repeated = {name: pa.repeat(value, len(led)) for name, value in fixed.items()}
        every = {**columns, **repeated, **_of_variant(known, place)}
        arrays = [every[field.name].cast(field.type) for field in ACKS_SCHEMA]
        batches.append(pa.RecordBatch.from_arrays(arrays, schema=ACKS_SCHEMA))
    return pa.concat_batches(batches)


def _of_requests(known: Finalized, led: Sequence[Led]) -> dict[str, pa.Array]:
    """Columns that are the same for all variants."""
    b, received_us, built_us = known.b, known.received_us, known.of_requests("built_us")
    alone_us = np.where(np.bincount(known.request)[known.request] == 1, built_us, NULL)
    places = pa.array(known.request)
    return {
        "topic": pa.array([one.topic for one in led], pa.string()),
        "partition": pa.array([one.number for one in led]),
        **{
            name: pa.array(known.columns[name], ACKS_SCHEMA.field(name).type).take(places)
            for name in _NAMES
        },
        "acks": pa.array(known.acks),
        "record_bytes": _longs(b["record_bytes"]),
        "received_at": _longs(received_us),
        "built_at": _longs(built_us),
        "base_offset": _longs(np.where(b["base_offset"] < 0, NULL, b["base_offset"])),
        "last_offset": _longs(known.last_offset()),
        "isr": _lists(known.isrs),
        "recorded_error": _longs(b["error_code"]),
        "todays_min_isr_error": pa.repeat(INVALID_REQUIRED_ACKS, len(led)),
        "partition_recorded_latency_ms": _latency_ms(alone_us, received_us),
        "request_recorded_latency_ms": _latency_ms(built_us, received_us),
    }


def _of_variant(known: Finalized, place: int) -> dict[str, pa.Array]:
    min_isr, waits = known.min_isrs[:, place], known.acks != 0
    refusals = known.refusals(min_isr)
    all_, few = (known.responses(2 * place + which, refusals) for which in (0, 1))
    is_doubted = (known.b["loss"] >= UNCERTAIN) & (all_.enough_us > known.lost_us)
    is_hidden = known.is_hidden(all_.enough_us) | is_doubted
    is_acked = few.error == NONE
    reason = np.where(
        waits, np.where(all_.reason != 0, all_.reason, few.reason), REASONS.index(ACKS_0)
    )
    verdict = np.where(waits, (reason != 0).astype(np.int8), 2)
    columns = {
        "appended_at": _longs(np.where(known.is_appended & waits, known.appended_us, NULL)),
        "min_insync_replicas": _longs(np.where(min_isr < 0, NULL, min_isr)),
        "visible_at": _longs(np.where(is_hidden, NULL, all_.enough_us)),
        "replicas_at_min_isr_ack": _longs(np.where(is_acked, known.copies[:, place], NULL)),
        "min_insync_replicas_at_ack": _longs(np.where(is_acked, known.needed[:, place], NULL)),
        "missing_followers": _lists([one[place] for one in known.missing]),
        "exposure_ms": _latency_ms(all_.passed_us, np.where(is_acked, few.passed_us, NULL)),
        "verdict": _VERDICTS.take(pa.array(verdict)),
        "reason": pa.array(REASONS, pa.string()).take(pa.array(reason)),
    }
    for name, short, one in (("acks_all", "all_isr", all_), ("min_isr", "min_isr", few)):
        at_us = np.where(waits, one.at_us, NULL)
        columns |= {
            f"{name}_follower_id": _longs(one.follower_id),
            f"{name}_fetch_id": one.fetch_id,
            f"{short}_acked_at": _longs(one.passed_us),
            f"{name}_error": _longs(np.where(waits, one.error, NULL)),
            f"partition_{name}_latency_ms": _latency_ms(at_us, known.received_us),
            **_slowest(name, one, known),
        }
    return columns


def _slowest(name: str, responses: Responses, known: Finalized) -> dict[str, pa.Array]:
    """When requests are completed: with their last partition; null if one is unknown."""
    found = {}
    for bound, us in zip(("", "_earliest", "_latest"), responses, strict=False):
        least, most = (one.reduceat(us, known.first) for one in (np.minimum, np.maximum))
        slowest = np.where(least == NULL, NULL, most)[known.request]
        slowest = np.where(known.acks == 0, NULL, slowest)
        found[f"request_{name}_latency{bound}_ms"] = _latency_ms(slowest, known.received_us)
    return found


def _lists(values: Sequence[Isr | None]) -> pa.Array:
    codes = {one: place for place, one in enumerate(dict.fromkeys(values))}
    few = pa.array([*codes], pa.list_(pa.int32()))
    return few.take(pa.array([codes[one] for one in values]))


def _longs(values: Array) -> pa.Array:
    is_null = values == NULL
    return pa.array(values, mask=is_null if is_null.any() else None)


def _latency_ms(at_us: Array, since_us: Array) -> pa.Array:
    """From one time to another, null where either is not known."""
    is_null = (at_us == NULL) | (since_us == NULL)
    return pa.array((at_us - since_us) / 1000, mask=is_null if is_null.any() else None)

"""hwm_parking as the seam runs it."""

from collections.abc import Mapping
from functools import partial

import pyarrow as pa

from kip_replay.replay import hwm_parking

from ..log_gaps import Touch, holes_of
from ..phases import ALWAYS_STEADY, SteadyPhase
from ..rule import Replay, Rule, Settings, Through
from .metadata_log import ABSENCE_US
from .replay import LOOKAHEAD_US, STEPS_PER_LOOKAHEAD
from .tables import FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG


def _start(settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None) -> Replay:
    recording, node_id = str(key["recording"]), int(key["node_id"])
    rules = hwm_parking.variants(settings.option(hwm_parking.RULE, "max_wait_ms"))
    phase = settings.steady_phases.get(recording, ALWAYS_STEADY)
    gaps = holes_of(node_id, settings.log_gaps.get(recording, ()))
    replay = hwm_parking.HwmParking(node_id, settings.voters[recording], rules, saved, gaps)
    return Through(replay, _TABLES, partial(_with_phase, phase))


def _with_phase(phase: SteadyPhase, table: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    """Each lag with the phase of the recording in which the leader advanced."""
    if table != HIGH_WATERMARK_LAG.name:
        return rows
    phases = phase.phase_of(rows.column("leader_at"))
    return rows.append_column("phase", phases).select(_LAG_SCHEMA.names)


_TABLES = (FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG)
_LAG_SCHEMA = HIGH_WATERMARK_LAG.without("recording")
_touch = partial(Touch, node="leader_id", back_us=ABSENCE_US, ahead_us=ABSENCE_US)

#: Rows are emitted so far behind the log: the look ahead, its step, and another for the last row.
BEHIND_US = LOOKAHEAD_US + 2 * LOOKAHEAD_US // STEPS_PER_LOOKAHEAD
RULE = Rule(
    name=hwm_parking.RULE,
    key=("recording", "node_id"),
    order=("built_us", "request_id"),
    input_schema=hwm_parking.INPUT_SCHEMA,
    tables=_TABLES,
    start=_start,
    facts=("voters",),
    sweeps={"max_wait_ms": 1},
    # Behind a hole the replay itself knows what has settled. But an outcome rests on its replica's
    # next FETCH too, and on times that were measured nearest to it, before and after.
    touches={
        FETCH_PARKING_OUTCOMES.name: _touch(("dequeued_at",), ("built_at",), clears=("parked_ms",)),
        HIGH_WATERMARK_LAG.name: _touch(
            ("leader_at",), ("leader_at", "learned_at"), clears=("learned_at", "lag_ms")
        ),
    },
)

"""hwm_parking as the seam runs it."""

from collections.abc import Mapping

from ..outcomes import ALWAYS_STEADY
from ..rule import Replay, Rule, Settings
from .metadata_log import INPUT_SCHEMA
from .outcomes import RULE as NAME
from .outcomes import HighWatermarkLag, ParkedFetch, variants
from .replay import LOOKAHEAD_US, STEPS_PER_LOOKAHEAD, HwmParking


def _start(settings: Settings, key: Mapping[str, str | int], saved: bytes | None = None) -> Replay:
    recording, node_id = str(key["recording"]), int(key["node_id"])
    rules = [v for v in variants(settings.option(NAME, "max_wait_ms")) if settings.has(v)]
    phase, gaps = settings.steady_phases.get(recording, ALWAYS_STEADY), settings.gaps_of(recording)
    return HwmParking(node_id, settings.voters[recording], rules, saved, gaps, phase)


#: Rows are emitted so far behind the log: the look ahead, its step, and another for the last row.
BEHIND_US = LOOKAHEAD_US + 2 * LOOKAHEAD_US // STEPS_PER_LOOKAHEAD
RULE = Rule(
    name=NAME,
    key=("recording", "node_id"),
    order=("built_us", "request_id"),
    input_schema=INPUT_SCHEMA,
    tables=(ParkedFetch, HighWatermarkLag),
    start=_start,
    facts=("voters",),
    sweeps={"max_wait_ms": 1},
    splits_sweeps=True,
)

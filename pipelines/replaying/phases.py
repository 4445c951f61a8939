"""The steady phase of recordings, read from their tables."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa

from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.text import Text
from kip_replay.replay.outcomes import SteadyPhase
from kip_replay.replay.table import LONG, TEXT

#: By recording; one without requests has none.
Phases: TypeAlias = Mapping[str, SteadyPhase]

_STEADY_PHASES, _LOG_SPANS, HEARTBEATS = (
    Path(__file__).with_name(f"{name}.sql")
    for name in ("steady_phases", "log_spans", "heartbeat_sums")
)
STEADY_PHASES = Text.read(_STEADY_PHASES, {"heartbeat_sums": HEARTBEATS})


def steady_phases(engine: Engine, recordings: Collection[str]) -> dict[str, SteadyPhase]:
    return _spans(engine, STEADY_PHASES, recordings)


def log_spans(engine: Engine, recordings: Collection[str]) -> dict[str, SteadyPhase]:
    """From the first to the last request of each recording, as if all of it were steady."""
    return _spans(engine, Text.read(_LOG_SPANS), recordings)


def _spans(engine: Engine, text: Text, recordings: Collection[str]) -> dict[str, SteadyPhase]:
    rows = engine.rows(text, recordings).sort_by("recording").to_pylist()
    return {row["recording"]: SteadyPhase(row["from_us"], row["until_us"]) for row in rows}


def phases_table(phases: Phases) -> pa.Table:
    rows = [{"recording": name, **phase._asdict()} for name, phase in sorted(phases.items())]
    schema = pa.schema({"recording": TEXT, "from_us": LONG, "until_us": LONG})
    return pa.Table.from_pylist(rows, schema)

"""Lines to ``incidents``, ``usage`` and ``topic_usage``: what happened, and who makes the load.

A text finds incidents of some kinds by the tables of the log (``incidents/of_*.sql``), each from
the first line that shows it to the first that shows its end. ``incidents.sql`` puts them together,
numbers them, and says which followed from that of a node. What a gap in the logs would explain as
well is no incident, and nor is what belongs to the start and the end of the whole cluster.

All of a recording is looked at anew where its logs have grown: which group and library a connection
has, the name of a topic's id, and the end of an incident may come on a later line.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from kip_replay.pipelines.analysis.summarize import SUMMARIES, SummedRule
from kip_replay.pipelines.analysis.views import CLIENT_CONNECTIONS, NAMES_OF_ERRORS, STATED_ERRORS
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.rule_texts import SHARED
from kip_replay.pipelines.replaying.states import STEADY_PHASES
from kip_replay.pipelines.rule_files import of_rules
from kip_replay.pipelines.warehouse.steps import (
    Covered,
    Step,
    contents_of,
    fingerprint,
    inputs_of,
    readings_of,
)
from kip_replay.replay.log_tables import LogGaps
from kip_replay.replay.tables import BandwidthSummary, Incidents, TopicUsage, Usage

_FOLDER = Path(__file__).parent / "incidents"
_INCIDENTS, USAGE = _FOLDER / "incidents.sql", Path(__file__).with_name("usage.sql")
#: The texts of incidents, and what both queries may read.
FILES = {file.stem: file for file in _FOLDER.glob("*.sql") if file != _INCIDENTS}
FILES |= {**SHARED, **{file.stem: file for file in (CLIENT_CONNECTIONS, STATED_ERRORS)}}
PARTS: Mapping[str, Path | Text] = {
    **FILES,
    "steady_phases": STEADY_PHASES,
    "error_names": NAMES_OF_ERRORS,
}
STEP = Step(
    name="health",
    reads=(LogGaps, BandwidthSummary),
    writes=(Incidents, Usage, TopicUsage),
    modules=(__name__,),
    queries=(_INCIDENTS, USAGE, *FILES.values()),
    files=(*of_rules("outcomes.sql"),),
)


def find_health(
    engine: Engine,
    recordings: Sequence[str],
    rules: Sequence[SummedRule],
    config: Mapping[str, Mapping[str, Any]],
    say: Callable[[str], object] = print,
) -> None:
    """Writes the tables of recordings whose logs changed, the limits of what is an incident, or
    what the rule with zones says."""
    warehouse, limits = engine.warehouse, config["incidents"]
    [zoned] = (rule for rule in rules if "zones" in rule.texts)
    identity = fingerprint(STEP.code(), limits, config[zoned.name])
    readings, lineage = readings_of(warehouse, recordings), warehouse.lineage(recordings)
    read = (LogGaps.name, SUMMARIES, zoned.name)
    wanted = {}
    for name in recordings:
        inputs = fingerprint(contents_of(readings[name]), inputs_of(lineage, name, read))
        wanted[name] = Covered(identity=identity, inputs=inputs)
    if due := STEP.due(warehouse, wanted):
        say(f"incidents and usage: {', '.join(due)}")
        zones = zoned.text("zones", **config[zoned.name])
        usage = engine.rows(Text.read(USAGE, {**PARTS, "zones": zones}), [*due])
        is_whole = pc.is_null(usage.column("topic"))
        filled = {
            Incidents: engine.rows(Text.read(_INCIDENTS, PARTS, **limits), [*due]),
            Usage: usage.filter(is_whole),
            TopicUsage: usage.filter(pc.invert(is_whole)),
        }
        schemas = {table: table.arrow_schema for table in filled}
        rows = {table: filled[table].select(s.names).cast(s) for table, s in schemas.items()}
        warehouse.replace(STEP.name, {name: str(wanted[name]) for name in due}, rows)

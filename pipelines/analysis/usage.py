"""Lines to ``usage`` and ``topic_usage``: who makes the load, in sums that are those of requests.

All of a recording is summed up anew where its logs have grown: which group and library a connection
has, and the name of a topic's id, may come on a later line than its requests.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from kip_replay.pipelines.analysis.summarize import SUMMARIES, SummedRule
from kip_replay.pipelines.analysis.views import CLIENT_CONNECTIONS, NAMES_OF_ERRORS, STATED_ERRORS
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.phases import STEADY_PHASES
from kip_replay.pipelines.replaying.rule_texts import SHARED
from kip_replay.pipelines.rule_files import of_rules
from kip_replay.pipelines.warehouse.lineage import fingerprint
from kip_replay.pipelines.warehouse.steps import Covered, Step, contents_of, inputs_of, readings_of
from kip_replay.replay.log_tables import LogGaps
from kip_replay.replay.tables import BandwidthSummary, TopicUsage, Usage

_USAGE = Path(__file__).with_name("usage.sql")
_FILES = (CLIENT_CONNECTIONS, STATED_ERRORS, SHARED["topic_names"], SHARED["named_topics"])
PARTS: Mapping[str, Path | Text] = {
    **{file.stem: file for file in _FILES},
    "steady_phases": STEADY_PHASES,
    "error_names": NAMES_OF_ERRORS,
}
STEP = Step(
    name="usage",
    reads=(LogGaps, BandwidthSummary),
    writes=(Usage, TopicUsage),
    modules=(__name__,),
    queries=(_USAGE, *_FILES),
    files=(*of_rules("outcomes.sql"),),
)


def sum_usage(
    engine: Engine,
    recordings: Sequence[str],
    rules: Sequence[SummedRule],
    config: Mapping[str, Mapping[str, Any]],
    say: Callable[[str], object] = print,
) -> None:
    """Writes both tables of recordings whose logs changed, or what the rule with zones says."""
    warehouse = engine.warehouse
    [zoned] = (rule for rule in rules if "zones" in rule.texts)
    identity = fingerprint(STEP.code(), config[zoned.name])
    readings, lineage = readings_of(warehouse, recordings), warehouse.lineage(recordings)
    read = (LogGaps.name, SUMMARIES, zoned.name)
    wanted = {}
    for name in recordings:
        inputs = fingerprint(contents_of(readings[name]), inputs_of(lineage, name, read))
        wanted[name] = Covered(identity=identity, inputs=inputs)
    if due := STEP.due(warehouse, wanted):
        say(f"usage: {', '.join(due)}")
        zones = zoned.text("zones", **config[zoned.name])
        usage = engine.rows(Text.read(_USAGE, {**PARTS, "zones": zones}), [*due])
        is_whole = pc.is_null(usage.column("topic"))
        tables = {Usage: usage.filter(is_whole), TopicUsage: usage.filter(pc.invert(is_whole))}
        schemas = {table: table.arrow_schema for table in tables}
        rows = {table: tables[table].select(s.names).cast(s) for table, s in schemas.items()}
        warehouse.replace(STEP.name, {name: str(wanted[name]) for name in due}, rows)

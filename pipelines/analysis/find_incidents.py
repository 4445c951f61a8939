"""Lines to incidents: what happened to the cluster and its clients, as spans of ``incidents``.

A text finds those of some kinds by the tables of the log (``incidents/of_*.sql``), each from the
first line that shows it to the first that shows its end. ``incidents.sql`` puts them together,
numbers them, and says which followed from that of a node. What a gap in the logs would explain as
well is no incident, and nor is what belongs to the start and the end of the whole cluster.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kip_replay.pipelines.analysis.views import CLIENT_CONNECTIONS, NAMES_OF_ERRORS
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.log_gaps import log_gaps
from kip_replay.pipelines.replaying.rule_texts import SHARED
from kip_replay.pipelines.warehouse.lineage import fingerprint
from kip_replay.pipelines.warehouse.steps import Covered, Step, contents_of, readings_of
from kip_replay.replay.log_tables import LogGaps
from kip_replay.replay.tables import Incidents

_FOLDER = Path(__file__).parent / "incidents"
_INCIDENTS = _FOLDER / "incidents.sql"
#: The texts of incidents, and all that they may read.
FILES = {file.stem: file for file in _FOLDER.glob("*.sql") if file != _INCIDENTS}
FILES |= {**SHARED, CLIENT_CONNECTIONS.stem: CLIENT_CONNECTIONS}
PARTS: Mapping[str, Path | Text] = {**FILES, "error_names": NAMES_OF_ERRORS}
STEP = Step(
    name="incidents",
    reads=(LogGaps,),
    writes=(Incidents,),
    modules=(__name__,),
    queries=(_INCIDENTS, *FILES.values()),
)


def find_incidents(
    engine: Engine,
    recordings: Sequence[str],
    limits: Mapping[str, Any],
    say: Callable[[str], object] = print,
) -> None:
    """Writes the incidents of recordings whose logs, or the ``limits`` of what is one, changed."""
    warehouse, identity = engine.warehouse, fingerprint(STEP.code(), limits)
    readings, gaps = readings_of(warehouse, recordings), log_gaps(warehouse, recordings)
    wanted = {
        name: Covered(
            identity=identity, inputs=fingerprint(contents_of(readings[name]), gaps.get(name))
        )
        for name in recordings
    }
    if due := STEP.due(warehouse, wanted):
        say(f"incidents: {', '.join(due)}")
        incidents = engine.rows(Text.read(_INCIDENTS, PARTS, **limits), [*due])
        schema, covered = Incidents.arrow_schema, {name: str(wanted[name]) for name in due}
        incidents = incidents.select(schema.names).cast(schema)
        warehouse.replace(STEP.name, covered, {Incidents: incidents})

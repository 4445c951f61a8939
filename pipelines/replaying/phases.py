"""The steady phase of recordings, read from their tables."""

from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from kip_replay.replay.phases import SteadyPhase
from kip_replay.replay.table import LONG, TEXT

#: By recording; one without requests has none.
Phases: TypeAlias = Mapping[str, SteadyPhase]

# The nodes that responded to heartbeats bound the log where there are any: logs of other nodes may
# reach further.
_PHASES = """
WITH responded AS (FROM broker_heartbeats WHERE error_code = 0),
nodes AS (
    SELECT recording, node_id, min(epoch_us(first_received_at)) AS first_us,
           max(epoch_us(last_completed_at)) AS last_us
    FROM ingested_files WHERE requests > 0 GROUP BY ALL
),
spans AS (
    SELECT recording,
           coalesce(min(first_us) FILTER (is_active), min(first_us)) AS first_us,
           coalesce(max(last_us) FILTER (is_active), max(last_us)) AS last_us
    FROM (SELECT *,
                 (recording, node_id) IN (SELECT (recording, node_id) FROM responded) AS is_active
          FROM nodes)
    GROUP BY recording
),
brokers AS (
    SELECT recording, broker_id,
           min(epoch_us(built_at)) FILTER (error_code = 0 AND NOT is_fenced) AS unfenced_us,
           min(epoch_us(received_at)) FILTER (want_shut_down) AS shut_down_us
    FROM broker_heartbeats GROUP BY ALL
),
bounds AS (
    SELECT recording, max(unfenced_us) AS unfenced_us, min(shut_down_us) AS shut_down_us
    FROM brokers GROUP BY recording
)
SELECT recording, coalesce(unfenced_us, first_us), coalesce(shut_down_us, last_us + 1)
FROM spans LEFT JOIN bounds USING (recording)
"""

_SPANS = """
SELECT recording, min(epoch_us(first_received_at)), max(epoch_us(last_completed_at)) + 1
FROM ingested_files WHERE requests > 0 GROUP BY recording
"""


def steady_phases(engine: Any, recordings: Collection[str]) -> dict[str, SteadyPhase]:
    """The steady phase of each recording that has requests (``kip_replay.replay.phases``)."""
    warehouse = engine.warehouse
    with warehouse.database(recordings) as database:
        rows = database.execute(_PHASES).fetchall()
    return {name: SteadyPhase(from_us, until_us) for name, from_us, until_us in sorted(rows)}


def log_spans(engine: Any, recordings: Collection[str]) -> dict[str, SteadyPhase]:
    """From the first to the last request of each recording, as if all of it were steady."""
    warehouse = engine.warehouse
    with warehouse.database(recordings) as database:
        rows = database.execute(_SPANS).fetchall()
    return {name: SteadyPhase(from_us, until_us) for name, from_us, until_us in sorted(rows)}


def phases_table(phases: Phases) -> pa.Table:
    """Phases or spans as rows (recording, from_us, until_us), for texts that read them."""
    rows = [{"recording": name, **phase._asdict()} for name, phase in sorted(phases.items())]
    return pa.Table.from_pylist(
        rows, pa.schema({"recording": TEXT, "from_us": LONG, "until_us": LONG})
    )

"""The steady phase of recordings, read from their tables, and how Spark rows are cut down to it."""

from collections.abc import Collection, Mapping
from typing import TypeAlias

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.intervals import BLOCKS
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.phases import SteadyPhase

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


def steady_phases(warehouse: Warehouse, recordings: Collection[str]) -> dict[str, SteadyPhase]:
    """The steady phase of each recording that has requests (``kip_replay.replay.phases``)."""
    with warehouse.database(recordings) as database:
        rows = database.execute(_PHASES).fetchall()
    return {name: SteadyPhase(from_us, until_us) for name, from_us, until_us in sorted(rows)}


def log_spans(warehouse: Warehouse, recordings: Collection[str]) -> dict[str, SteadyPhase]:
    """From the first to the last request of each recording, as if all of it were steady."""
    with warehouse.database(recordings) as database:
        rows = database.execute(_SPANS).fetchall()
    return {name: SteadyPhase(from_us, until_us) for name, from_us, until_us in sorted(rows)}


def with_phases(rows: DataFrame, phases: Phases) -> DataFrame:
    """Rows of recordings that have one, beside ``steady_from`` and ``steady_until``."""
    known = rows.where(F.col("recording").isin([*phases]))
    return known.withColumns(
        {
            "steady_from": F.timestamp_micros(bound_us(phases, "from_us")),
            "steady_until": F.timestamp_micros(bound_us(phases, "until_us")),
        }
    )


def bound_us(spans: Phases, name: str) -> Column:
    """The bound of this name of a row's recording: a constant in the plan and no join."""
    chosen = F.lit(None).cast("bigint")
    for recording, span in spans.items():
        chosen = F.when(F.col("recording") == recording, getattr(span, name)).otherwise(chosen)
    return chosen


def is_steady(at: str) -> Column:
    return (F.col(at) >= F.col("steady_from")) & (F.col(at) < F.col("steady_until"))


def block_of(at_us: Column, from_us: Column, until_us: Column) -> Column:
    """Which of BLOCKS equal parts of a span a time is in, from 0; the ends take what is beyond."""
    number = F.floor((at_us - from_us) * BLOCKS / (until_us - from_us))
    return F.greatest(F.lit(0), F.least(F.lit(BLOCKS - 1), number))


def steady_block(at: str) -> Column:
    """``block_of`` the steady phase, in rows of ``with_phases``."""
    micros = (F.unix_micros(name) for name in (at, "steady_from", "steady_until"))
    return block_of(*micros).alias("block")


def steady_span_s() -> Column:
    """Length of the steady phase in seconds, from integer microseconds."""
    micros = F.unix_micros("steady_until") - F.unix_micros("steady_from")
    return micros / F.lit(1e6)

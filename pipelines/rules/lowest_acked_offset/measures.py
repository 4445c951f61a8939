"""lowest_acked_offset: how stale reads are, and how long clients wait until they are not."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.phases import Phases, is_steady, with_phases
from kip_replay.pipelines.analysis.summaries import measured
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.lowest_acked_offset.tables import METADATA_WRITE_OUTCOMES
from kip_replay.replay.outcomes import Verdict


def latencies(read: Read, phases: Phases) -> DataFrame:
    """Values for latency_summary: writes that arrived in the steady phase.

    ``stale_window``: from the controller's response until every broker had applied it (today).
    ``read_after_write``: from the request until the broker that forwarded it knows that.
    """
    writes = _steady_writes(read, phases)
    groups = {"api_name": F.col("api_name")}
    return measured(
        writes, "stale_window", "stale_window_ms", groups, at="received_at"
    ).unionByName(
        measured(writes, "read_after_write", "read_after_write_ms", groups, at="received_at")
    )


def _steady_writes(read: Read, phases: Phases) -> DataFrame:
    applicable = F.col("verdict") != Verdict.NOT_APPLICABLE.value
    outcomes = read(METADATA_WRITE_OUTCOMES).where(applicable)
    return outcomes.transform(with_phases, phases).where(is_steady("received_at"))

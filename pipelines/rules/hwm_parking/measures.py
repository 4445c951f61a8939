"""hwm_parking: how late replicas learn, and what FETCHes cost."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.phases import Phases
from kip_replay.pipelines.analysis.summaries import (
    bandwidth_summary,
    measured,
    replica_kind,
    steady,
)
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.hwm_parking.tables import FETCH_PARKING_OUTCOMES, HIGH_WATERMARK_LAG
from kip_replay.replay.log_gaps import LOG_GAP
from kip_replay.replay.outcomes import Verdict
from kip_replay.replay.phases import STEADY


def latencies(read: Read, phases: Phases) -> DataFrame:
    """Values of hwm_parking's two metrics in the steady phase, for ``latency_summary``.

    ``high_watermark_lag``: per advance and replica that was not away. ``fetch_parked``: per FETCH
    that was parked.
    """
    applicable = F.col("verdict") != Verdict.NOT_APPLICABLE.value
    lag = measured(
        read(HIGH_WATERMARK_LAG).where(applicable & (F.col("phase") == STEADY)),
        "high_watermark_lag",
        "lag_ms",
        {"replica_kind": replica_kind(), "replica_id": F.col("replica_id")},
        at="leader_at",
    )
    parked = measured(
        steady(
            read(FETCH_PARKING_OUTCOMES).where(applicable & (F.col("decision") == "parked")), phases
        ),
        "fetch_parked",
        "parked_ms",
        {"replica_kind": replica_kind(), "completion": F.col("completion")},
        at="dequeued_at",
    )
    return lag.unionByName(parked)


def bandwidth(read: Read, phases: Phases) -> DataFrame:
    # How long a FETCH beside a hole waited is unknown; that it was sent is not.
    is_sent = (F.col("verdict") == Verdict.REPLAYED.value) | (F.col("reason") == LOG_GAP)
    rows = steady(read(FETCH_PARKING_OUTCOMES).where(is_sent), phases)
    one = F.lit(1)
    return bandwidth_summary(rows, "leader_id", replica_kind(), {"request": one, "response": one})

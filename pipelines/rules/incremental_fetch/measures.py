"""incremental_fetch: partitions and bytes on the wire."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.analysis.phases import Phases
from kip_replay.pipelines.analysis.summaries import bandwidth_summary, steady
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.incremental_fetch.tables import FETCH_SESSION_OUTCOMES
from kip_replay.replay.outcomes import Verdict


def bandwidth(read: Read, phases: Phases) -> DataFrame:
    outcomes = read(FETCH_SESSION_OUTCOMES)
    rows = steady(outcomes.where(F.col("verdict") == Verdict.REPLAYED.value), phases)
    listed = {way: F.col(f"{way}_partitions") for way in ("request", "response")}
    return bandwidth_summary(rows, "node_id", F.col("client_kind"), listed)

"""Which engine a job runs on."""

import os
from collections.abc import Sequence
from importlib.util import find_spec

from kip_replay.jobs._cli import Job, say
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.log_files import find_log_files
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.ingest.sample import log_bytes_of

#: From this much log on (uncompressed), Spark is faster on two cores: see docs/performance.md.
SPARK_BYTES_MIN = 1_000_000_000


def engine_of(job: Job, recordings: Sequence[Recording]) -> Engine:
    """The engine that ``--engine`` names; ``auto`` chooses and says why. Raises UserError."""
    warehouse, wanted = job.warehouse(), job.arguments.engine
    if wanted == "auto":
        wanted, why = _chosen(recordings)
        if recordings:
            say(f"engine: {wanted} ({why}; --engine says otherwise)")
    if wanted == "local":
        return Local(warehouse)
    if find_spec("pyspark") is None:
        raise UserError("pyspark is not installed: install it, or give --engine local")
    from kip_replay.pipelines.engines.spark import Spark  # pyspark is only there for this engine

    return Spark(warehouse, job.config["spark"]["duckdb_bytes_max"])


def _chosen(recordings: Sequence[Recording]) -> tuple[str, str]:
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return "spark", "under spark-submit"
    if "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "") or "MASTER" in os.environ:
        return "spark", "a master is configured"
    size = log_bytes_of([file for recording in recordings for file in find_log_files(recording)])
    border = f"{SPARK_BYTES_MIN / 1e6:,.0f} MB"
    if size < SPARK_BYTES_MIN:
        return "local", f"{size / 1e6:,.0f} MB of logs, Spark from {border} on"
    return "spark", f"{size / 1e6:,.0f} MB of logs, {border} or more"

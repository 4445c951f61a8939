"""Chooses the engine that a job runs on."""

import os
from importlib.util import find_spec
from typing import Annotated

from msgspec import Meta

from kip_replay.jobs._cli import Job
from kip_replay.jobs._config import checked
from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.warehouse.tables import Warehouse

#: From this much log on (uncompressed), Spark: a guess of where one machine's memory and cores end,
#: no measured crossing. 100 MB on two cores take 30 s and 1.0 GB locally, 49 s and 2.6 GB in Spark.
SPARK_BYTES_MIN = 1_000_000_000


def engine_of(job: Job, log_bytes: int | None = None) -> Engine:
    """The engine that ``--engine`` names; ``auto`` chooses by the logs, and says why."""
    warehouse, wanted = job.warehouse(), job.arguments.engine
    if wanted == "auto":
        wanted, why = _chosen(log_bytes or 0)
        if log_bytes is not None:
            job.tell(f"engine: {wanted} ({why}; --engine says otherwise)")
    if wanted == "local":
        local = _local(job, warehouse)
        if log_bytes is not None:
            job.tell(f"processes: {local.processes}, within {local.memory_mb:,} MB of memory")
        return local
    if find_spec("pyspark") is None:
        raise UserError("Spark needs pip install 'kip-replay[spark]': or give --engine local")
    from kip_replay.pipelines.engines.spark import Spark  # pyspark is only there for this engine

    return Spark(warehouse, job.config["spark"]["duckdb_bytes_max"])


def _local(job: Job, warehouse: Warehouse) -> Local:
    """The engine with what the settings allow it. Raises UserError for a senseless value."""
    given = {
        of: checked(job.config, f"local.{name}", Annotated[int, Meta(ge=0)])
        for name, of in (("processes", "cores"), ("memory_mb", "memory_mb"))
    }
    return Local(warehouse, **{name: value for name, value in given.items() if value})


def _chosen(log_bytes: int) -> tuple[str, str]:
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return "spark", "under spark-submit"
    if "--master" in os.environ.get("PYSPARK_SUBMIT_ARGS", "") or "MASTER" in os.environ:
        return "spark", "a master is configured"
    border = f"{SPARK_BYTES_MIN / 1e6:,.0f} MB"
    if log_bytes < SPARK_BYTES_MIN:
        return "local", f"{log_bytes / 1e6:,.0f} MB of logs, Spark from {border} on"
    return "spark", f"{log_bytes / 1e6:,.0f} MB of logs, {border} or more"

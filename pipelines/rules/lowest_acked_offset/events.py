"""lowest_acked_offset over Spark: what all nodes of a cluster say, replayed per recording.

When replicas learn of commits is an outcome of hwm_parking (``high_watermark_lag``), so that rule
goes first.
"""

from collections.abc import Iterable
from functools import reduce

from duckdb import DuckDBPyConnection
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from kip_replay.pipelines.replaying.seam import Increment
from kip_replay.pipelines.rules.hwm_parking.events import metadata_fetches
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.hwm_parking.tables import HIGH_WATERMARK_LAG
from kip_replay.replay.log_tables import (
    BROKER_HEARTBEATS,
    FETCHES,
    METADATA_OFFSETS,
    METADATA_WRITES,
)
from kip_replay.replay.lowest_acked_offset import events as kinds_of
from kip_replay.replay.lowest_acked_offset.events import INPUT_SCHEMA, NO_ANSWER, Event
from kip_replay.replay.phases import SteadyPhase

_SPARK = from_arrow_schema(INPUT_SCHEMA)
#: What a kind of event does not have.
_DEFAULTS = Event._field_defaults


def events(read: Read, increment: Increment) -> DataFrame:
    """All events of all recordings: recording, INPUT_SCHEMA."""
    recent = increment.recent(read)
    kinds = [
        heartbeat_events(recent(BROKER_HEARTBEATS)),
        write_events(recent(METADATA_WRITES)),
        fetch_events(recent(FETCHES)),
        api_versions_events(increment.of_time(read(METADATA_OFFSETS), "built_at")),
        learned_events(increment.of_time(read(HIGH_WATERMARK_LAG), "learned_at")),
    ]
    return reduce(DataFrame.unionByName, kinds)


def dependencies(database: DuckDBPyConnection, until_us: int, _: SteadyPhase) -> list[object]:
    """What outcomes up to a time follow from besides the log up to it.

    When replicas learned of commits: hwm_parking emits its lags later than that, and those of a
    former leader when the log is closed. Once emitted they stay, so it is enough to count them.
    """
    return [*database.execute(_LEARNED, {"until_us": until_us}).fetchall()]


_LEARNED = """
SELECT leader_id, leader_epoch, variant, count(*) FROM high_watermark_lag
WHERE parameter = 'none' AND epoch_us(learned_at) <= $until_us
GROUP BY ALL ORDER BY ALL
"""


def heartbeat_events(broker_heartbeats: DataFrame) -> DataFrame:
    """Heartbeats that a controller responded to, also with an error."""
    states = ("want_fence", "want_shut_down", "is_fenced")
    return _events(
        broker_heartbeats,
        kinds_of.HEARTBEAT,
        F.unix_micros("built_at"),
        ("connection", "broker_id", "broker_epoch", *states, "response_bytes"),
        **_clock(),
        error_code=F.coalesce("error_code", F.lit(NO_ANSWER)),
        offset=F.col("current_metadata_offset"),
    )


def write_events(metadata_writes: DataFrame) -> DataFrame:
    """Writes to the metadata log, on the controller and at the broker that forwards them."""
    sender = ("connection", "client_id", "correlation_id")
    granted = F.filter("resources", lambda resource: resource["error_code"] == 0)
    writes = metadata_writes.withColumn("_granted", F.coalesce(granted, F.array()))
    return _events(
        writes,
        kinds_of.WRITE,
        F.unix_micros("built_at"),
        (*sender, "api_name", "is_forwarded", "validate_only"),
        **_clock(),
        error_code=F.coalesce("error_code", F.lit(NO_ANSWER)),
        written=F.size("_granted"),
        partitions=_sum("_granted", "partitions"),
        topics=F.transform("_granted", lambda resource: F.coalesce(resource["name"], F.lit(""))),
        replicas=F.transform(
            "_granted", lambda resource: F.coalesce(resource["replicas"], F.lit(0)).cast("bigint")
        ),
        configs=_sum("_granted", "configs"),
    )


def _sum(resources: str, field: str) -> Column:
    """What the resources count, together; what is not logged counts nothing."""
    return F.aggregate(
        resources,
        F.lit(0).cast("bigint"),
        lambda total, resource: total + F.coalesce(resource[field], F.lit(0)).cast("bigint"),
    )


def fetch_events(fetches: DataFrame) -> DataFrame:
    """Raft FETCHes of the metadata log, also those that were turned away."""
    same = (
        "received_us",
        "dequeued_us",
        "leader_epoch",
        "last_fetched_epoch",
        "high_watermark",
        "error_code",
        "response_high_watermark",
        "correlation_id",
    )
    return _events(
        metadata_fetches(fetches),
        kinds_of.FETCH,
        F.col("built_us"),
        same,
        broker_id=F.col("replica_id"),
        offset=F.col("fetch_offset"),
        is_diverging=F.col("is_diverging") | F.col("is_snapshot"),
    )


def api_versions_events(metadata_offsets: DataFrame) -> DataFrame:
    """Offsets of metadata images, as API_VERSIONS returns them."""
    return _events(
        metadata_offsets.where("kind = 'finalized_features_epoch'"),
        kinds_of.API_VERSIONS,
        F.unix_micros("built_at"),
        dequeued_us=F.unix_micros("dequeued_at"),
        error_code=F.lit(0),
        broker_id=F.col("subject_id"),
        offset=F.col("metadata_offset"),
    )


def learned_events(high_watermark_lag: DataFrame) -> DataFrame:
    """When replicas learned of an advance of the high watermark, recorded and replayed."""
    names = ("variant", "leader_id", "leader_epoch", "replica_id", "high_watermark")
    return _events(
        high_watermark_lag.where("parameter = 'none' AND learned_at IS NOT NULL").withColumnRenamed(
            "leader_id", "node_id"
        ),
        kinds_of.LEARNED,
        F.unix_micros("learned_at"),
        ("high_watermark", "variant"),
        request_id=F.concat_ws("/", *(n if n != "leader_id" else "node_id" for n in names)),
        error_code=F.lit(0),
        broker_id=F.col("replica_id"),
    )


def _clock() -> dict[str, Column]:
    names = ("received", "dequeued", "handled")
    return {f"{name}_us": F.unix_micros(f"{name}_at") for name in names}


def _events(
    rows: DataFrame, kind: str, at_us: Column, same: Iterable[str] = (), **columns: Column
) -> DataFrame:
    """Rows as events of a kind: columns that stay the ``same``, those given, others' defaults."""
    given = {
        "at_us": at_us,
        "kind": F.lit(kind),
        "request_id": F.col("request_id") if "request_id" in rows.columns else F.lit(None),
        "node_id": F.col("node_id"),
        **{name: F.col(name) for name in same},
        **columns,
    }
    return rows.select("recording", *(_filled(field.name, given) for field in _SPARK))


def _filled(name: str, given: dict[str, Column]) -> Column:
    default = F.lit([] if _DEFAULTS.get(name) == () else _DEFAULTS.get(name))
    column = F.coalesce(given[name], default) if name in given else default
    return column.cast(_SPARK[name].dataType).alias(name)

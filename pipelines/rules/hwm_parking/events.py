"""hwm_parking over Spark: recorded FETCHes of the metadata log, replayed per controller."""

from duckdb import DuckDBPyConnection
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from kip_replay.pipelines.replaying.seam import Increment
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.hwm_parking import INPUT_SCHEMA, NO_RESPONSE, NOT_SENT
from kip_replay.replay.log_tables import FETCHES
from kip_replay.replay.phases import SteadyPhase

_TIMES = ("received", "dequeued", "built", "completed")


def metadata_fetches(fetches: DataFrame) -> DataFrame:
    """FETCHes of the metadata log in the form the rule reads: recording, node_id, INPUT_SCHEMA.

    What a version does not have is -1, as in Kafka's own defaults.
    """
    requested = F.col("request_partitions")[0]
    returned = F.col("response_partitions")[0]
    columns: dict[str, Column] = {
        "leader_epoch": requested["current_leader_epoch"],
        **{f"{name}_us": F.unix_micros(f"{name}_at") for name in _TIMES},
        "max_wait_us": F.col("max_wait_ms") * F.lit(1000),
        "fetch_offset": requested["fetch_offset"],
        "last_fetched_epoch": requested["last_fetched_epoch"],
        "high_watermark": F.coalesce(requested["high_watermark"], F.lit(NOT_SENT)),
        "error_code": F.when(F.col("error_code").isNull(), F.lit(NO_RESPONSE))
        .when(F.col("error_code") != 0, F.col("error_code"))
        .otherwise(F.coalesce(returned["error_code"], F.lit(0))),
        "response_high_watermark": returned["high_watermark"],
        "record_bytes": F.coalesce(returned["record_bytes"], F.lit(0)),
        "is_diverging": F.coalesce(returned["diverging_epoch"], F.lit(-1)) >= 0,
        "is_snapshot": F.coalesce(returned["snapshot_end_offset"], F.lit(-1)) >= 0,
    }
    read = (_as_read(name, columns.get(name, F.col(name))) for name in INPUT_SCHEMA.names)
    of_metadata = fetches.where("is_cluster_metadata AND size(request_partitions) > 0")
    return of_metadata.select("recording", "node_id", *read)


def _as_read(name: str, column: Column) -> Column:
    """A column in the type of the rule's input; only sizes may be null there."""
    if INPUT_SCHEMA.field(name).type != "int64":
        return column.alias(name)
    number = column.cast("bigint")
    if name.endswith("_bytes") and name != "record_bytes":
        return number.alias(name)
    return F.coalesce(number, F.lit(-1)).alias(name)


def events(read: Read, increment: Increment) -> DataFrame:
    return metadata_fetches(increment.recent(read)(FETCHES))


def dependencies(_: DuckDBPyConnection, until_us: int, phase: SteadyPhase) -> list[object]:
    """What lags up to a time follow from besides the log up to it: the phases until then."""
    return [min(at_us, until_us + 1) for at_us in phase]

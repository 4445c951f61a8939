"""incremental_fetch over Spark: recorded FETCHes of topic partitions, replayed per broker."""

from duckdb import DuckDBPyConnection
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from kip_replay.pipelines.replaying.dependencies import topic_names, usable_names
from kip_replay.pipelines.replaying.seam import Increment
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.incremental_fetch.registration import RULE
from kip_replay.replay.log_tables import FETCHES, TOPICS
from kip_replay.replay.phases import SteadyPhase

_SPARK = from_arrow_schema(RULE.input_schema)
_KEY = RULE.key


def session_fetches(fetches: DataFrame, topics: DataFrame) -> DataFrame:
    """What the rule reads: recording, node_id and its input schema.

    One row a FETCH of topic partitions, and before them one a node with the names of all topic
    ids: from v13 on a FETCH says only ids.
    """
    of_partitions = fetches.where(_is_of_topic_partitions())
    events = of_partitions.select(*_KEY, *(_read(field.name) for field in _SPARK))
    names = names_by_recording(topics).join(events.select(*_KEY).distinct(), "recording")
    return events.unionByName(names.select(*_KEY, *(_read_name(field.name) for field in _SPARK)))


def _is_of_topic_partitions() -> Column:
    """Not of the metadata log, which has no sessions; without a request, the client id shows it."""
    is_raft = F.coalesce(F.col("client_id").startswith("raft-client-"), F.lit(False))
    return ~F.coalesce(F.col("is_cluster_metadata"), is_raft)


def names_by_recording(topics: DataFrame) -> DataFrame:
    """One row a recording: ``topic_names``, sorted by id."""
    pairs = F.sort_array(F.collect_list(F.struct("topic_id", F.col("name").alias("topic"))))
    return topic_names(topics).groupBy("recording").agg(pairs.alias("topic_names"))


def _read(name: str) -> Column:
    """A column of a FETCH in the rule's type; times are microseconds."""
    if name == "topic_names":
        column = F.lit(None)
    elif name.endswith("_us"):
        column = F.unix_micros(name.removesuffix("_us") + "_at")
    else:
        column = F.col(name)
    return _typed(name, column)


def _read_name(name: str) -> Column:
    """A column of the row of names, which sorts before all FETCHes."""
    if name == "topic_names":
        return _typed(name, F.col(name))
    first = {"request_id": F.lit(""), "dequeued_us": F.lit(0)}
    return _typed(name, first.get(name, F.lit(None)))


def _typed(name: str, column: Column) -> Column:
    return column.cast(_SPARK[name].dataType).alias(name)


def events(read: Read, increment: Increment) -> DataFrame:
    return session_fetches(increment.recent(read)(FETCHES), read(TOPICS))


def dependencies(database: DuckDBPyConnection, until_us: int, _: SteadyPhase) -> list[object]:
    """What outcomes up to a time follow from besides the log up to it: the names of topic ids."""
    return usable_names(database, until_us)

"""min_isr_acks over Spark: each leader's PRODUCEs and FETCHes, and what other nodes' lines show.

A leader's replay needs what other nodes logged. That is little (what changes, not what is
repeated), and each goes only to the leaders whose PRODUCEs touch what it is about.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce

import pyarrow as pa
from duckdb import DuckDBPyConnection
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from kip_replay.pipelines.replaying.dependencies import NAMES_AN_ID, topic_names, usable_names
from kip_replay.pipelines.replaying.seam import Increment
from kip_replay.pipelines.warehouse.tables import Read
from kip_replay.replay.log_tables import (
    BROKER_HEARTBEATS,
    CONFIGS,
    FETCHES,
    ISR_CHANGES,
    PRODUCER_IDS,
    PRODUCES,
    TOPICS,
)
from kip_replay.replay.min_isr_acks.events import (
    INPUT_SCHEMA,
    KIND_ORDER,
    MIN_INSYNC_REPLICAS,
    PARTITION_TYPE,
    PROGRESS_US_MAX,
    SILENCE,
    SILENCE_US,
    Kind,
)
from kip_replay.replay.phases import SteadyPhase

_SPARK = from_arrow_schema(INPUT_SCHEMA)
_PARTITION = from_arrow_schema(pa.schema(list(PARTITION_TYPE)))
#: METADATA that repeats the one before is left out if it comes sooner than this.
_AGAIN_US = 2_000_000


def events(read: Read, increment: Increment) -> DataFrame:
    """All events of all leaders: recording, node_id (the leader), INPUT_SCHEMA.

    Who leads what, and what topic ids are called, is read of all of the log.
    """
    recent = increment.recent(read)
    fetches, produces = recent(FETCHES), read(PRODUCES)
    leaders = produces.select("recording", "node_id").distinct()
    names = topic_names(read(TOPICS))
    touched = touched_partitions(produces, names)
    topics = touched.select("recording", "node_id", "topic").distinct()
    # A heartbeat and a METADATA response are compared with the one before, a heartbeat also with
    # the next one.
    beats = increment.recent(read, 2 * SILENCE_US, 2 * SILENCE_US)(BROKER_HEARTBEATS)
    changes = increment.of_time(
        read(ISR_CHANGES), "built_at", 2 * SILENCE_US, begins_at="dequeued_at"
    )
    kinds = [
        produce_events(recent(PRODUCES), read(PRODUCER_IDS)),
        fetch_events(fetches, leaders),
        consumer_fetch_events(fetches, leaders),
        metadata_fetch_events(fetches, leaders),
        heartbeat_events(beats, leaders),
        config_events(increment.of_time(read(CONFIGS), "built_at"), leaders, topics),
        *isr_events(changes, names, touched),
        topic_events(names, topics),
    ]
    return reduce(DataFrame.unionByName, kinds)


def dependencies(database: DuckDBPyConnection, until_us: int, _: SteadyPhase) -> list[object]:
    """What outcomes up to a time follow from besides the log up to it.

    The names of topic ids; who leads what, also where only a later PRODUCE shows it: a leader is
    fed what other nodes' lines say of brokers and its partitions, which may be earlier; and which
    brokers fall silent then, which the next heartbeat shows.
    """
    found = usable_names(database, until_us)
    leads = {"until_us": until_us, "min_insync_replicas": MIN_INSYNC_REPLICAS}
    found += database.execute(_LEADS, leads).fetchall()
    silent = {"until_us": until_us, "silence_us": SILENCE_US}
    found += database.execute(_SILENT, silent).fetchall()
    return found


_LEADS = f"""
WITH produced AS (SELECT DISTINCT node_id, unnest(partitions) AS p FROM produces),
led AS (
    SELECT produced.node_id, unnest([p.topic, p.topic_id, t.topic]) AS topic,
           p.partition AS partition
    FROM produced LEFT JOIN (FROM topics WHERE {NAMES_AN_ID}) AS t ON t.topic_id = p.topic_id
),
stated AS (
    SELECT topic, partition FROM isr_changes
    WHERE epoch_us(least(built_at, dequeued_at)) <= $until_us
    UNION SELECT resource_name, NULL FROM configs
    WHERE name = $min_insync_replicas AND resource_type = 'topic'
        AND epoch_us(built_at) <= $until_us
)
SELECT node_id, NULL AS topic, NULL AS partition FROM produced
UNION
SELECT node_id, led.topic, stated.partition FROM led JOIN stated
ON led.topic = stated.topic AND led.partition = coalesce(stated.partition, led.partition)
ORDER BY ALL
"""

_SILENT = """
SELECT broker_id, coalesce(
    min(epoch_us(dequeued_at)) FILTER (WHERE epoch_us(dequeued_at) > $until_us)
    - max(epoch_us(dequeued_at)) FILTER (WHERE epoch_us(dequeued_at) <= $until_us) > $silence_us,
    true
) AS is_silent
FROM broker_heartbeats WHERE error_code = 0
GROUP BY broker_id HAVING min(epoch_us(dequeued_at)) <= $until_us ORDER BY ALL
"""


# --- which topics and partitions are a leader's -----------------------------------------


def touched_partitions(produces: DataFrame, names: DataFrame) -> DataFrame:
    """recording, node_id, topic, partition: each that a PRODUCE to the node names, once."""
    each = produces.select("recording", "node_id", F.inline("partitions")).select(
        "recording", "node_id", "topic", "topic_id", "partition"
    )
    named = _named(each.distinct(), names, F.coalesce("topic", "topic_id"))
    return named.select("recording", "node_id", "topic", "partition").distinct()


def _named(rows: DataFrame, names: DataFrame, topic: Column) -> DataFrame:
    """Rows with the topic's name instead of its id, where that is known."""
    ids = F.broadcast(names.withColumnRenamed("topic_id", "_id"))
    joined = rows.withColumn("_topic", topic).join(
        ids, (rows["recording"] == ids["recording"]) & (F.col("_topic") == F.col("_id")), "left"
    )
    kept = [rows[name] for name in rows.columns if name != "topic"]
    return joined.select(*kept, F.coalesce("name", "_topic").alias("topic"))


# --- what a leader's own log shows ---------------------------------------------------------------


def produce_events(produces: DataFrame, producer_ids: DataFrame) -> DataFrame:
    """PRODUCEs; idempotent where the producer is transactional or had sent INIT_PRODUCER_ID."""
    keys = ["recording", "client_id", "_host"]
    idempotent = (
        producer_ids.where("error_code = 0")
        .withColumn("_host", _host("connection"))
        .groupBy(*keys)
        .agg(F.min("built_at").alias("_idempotent_from"))
    )
    matched = produces.withColumn("_host", _host("connection")).join(
        F.broadcast(idempotent), keys, "left"
    )
    transactional = F.col("transactional_id").isNotNull()
    return _events(
        matched,
        Kind.PRODUCE,
        F.unix_micros("dequeued_at"),
        ("client_id", "connection", "acks"),
        **_times("received", "dequeued", "handled", "built"),
        timeout_us=F.col("timeout_ms") * F.lit(1000),
        is_transactional=transactional,
        is_idempotent=F.when(
            transactional | (F.col("dequeued_at") >= F.col("_idempotent_from")), F.lit(True)
        ),
        partitions=F.transform(
            "partitions",
            lambda p: _partition(
                **_of(p, "record_bytes", "error_code"),
                base_offset=F.when(F.col("has_response"), p["base_offset"]),
            ),
        ),
    )


def _host(connection: str) -> Column:
    return F.regexp_extract(connection, r":\d+-(.*):\d+-\d+(?:-\d+)?$", 1)


def fetch_events(fetches: DataFrame, leaders: DataFrame) -> DataFrame:
    """Followers' FETCHes that the leader took, with what it refused to take note of."""
    followers = fetches.where("NOT is_cluster_metadata AND replica_id >= 0 AND error_code = 0")
    local_us = F.unix_micros("handled_at") - F.unix_micros("dequeued_at")
    noted_us = F.least(F.floor(local_us / 2), F.lit(PROGRESS_US_MAX)).cast("bigint")
    return _events(
        followers.join(F.broadcast(leaders), ["recording", "node_id"], "left_semi"),
        Kind.FETCH,
        F.unix_micros("dequeued_at") + noted_us,
        ("replica_id", "replica_epoch"),
        **_times("dequeued", "handled", "built"),
        session_id=F.col("response_session_id"),
        partitions=F.concat(F.transform("request_partitions", _requested), _only_returned()),
    )


def _requested(p: Column) -> Column:
    """A partition of a FETCH, with what the response has of it."""
    responses = F.filter("response_partitions", lambda r: _same_partition(p, r))
    refused = F.exists(
        responses,
        lambda r: (r["error_code"] != 0) | (F.coalesce(r["diverging_epoch"], F.lit(-1)) >= 0),
    )
    return _partition(
        **_of(p, "fetch_offset"),
        record_bytes=F.get(responses, F.lit(0))["record_bytes"],
        leader_epoch=p["current_leader_epoch"],
        is_refused=refused,
    )


def _only_returned() -> Column:
    """Partitions that a response has records of, though the request did not list them again."""

    def listed(r: Column) -> Column:
        return F.exists("request_partitions", lambda p: _same_partition(p, r))

    return F.transform(
        F.filter("response_partitions", lambda r: (r["record_bytes"] > 0) & ~listed(r)),
        lambda r: _partition(**_of(r, "record_bytes"), is_refused=F.lit(False)),
    )


def consumer_fetch_events(fetches: DataFrame, leaders: DataFrame) -> DataFrame:
    """Consumers' FETCHes, with what they list and forget of their sessions."""
    consumers = fetches.where("NOT is_cluster_metadata AND replica_id = -1 AND error_code = 0")
    return _events(
        consumers.join(F.broadcast(leaders), ["recording", "node_id"], "left_semi"),
        Kind.CONSUMER_FETCH,
        F.unix_micros("handled_at"),
        ("min_bytes",),
        **_times("built"),
        session_id=F.col("response_session_id"),
        is_full=F.coalesce("session_epoch", F.lit(-1)) <= 0,
        partitions=F.concat(
            _listed("request_partitions", is_forgotten=False),
            _listed("forgotten_partitions", is_forgotten=True),
        ),
    )


def _listed(partitions: str, *, is_forgotten: bool) -> Column:
    return F.transform(
        F.coalesce(partitions, F.array()),
        lambda p: _partition(**_of(p), is_forgotten=F.lit(is_forgotten)),
    )


def _same_partition(one: Column, other: Column) -> Column:
    return (
        (one["partition"] == other["partition"])
        & one["topic"].eqNullSafe(other["topic"])
        & one["topic_id"].eqNullSafe(other["topic_id"])
    )


# --- what other nodes' logs show -----------------------------------------------------------------


def metadata_fetch_events(fetches: DataFrame, leaders: DataFrame) -> DataFrame:
    """Leaders' own FETCHes of the metadata log, as the active controller responded."""
    returned = F.col("response_partitions")[0]
    successful = fetches.where("is_cluster_metadata AND error_code = 0").where(
        (returned["error_code"] == 0) & (F.size("request_partitions") > 0)
    )
    by_controller = successful.withColumnRenamed("node_id", "_controller")
    own = by_controller.withColumnRenamed("replica_id", "node_id")
    return _events(
        own.join(F.broadcast(leaders), ["recording", "node_id"], "left_semi"),
        Kind.METADATA_FETCH,
        F.unix_micros("received_at"),
        (),
        **_times("received", "built"),
        replica_id=F.col("_controller"),
        fetch_offset=F.col("request_partitions")[0]["fetch_offset"],
        record_bytes=returned["record_bytes"],
        high_watermark=returned["high_watermark"],
    )


def heartbeat_events(broker_heartbeats: DataFrame, leaders: DataFrame) -> DataFrame:
    """Heartbeats that say something new, and those before and after a silence."""
    of_broker = Window.partitionBy("recording", "broker_id").orderBy("_at", "request_id")
    says = F.struct("broker_epoch", "want_shut_down", "is_fenced")
    gap = F.lead("_at").over(of_broker) - F.col("_at")
    since = F.col("_at") - F.lag("_at").over(of_broker)
    beats = (
        broker_heartbeats.where("error_code = 0")
        .withColumn("_at", F.unix_micros("dequeued_at"))
        .withColumn("_new", ~says.eqNullSafe(F.lag(says).over(of_broker)))
        .withColumn("_silence", F.coalesce(gap > SILENCE_US, F.lit(True)))
        .withColumn("_after", F.coalesce(since > SILENCE_US, F.lit(False)))
        .where("_new OR _silence OR _after")
        .drop("node_id")
    )
    return _events(
        beats.join(F.broadcast(leaders), "recording"),
        Kind.HEARTBEAT,
        F.col("_at"),
        ("want_shut_down", "is_fenced"),
        **_times("built"),
        dequeued_us=F.col("_at"),
        replica_id=F.col("broker_id"),
        replica_epoch=F.col("broker_epoch"),
        operation=F.when(F.col("_silence"), F.lit(SILENCE)),
    )


def config_events(configs: DataFrame, leaders: DataFrame, topics: DataFrame) -> DataFrame:
    """min.insync.replicas of the a leader's topics, and of the cluster."""
    set_or_described = configs.where(
        (F.col("name") == MIN_INSYNC_REPLICAS) & (F.coalesce("error_code", F.lit(0)) == 0)
    ).withColumnRenamed("node_id", "_source")
    of_topics = set_or_described.where("resource_type = 'topic'").join(
        topics.withColumnRenamed("topic", "resource_name"), ["recording", "resource_name"]
    )
    of_cluster = (
        set_or_described.where("resource_type = 'broker'")
        .withColumn("resource_name", F.lit(""))
        .join(F.broadcast(leaders), "recording")
    )
    at = F.unix_micros("built_at")
    return _events(
        of_topics.unionByName(of_cluster),
        Kind.CONFIG,
        at,
        ("operation", "value"),
        request_id=F.concat_ws(" ", "request_id", "resource_name", "operation"),
        # A topic is created with its configs: there is nothing to wait for.
        built_us=F.when(F.col("source") != "CREATE_TOPICS", at),
        replica_id=F.col("_source"),
        name=F.col("resource_name"),
    ).distinct()


def topic_events(names: DataFrame, topics: DataFrame) -> DataFrame:
    """Names of topic ids, before everything else: they are true at all times."""
    named = names.join(topics.withColumnRenamed("topic", "name"), ["recording", "name"])
    topic_id = F.col("topic_id")
    return _events(named, Kind.TOPIC, F.lit(-1), ("name",), request_id=topic_id, value=topic_id)


def isr_events(isr_changes: DataFrame, names: DataFrame, touched: DataFrame) -> list[DataFrame]:
    """What ALTER_PARTITION requested and returned, and METADATA where it changed."""
    changes = _named(isr_changes, names, F.col("topic"))
    altered = changes.where("source = 'ALTER_PARTITION'").drop("node_id")
    source = Window.partitionBy("recording", "node_id", "topic", "partition").orderBy(
        "built_at", "request_id"
    )
    says = F.struct("leader_id", "leader_epoch", F.array_sort("isr"), "replicas")
    again = F.unix_micros("built_at") - F.lag(F.unix_micros("built_at")).over(source) < _AGAIN_US
    same = F.coalesce(says.eqNullSafe(F.lag(says).over(source)) & again, F.lit(False))
    metadata = (
        changes.where("source = 'METADATA' AND error_code = 0")
        .withColumn("_same", same)
        .where("NOT _same")
        .withColumnRenamed("node_id", "_source")
    )
    returned_isr = F.when(F.coalesce("error_code", F.lit(0)) == 0, F.col("isr"))
    nobody = F.lit(None).cast("int")
    return [
        _isr(altered, touched, Kind.ISR_ASKED, "dequeued_at", F.col("requested_isr"), nobody),
        _isr(altered, touched, Kind.ISR_ANSWERED, "built_at", returned_isr, nobody),
        _isr(metadata, touched, Kind.METADATA, "built_at", F.col("isr"), F.col("_source")),
    ]


def _isr(
    changes: DataFrame, touched: DataFrame, kind: Kind, at: str, isr: Column, source: Column
) -> DataFrame:
    """One event per line and leader, with the partitions of this leader."""
    same = ("topic", "topic_id", "partition", "leader_epoch", "leader_id", "replicas")
    partition = _partition(**{name: F.col(name) for name in same}, isr=isr)
    lines = (
        changes.join(touched, ["recording", "topic", "partition"])
        .withColumn("_source_id", source)
        .groupBy("recording", "node_id", "request_id", F.unix_micros(at).alias("_at"), "_source_id")
        .agg(F.array_sort(F.collect_list(partition)).alias("_partitions"))
    )
    return _events(
        lines,
        kind,
        F.col("_at"),
        (),
        replica_id=F.col("_source_id"),
        partitions=F.col("_partitions"),
    )


# --- rows of the rule's input --------------------------------------------------------------------


def _events(
    rows: DataFrame, kind: Kind, at_us: Column, same: Iterable[str], **columns: Column
) -> DataFrame:
    """Rows as events of a kind: columns that stay the ``same``, those given, the others null."""
    given = {
        "at_us": at_us,
        "kind_order": F.lit(KIND_ORDER[kind]),
        "request_id": F.col("request_id"),
        "kind": F.lit(kind.value),
        **{name: F.col(name) for name in same},
        **columns,
    }
    return rows.select("recording", "node_id", *_filled(_SPARK, given))


def _partition(**fields: Column) -> Column:
    """A partition of an event: the fields given, the others null."""
    return F.struct(*_filled(_PARTITION, fields))


def _filled(schema: StructType, given: Mapping[str, Column]) -> Iterator[Column]:
    for field in schema:
        yield given.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)


def _of(partition: Column, *names: str) -> dict[str, Column]:
    return {name: partition[name] for name in ("topic", "topic_id", "partition", *names)}


def _times(*names: str) -> dict[str, Column]:
    return {f"{name}_us": F.unix_micros(f"{name}_at") for name in names}

"""Every rule over Spark equals the rule fed in Python, however its events are partitioned."""

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from golden.naive_leader_log import events_of, reacting_rows_of, rows_of
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from recorded_logs import folder_of

from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.replay import Rules, replay
from kip_replay.pipelines.replaying.seam import WHOLE_LOG, Increment, replayed
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.rules.incremental_fetch.events import names_by_recording
from kip_replay.pipelines.rules.min_isr_acks.events import consumer_fetch_events
from kip_replay.pipelines.rules.steps import RuleSteps
from kip_replay.pipelines.warehouse.data_files import TableFiles, by_key
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import FETCHES, PRODUCES, TOPICS
from kip_replay.replay.min_isr_acks.events import Kind
from kip_replay.replay.rule import Settings
from kip_replay.replay.table import Table

#: Brokers that stop and come back, which every rule reads; a leader that changes.
ACKS, FAILOVER = RECORDINGS = ("acks-not-enough", "failover-4.0")
#: Consumers with fetch sessions.
SESSIONS = "sessions-on"
SWEEP = (1, 3)
OPTIONS = {
    "hwm_parking": {"max_wait_ms": (100,)},
    "incremental_fetch": {"session_slots": (0, 8)},
    "min_isr_acks": {"min_insync_replicas": SWEEP},
    "lowest_acked_offset": {"broker_heartbeat_interval_ms": (500,)},
}
EVERY_RULE = pytest.mark.parametrize("steps", RULES, ids=lambda steps: steps.name)
BY_NAME = {steps.name: steps for steps in RULES}
OUTCOMES = [table for steps in RULES for table in steps.outcomes]


class Replayed:
    """A warehouse with the logs and outcomes of ``RECORDINGS``, and what rules read of it."""

    def __init__(self, path: Path) -> None:
        self.warehouse = Warehouse(path)
        recordings = [load_recording(folder_of(name)) for name in (*RECORDINGS, SESSIONS)]
        ingest(recordings, Local(self.warehouse), say=lambda line: None)
        replay(recordings[:2], Local(self.warehouse), RULES, OPTIONS, say=lambda line: None)
        self.settings = Rules(recordings[:2], Local(self.warehouse), RULES, OPTIONS).settings
        self._events: dict[str, pa.Table] = {}

    def events(self, steps: RuleSteps) -> pa.Table:
        """The rule's events of both recordings, of tables in disorder."""

        def read(table: Table) -> DataFrame:
            rows = self.warehouse.read(table, RECORDINGS)
            return rows.repartition(3, F.xxhash64(*table.key))

        if steps.name not in self._events:
            self._events[steps.name] = steps.events(read, WHOLE_LOG).toArrow()
        return self._events[steps.name]

    def found(self, query: str) -> list[tuple[Any, ...]]:
        with self.warehouse.database(RECORDINGS) as database:
            return database.execute(query).fetchall()


@pytest.fixture(scope="module")
def log(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    return Replayed(tmp_path_factory.mktemp("rules"))


def in_python(log: Replayed, steps: RuleSteps) -> dict[Table, pa.Table]:
    """What the rule emits, fed one key after another and in other batches than Spark's."""
    rule = steps.rule
    order = [(name, "ascending") for name in (*rule.key, *rule.order)]
    keyed = by_key(iter(log.events(steps).sort_by(order).combine_chunks().to_batches()), rule.key)
    emitted: dict[Table, list[pa.Table]] = {table: [] for table in steps.outcomes}
    for key, rows in keyed:
        replay_of_key = rule.start(log.settings, dict(zip(rule.key, key, strict=True)), None)
        fed = rows.select(rule.input_schema.names).cast(rule.input_schema)
        pieces = [fed.slice(at, 333) for at in range(0, fed.num_rows, 333)]
        batches = [*map(replay_of_key.feed, pieces), replay_of_key.finish()]
        for table, of_table in zip(steps.outcomes, zip(*batches, strict=True), strict=True):
            emitted[table].append(of_recording(key[0], pa.Table.from_batches(of_table)))
    return {table: pa.concat_tables(rows) for table, rows in emitted.items()}


def of_recording(name: str, rows: pa.Table) -> pa.Table:
    return rows.append_column("recording", pa.array([name] * rows.num_rows, pa.string()))


def in_order(table: Table, rows: pa.Table) -> pa.Table:
    nullable = [field.remove_metadata().with_nullable(True) for field in table.arrow_schema]
    kept = rows.select([field.name for field in nullable]).cast(pa.schema(nullable))
    return kept.sort_by([(name, "ascending") for name in table.key])


@EVERY_RULE
def test_spark_gives_the_rows_of_the_rule_in_python(
    log: Replayed, steps: RuleSteps, spark: SparkSession, tmp_path: Path
) -> None:
    expected = {t: in_order(t, rows) for t, rows in in_python(log, steps).items()}
    for table, rows in expected.items():
        assert rows.num_rows > 100
        assert in_order(table, log.warehouse.rows(table, RECORDINGS)).equals(rows), table.name
    events = spark.createDataFrame(log.events(steps))
    for partitions in (1, 7):
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        shuffled = events.repartition(partitions, F.xxhash64(*steps.rule.order))
        root = str(tmp_path / str(partitions))
        files = replayed(steps.rule, log.settings, shuffled, TableFiles(root, "part"))
        for table in steps.outcomes:
            parts = [
                of_recording(
                    file.recording, pq.ParquetFile(f"{root}/{table.name}/{file.path}").read()
                )
                for file in files
                if file.table == table.name
            ]
            assert in_order(table, pa.concat_tables(parts)).equals(expected[table])


@EVERY_RULE
def test_increments_share_out_the_events_of_a_log(log: Replayed, steps: RuleSteps) -> None:
    """None is lost between two, also of lines that tell of several times, and none is another."""
    # Between an ALTER_PARTITION and its answer, and between two heartbeats.
    [(cut_us,)] = log.found(
        "SELECT epoch_us(dequeued_at) FROM isr_changes WHERE source = 'ALTER_PARTITION' "
        f"AND recording = '{ACKS}' AND dequeued_at < built_at ORDER BY dequeued_at DESC LIMIT 1"
    )
    parts = []
    for increment in (Increment(None, cut_us), Increment(cut_us, None)):
        events = steps.events(log.warehouse.reader([ACKS]), increment)
        parts.append(events.where(increment.has(F.col(steps.rule.order[0]))).toArrow())
    whole = log.events(steps).filter(pc.field("recording") == ACKS)
    # What is true at all times begins every increment.
    assert {*map(repr, pa.concat_tables(parts).to_pylist())} == {*map(repr, whole.to_pylist())}


def test_a_rule_that_fails_fails_the_job(log: Replayed, tmp_path: Path) -> None:
    steps = RULES[0]
    events = steps.events(log.warehouse.reader([ACKS]), WHOLE_LOG)
    with pytest.raises(PythonException, match=ACKS):
        replayed(steps.rule, Settings(voters={}), events, TableFiles(str(tmp_path), "part"))


# --- outcome tables


@pytest.mark.parametrize("table", OUTCOMES, ids=lambda table: table.name)
def test_keys_are_unique_and_never_null(log: Replayed, table: Table) -> None:
    key = ", ".join(table.key)
    assert log.found(f"SELECT {key} FROM {table.name} GROUP BY ALL HAVING count(*) > 1") == []
    nulls = " OR ".join(f"{name} IS NULL" for name in table.key)
    assert log.found(f"SELECT {key} FROM {table.name} WHERE {nulls}") == []


@pytest.mark.parametrize(
    ("logged", "outcomes"),
    [
        (
            "SELECT recording, request_id FROM fetches WHERE is_cluster_metadata",
            "SELECT recording, recorded_request_id FROM fetch_parking_outcomes",
        ),
        (
            "SELECT recording, request_id FROM fetches WHERE NOT is_cluster_metadata",
            "SELECT recording, request_id FROM fetch_session_outcomes",
        ),
    ],
    ids=["of the metadata log", "of topic partitions"],
)
def test_every_fetch_has_one_recorded_outcome(log: Replayed, logged: str, outcomes: str) -> None:
    recorded = f"{outcomes} WHERE variant = 'recorded'"
    assert log.found(f"({logged}) EXCEPT ALL ({recorded})") == []
    assert log.found(f"({recorded}) EXCEPT ALL ({logged})") == []


def test_the_steady_phase_is_from_the_last_unfencing_to_the_first_shutdown(log: Replayed) -> None:
    assert len(log.found("SELECT DISTINCT phase FROM high_watermark_lag")) == 3
    wrong = """
    WITH unfenced AS (
        SELECT recording, broker_id, min(built_at) AS first_at FROM broker_heartbeats
        WHERE error_code = 0 AND NOT is_fenced GROUP BY ALL
    ), steady AS (SELECT recording, max(first_at) AS since FROM unfenced GROUP BY ALL)
    SELECT * FROM high_watermark_lag JOIN steady USING (recording)
    WHERE (phase = 'starting') <> (leader_at < since)
    """
    assert log.found(wrong) == []


def test_nothing_is_unknown_that_the_log_could_have_decided(log: Replayed) -> None:
    of_failover = f"verdict = 'unknown' AND recording = '{FAILOVER}'"
    assert log.found(f"SELECT * FROM fetch_parking_outcomes WHERE {of_failover}") == []
    lags = f"FROM high_watermark_lag WHERE {of_failover} AND phase <> 'stopping'"
    reasons = [reason for (reason,) in log.found(f"SELECT DISTINCT reason {lags}")]
    assert all("ended before the replica learned" in reason for reason in reasons)


def test_the_draft_of_kip_227_knows_the_names_that_the_log_tells(log: Replayed) -> None:
    draft = f"variant = 'incremental_draft' AND NOT is_full AND recording = '{FAILOVER}'"
    [(sized,)] = log.found(
        f"SELECT count(*) FROM fetch_session_outcomes WHERE {draft} AND request_bytes > 0"
    )
    assert sized > 500
    [told] = names_by_recording(log.warehouse.read(TOPICS, [FAILOVER])).collect()
    names = [(name.topic_id, name.topic) for name in told.topic_names]
    assert len(names) > 30
    assert names == sorted(set(names))
    assert all(len(topic_id) == 22 for topic_id, _ in names)


# --- min_isr_acks beside a reader that shares no code with it


def test_acks_are_those_of_a_naive_reader(log: Replayed) -> None:
    """All heartbeats and all METADATA instead of changes, other pieces."""
    # The readers name requests each in its own way, and only Spark's looks at INIT_PRODUCER_ID.
    apart = {"recording", "request_id", "is_idempotent"}
    acks, reacting = BY_NAME["min_isr_acks"].outcomes
    numbers = {acks: 2748 * (1 + len(SWEEP)), reacting: 886 * 2}
    naive = {acks: rows_of(ACKS, SWEEP), reacting: reacting_rows_of(ACKS)}
    for table, number in numbers.items():
        found, expected = (
            sorted(repr(sorted(kv for kv in row.items() if kv[0] not in apart)) for row in rows)
            for rows in (log.warehouse.rows(table, [ACKS]).to_pylist(), naive[table])
        )
        assert len(found) == number
        assert found == expected


def test_idempotent_producers_are_those_that_asked_for_an_id(log: Replayed) -> None:
    told = dict(
        log.found(
            "SELECT client_id, bool_or(is_idempotent) FROM produce_ack_outcomes "
            f"WHERE recording = '{ACKS}' GROUP BY client_id"
        )
    )
    assert {client for client, is_idempotent in told.items() if is_idempotent} == {"producer-4"}
    assert {is_idempotent for client, is_idempotent in told.items() if client != "producer-4"} == {
        None
    }


def test_events_are_few_where_nothing_changes(log: Replayed) -> None:
    """Heartbeats and METADATA that say the same again do not go to every leader."""
    counts = Counter(
        (row["node_id"], row["kind"])
        for row in log.events(BY_NAME["min_isr_acks"]).to_pylist()
        if row["recording"] == ACKS
    )
    assert {node for node, _ in counts} == {11, 12}
    assert {kind for _, kind in counts} == {k.value for k in Kind if k != Kind.CONSUMER_FETCH}
    for node in (11, 12):
        assert counts[node, Kind.HEARTBEAT.value] < 40
        assert counts[node, Kind.METADATA.value] < 20


def test_consumers_fetches_are_those_of_a_naive_reader(log: Replayed) -> None:
    """Each with the partitions that it lists, in every leader's log."""
    consumers = consumer_fetch_events(
        log.warehouse.read(FETCHES, [SESSIONS]),
        log.warehouse.read(PRODUCES, [SESSIONS]).select("recording", "node_id").distinct(),
    )
    found = sorted(
        (row["node_id"], row["at_us"], row["built_us"], row["session_id"], row["is_full"], listed)
        for row in consumers.collect()
        for listed in [sorted((p["topic_id"], p["partition"]) for p in row["partitions"])]
    )
    naive = sorted(
        (node, event.at_us, event.built_us, event.session_id, event.is_full, listed)
        for node, events in events_of(SESSIONS).items()
        for event in events
        if event.kind == Kind.CONSUMER_FETCH
        for listed in [sorted((p.topic_id, p.partition) for p in event.partitions or ())]
    )
    assert len(found) == 833
    assert found == naive


def test_forgotten_partitions_are_told(log: Replayed) -> None:
    """No recorded consumer forgets any: followers' FETCHes that do, as if they were consumers'."""
    fetches = log.warehouse.read(FETCHES, [SESSIONS]).where("NOT is_cluster_metadata")
    forgetting = fetches.where("error_code = 0 AND size(forgotten_partitions) > 0").withColumn(
        "replica_id", F.lit(-1)
    )
    leaders = forgetting.select("recording", "node_id").distinct()
    events = {
        row["request_id"]: row["partitions"]
        for row in consumer_fetch_events(forgetting, leaders).collect()
    }
    requests = forgetting.select("request_id", "request_partitions", "forgotten_partitions")
    wanted = {
        request_id: [
            (p["topic_id"], p["partition"], is_forgotten)
            for is_forgotten, partitions in enumerate(of_request)
            for p in partitions
        ]
        for request_id, *of_request in requests.collect()
    }
    assert len(wanted) >= 2
    assert wanted == {
        request_id: [(p["topic_id"], p["partition"], p["is_forgotten"]) for p in partitions]
        for request_id, partitions in events.items()
    }

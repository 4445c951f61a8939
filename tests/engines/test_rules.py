"""What the rules read over an engine: events by increments."""

from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pytest
from small_logs import folder_of

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.pipelines.engines import Steps
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.seam import WHOLE_LOG, Increment, replayed
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.data_files import TableFiles, microseconds
from kip_replay.pipelines.warehouse.steps import Covered
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import Fetches
from kip_replay.replay.min_isr_acks.events import EventKind
from kip_replay.replay.rule import Settings

#: Brokers that stop and come back, which every rule reads but that of consumers; consumers with
#: fetch sessions.
ACKS, SESSIONS = "acks-not-enough", "sessions-on"
EVERY_RULE = pytest.mark.parametrize("steps", RULES, ids=lambda steps: steps.name)
BY_NAME = {steps.name: steps for steps in RULES}


class Logs:
    """A warehouse with logs, and what rules read of it."""

    def __init__(self, path: Path) -> None:
        self.warehouse = Warehouse(path)
        self.engine = Local(self.warehouse)
        recordings = [load_recording(folder_of(name)) for name in (ACKS, SESSIONS)]
        ingest(recordings, self.engine, say=lambda line: None)

    def events(
        self, steps: SummedRule, recording: str = ACKS, increment: Increment = WHOLE_LOG
    ) -> pa.Table:
        text = increment.events(steps.rule, steps.text("events", **increment.values))
        return self.engine.rows(text, [recording])


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Logs:
    return Logs(tmp_path_factory.mktemp("rules"))


@EVERY_RULE
def test_increments_share_out_the_events_of_a_log(log: Logs, steps: SummedRule) -> None:
    """None is lost between two, also of lines with several times, and none is another."""
    # Between an ALTER_PARTITION and its response, and between two heartbeats; or in a FETCH.
    name = ACKS if log.events(steps).num_rows else SESSIONS
    table = "isr_changes" if name == ACKS else "fetches"
    with log.warehouse.database([name]) as database:
        [(cut_us,)] = database.execute(
            f"SELECT epoch_us(dequeued_at) FROM {table} WHERE dequeued_at < built_at AND "
            f"{'source = ?' if name == ACKS else 'replica_id = -1 AND ? IS NOT NULL'} "
            "ORDER BY dequeued_at DESC LIMIT 1 OFFSET ?",
            ["ALTER_PARTITION", 0 if name == ACKS else 500],
        ).fetchall()
    cut = Covered(identity="", until_us=cut_us)
    increments = (Increment(None, cut), Increment(cut_us, None))
    parts = [log.events(steps, name, each) for each in increments]
    assert all(part.num_rows for part in parts)
    # What is true at all times begins every increment.
    assert {*map(repr, pa.concat_tables(parts).to_pylist())} == {
        *map(repr, log.events(steps, name).to_pylist())
    }


def test_a_rule_that_fails_fails_the_job(log: Logs, tmp_path: Path) -> None:
    files = TableFiles(str(tmp_path), "part")
    failing = replayed(log.warehouse, BY_NAME["hwm_parking"], Settings(voters={}), [ACKS], files)
    with pytest.raises(KeyError, match=ACKS):
        log.engine.beside(Steps({"hwm_parking": failing}, 0))


def test_consumers_fetches_are_events_with_what_they_list_and_forget(log: Logs) -> None:
    """No recorded consumer forgets any: followers' FETCHes that do, as if they were consumers'."""
    fetches = log.warehouse.rows(Fetches, [SESSIONS])
    consumers = pa.repeat(pa.scalar(-1, pa.int32()), fetches.num_rows)
    place = fetches.schema.get_field_index("replica_id")
    as_consumers = {"fetches": fetches.set_column(place, "replica_id", consumers)}
    text = BY_NAME["min_isr_acks"].text("events", **WHOLE_LOG.values)
    same = itemgetter("node_id", "request_id", "min_bytes")
    events = {
        (*same(row), row["at_us"], row["built_us"], row["session_id"], row["is_full"]): [
            (p["topic_id"], p["partition"], p["is_forgotten"]) for p in row["partitions"]
        ]
        for row in log.engine.rows(text, [SESSIONS], as_consumers).to_pylist()
        if row["kind"] == EventKind.CONSUMER_FETCH
    }
    wanted = {
        (
            *same(row),
            microseconds(row["handled_at"]),
            microseconds(row["built_at"]),
            row["response_session_id"],
            row["session_epoch"] in (0, -1),
        ): [
            (p["topic_id"], p["partition"], is_forgotten)
            for is_forgotten, name in enumerate(("request_partitions", "forgotten_partitions"))
            for p in row[name] or ()
        ]
        for row in fetches.to_pylist()
        if not row["is_cluster_metadata"] and row["error_code"] == 0
    }
    assert {full for *_, full in wanted} == {True, False}
    assert sum(is_forgotten for listed in wanted.values() for *_, is_forgotten in listed) >= 2
    leaders = {node_id for node_id, *_ in events}
    assert {key: listed for key, listed in wanted.items() if key[0] in leaders} == events

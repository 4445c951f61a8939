"""What one rule's replay of a recording does when it is killed, overtaken, or out of date."""

import shutil
from collections.abc import Callable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import growing
import pytest
from constructed import at, engine_on, row
from growing import OPTIONS, ArrivingLogs, close, close_anew, read_in, replay_new, rows_of
from put_rows import versions
from ran import Killed, at_commit, killed
from small_logs import write_recording

from kip_replay.pipelines.engines import Feeding
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.errors import WriteConflictError
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.replaying import replay as replaying
from kip_replay.pipelines.replaying.increments import GrowingReplay
from kip_replay.pipelines.replaying.rule_texts import RuleTexts
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.steps import Covered, Step
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.hwm_parking.outcomes import HighWatermarkLag
from kip_replay.replay.log_tables import (
    BrokerHeartbeats,
    Configs,
    IngestedFiles,
    IsrChanges,
    Produces,
    Topics,
)
from kip_replay.replay.table import Table
from kip_replay.replay.tables import ReplayState

BY_NAME = {steps.name: steps for steps in RULES}
#: A quick rule that has rows to emit in every increment.
RULE = BY_NAME["incremental_fetch"]
RECORDING = "acks-not-enough"


@pytest.fixture(autouse=True)
def _one_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(growing, "RULES", (RULE,))


class Grown(NamedTuple):
    """A recording whose first half was replayed and whose second was read: ``path`` is kept."""

    path: Path
    recording: Recording
    half: dict[str, list[str]]
    whole: dict[str, list[str]]

    def copied(self, path: Path) -> Warehouse:
        return Warehouse(shutil.copytree(self.path, path))


def outcomes(warehouse: Warehouse, recording: Recording) -> dict[str, list[str]]:
    return rows_of(warehouse, RULE.outcomes, recording)


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Grown:
    folder = tmp_path_factory.mktemp("grown")
    logs = ArrivingLogs(RECORDING, folder, [0.6])
    warehouse = Warehouse(folder / "warehouse")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing, "RULES", (RULE,))
        recording = logs.arrive(0)
        read_in(warehouse, recording)
        replay_new(warehouse, recording)
        recording = logs.arrive(1)
        read_in(warehouse, recording)
        # So that all that a replay commits is the rule's.
        replaying.look_into([recording], Local(warehouse), 2.0, str)
        other = Warehouse(shutil.copytree(folder / "warehouse", folder / "other"))
        close_anew(other, recording)
    half, whole = outcomes(warehouse, recording), outcomes(other, recording)
    assert all(0 < len(half[name]) < len(whole[name]) for name in half)
    return Grown(folder / "warehouse", recording, half, whole)


def as_if_late(run: Callable[[Warehouse, Recording], object]) -> Callable[..., None]:
    """Runs a replay with a line from before the states."""

    def of(warehouse: Warehouse, recording: Recording) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Covered, "is_late", lambda covered, readings: True)
            run(warehouse, recording)

    return of


#: How a replay may be run: an increment, the last one, and both from the beginning.
RUNS: dict[str, Callable[[Warehouse, Recording], object]] = {
    "an increment": replay_new,
    "the last increment": close,
    "an increment from the beginning": as_if_late(replay_new),
    "a whole replay": as_if_late(close),
}


def is_completed(warehouse: Warehouse, recording: Recording) -> None:
    """The next increment finishes what another began, and there is nothing left to do."""
    replay_new(warehouse, recording)
    assert (RECORDING, RULE.name) in warehouse.lineage([RECORDING])
    before = versions(warehouse)
    replay_new(warehouse, recording)
    assert versions(warehouse) == before


@pytest.mark.parametrize(
    "run",
    ["an increment", *(pytest.param(of, marks=pytest.mark.slow) for of in [*RUNS][1:])],
)
def test_killed_at_any_commit_the_next_run_puts_it_right(
    run: str, grown: Grown, tmp_path: Path
) -> None:
    for number in count():
        warehouse = grown.copied(tmp_path / str(number))
        try:
            with at_commit(number, killed):
                RUNS[run](warehouse, grown.recording)
        except Killed:
            # Whoever reads now is not told that rows follow from something.
            told = warehouse.lineage([RECORDING]).get((RECORDING, RULE.name))
            assert (told is not None) == (number == 0)
            if number == 0:
                assert outcomes(warehouse, grown.recording) == grown.half
        else:
            break
        if run.startswith("an increment"):
            is_completed(warehouse, grown.recording)
        close(warehouse, grown.recording)
        assert outcomes(warehouse, grown.recording) == grown.whole
        assert warehouse.rows(ReplayState, [RECORDING]).num_rows == 0
    # Lineage, both tables, states, lineage; from the beginning, the states are dropped first.
    assert number == (6 if run == "an increment from the beginning" else 5)


# --- two at once


@pytest.mark.parametrize("number", [0, 3])
@pytest.mark.parametrize("run", ["an increment", "a whole replay"])
def test_who_was_overtaken_stops(run: str, number: int, grown: Grown, tmp_path: Path) -> None:
    """Another run goes all its way before a commit of the first."""
    warehouse = grown.copied(tmp_path / "warehouse")
    with (
        pytest.raises(WriteConflictError, match=f"{RULE.name} of recording '{RECORDING}'"),
        at_commit(number, lambda: close(warehouse, grown.recording)),
    ):
        RUNS[run](warehouse, grown.recording)
    assert outcomes(warehouse, grown.recording) == grown.whole
    assert (RECORDING, RULE.name) in warehouse.lineage([RECORDING])


# --- states that do not hold


@pytest.fixture
def resumed(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether replays resumed from states, one after another."""
    found: list[bool] = []
    run = GrowingReplay._replay

    def watched(growing: GrowingReplay, saved: Any, *args: Any) -> Feeding[None]:
        found.append(saved is not None)
        return run(growing, saved, *args)

    monkeypatch.setattr(GrowingReplay, "_replay", watched)
    return found


def other_code(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Step, "code", lambda step: "another")


def other_dependency(patch: pytest.MonkeyPatch) -> None:
    real, named = RuleTexts.text, Text("SELECT 'a name' AS topic")
    patch.setattr(
        RuleTexts,
        "text",
        lambda of, name, **values: named if name == "dependencies" else real(of, name, **values),
    )


def other_setting(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(OPTIONS, "incremental_fetch", {"session_slots": (4,)})


@pytest.mark.parametrize("change", [other_code, other_dependency, other_setting])
def test_states_of_something_else_are_not_used(
    change: Callable[[pytest.MonkeyPatch], None], grown: Grown, tmp_path: Path, resumed: list[bool]
) -> None:
    """Neither by what is another, nor when all is as it was before."""
    warehouse = grown.copied(tmp_path / "warehouse")
    with pytest.MonkeyPatch.context() as patch:
        change(patch)
        replay_new(warehouse, grown.recording)
    replay_new(warehouse, grown.recording)
    assert resumed == [False, False]
    close(warehouse, grown.recording)
    assert resumed == [False, False, True]
    assert outcomes(warehouse, grown.recording) == grown.whole


def test_a_file_that_comes_late(grown: Grown, tmp_path: Path, resumed: list[bool]) -> None:
    """What a broker logged at the beginning is read last."""
    logs = ArrivingLogs(RECORDING, tmp_path, [0.6])
    warehouse = Warehouse(tmp_path / "warehouse")
    lines = logs.pieces[0][12].splitlines(keepends=True)
    early, logs.pieces[0][12] = logs.pieces[0][12], b"".join(lines[len(lines) // 2 :])
    recording = logs.arrive(0)
    read_in(warehouse, recording)
    replay_new(warehouse, recording)
    logs.pieces[0][12] = early
    recording = logs.arrive(1)
    read_in(warehouse, recording)
    assert f"{RULE.name} from the beginning" in replay_new(warehouse, recording)
    assert resumed == [False, False]
    close(warehouse, recording)
    assert outcomes(warehouse, recording) == grown.whole


def test_lines_of_isr_and_configs_can_come_late_too(tmp_path: Path) -> None:
    log = ArrivingLogs(RECORDING, tmp_path, []).pieces[0][11].splitlines(keepends=True)
    metadata = b"".join(line for line in log if b'"METADATA"' in line)
    recording = write_recording(tmp_path / "late", {"11.log": metadata}, {11: "11.log"})
    warehouse = Warehouse(tmp_path / "warehouse")
    read_in(warehouse, recording)
    [file] = warehouse.rows(IngestedFiles, ["late"]).to_pylist()
    assert file["first_event_at"] is not None


# --- what else outcomes follow from

UNTIL_US = round(at(60).timestamp() * 1_000_000)
Made = tuple[Table, dict[str, Any]]
_PARTITION = [field.name for field in Produces.arrow_schema.field("partitions").type.value_type]


def depends(rule: str, rows: Sequence[Made]) -> list[object]:
    """What a rule's outcomes until second 60 depend on, in tables with these rows."""
    needed = (Topics, Produces, IsrChanges, Configs, BrokerHeartbeats, HighWatermarkLag)
    given = {table: [made for of, made in rows if of is table] for table in needed}
    text = BY_NAME[rule].text("dependencies", until_us=UNTIL_US)
    found: list[object] = engine_on(given).rows(text, []).to_pylist()
    return found


def topic(second: float, source: str = "METADATA", error_code: int = 0) -> Made:
    values = {"topic": "orders", "topic_id": "id", "built_at": at(second), "source": source}
    return Topics, row(Topics, **values, node_id=11, error_code=error_code)


def produce(node: int, partition: int, second: float) -> Made:
    written = {"topic": None, "topic_id": "id", "partition": partition}
    partitions = [dict.fromkeys(_PARTITION) | written]
    return Produces, row(Produces, node_id=node, dequeued_at=at(second), partitions=partitions)


def isr(partition: int, second: float) -> Made:
    times = {"built_at": at(second + 1), "dequeued_at": at(second)}
    return IsrChanges, row(IsrChanges, topic="orders", partition=partition, node_id=1, **times)


def config(second: float, name: str = "min.insync.replicas") -> Made:
    resource = {"resource_type": "topic", "resource_name": "orders", "name": name}
    return Configs, row(Configs, **resource, operation="set", built_at=at(second), node_id=1)


def heartbeat(second: float) -> Made:
    values = {"broker_id": 11, "dequeued_at": at(second), "node_id": 1, "error_code": 0}
    return BrokerHeartbeats, row(BrokerHeartbeats, **values)


def lag(second: float) -> Made:
    of = {"rule": "hwm_parking", "variant": "recorded", "high_watermark": round(second)}
    of |= {"leader_id": 1, "leader_epoch": 1, "replica_id": 2}
    return HighWatermarkLag, row(HighWatermarkLag, **of, learned_at=at(second))


FETCH, ACKS, OFFSETS = "incremental_fetch", "min_isr_acks", "lowest_acked_offset"
PRODUCED = [topic(5), produce(11, 0, 10)]
ON_TWO = [*PRODUCED, produce(11, 1, 90)]


@pytest.mark.parametrize(
    ("rule", "rows", "others", "is_depended_on"),
    [
        *((rule, [], [topic(90)], True) for rule in (FETCH, ACKS)),
        *((rule, [topic(90)], [topic(90, error_code=3)], False) for rule in (FETCH, ACKS)),
        *((rule, [], [topic(61, "CREATE_TOPICS")], True) for rule in (FETCH, ACKS)),
        # Created so much later, no request until then can have carried it.
        *((rule, [], [topic(200, "CREATE_TOPICS")], False) for rule in (FETCH, ACKS)),
        (ACKS, [*PRODUCED, isr(0, 5)], [*ON_TWO, isr(0, 5)], False),
        (ACKS, [*PRODUCED, isr(1, 59.5)], [*ON_TWO, isr(1, 59.5)], True),
        (ACKS, [*PRODUCED, isr(1, 61)], [*ON_TWO, isr(1, 61)], False),
        # A config is the topic's, and what a new leader is fed begins with the log.
        (ACKS, [*PRODUCED, config(61)], [*PRODUCED, config(5)], True),
        (ACKS, PRODUCED, [*PRODUCED, config(5, "retention.ms")], False),
        (ACKS, PRODUCED, [*PRODUCED, produce(12, 0, 90)], True),
        # A silence that only the next heartbeat ends.
        (ACKS, [*map(heartbeat, (10, 58))], [*map(heartbeat, (10, 58, 68))], False),
        (ACKS, [*map(heartbeat, (10, 58))], [*map(heartbeat, (10, 58, 66))], True),
        (ACKS, [*map(heartbeat, (10, 58, 62))], [*map(heartbeat, (57, 62, 90))], False),
        # Lags that are emitted later.
        (OFFSETS, [lag(10)], [lag(10), lag(61)], False),
        (OFFSETS, [lag(10)], [lag(10), lag(59)], True),
    ],
)
def test_what_outcomes_depend_on(
    rule: str, rows: list[Made], others: list[Made], is_depended_on: bool
) -> None:
    assert (depends(rule, rows) != depends(rule, others)) == is_depended_on

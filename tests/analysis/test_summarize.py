"""Which summaries and judgements are made: what lineage does not know as current."""

from collections.abc import Collection
from pathlib import Path

import pytest

from kip_replay.pipelines.analysis import summarize as module
from kip_replay.pipelines.analysis.summarize import SUMMARIES, accuracy_step, summarize
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.steps import Covered
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import PredictionAccuracy

NAMES = ["r", "s"]


@pytest.fixture
def summed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Recordings that are summed up, which these tests only note."""
    found: list[str] = []

    def noted(engine: Local, rules: object, wanted: dict[str, Covered], *_: object) -> None:
        found.extend(wanted)
        done(engine.warehouse, SUMMARIES, {name: str(of) for name, of in wanted.items()})

    monkeypatch.setattr(module, "_summarize", noted)
    return found


def done(warehouse: Warehouse, step: str, follows_from: dict[str, str]) -> None:
    warehouse.replace(step, follows_from, {})


def replayed(warehouse: Warehouse, names: Collection[str], outcomes: str) -> None:
    for steps in RULES:
        done(warehouse, steps.name, dict.fromkeys(names, outcomes))


def test_only_what_is_not_current_is_made(tmp_path: Path, summed: list[str]) -> None:
    """Of recordings that are too short for any prediction."""
    warehouse, said = Warehouse(tmp_path), []
    pairs = [("r", "r"), ("s", "s"), ("r", "s")]
    replayed(warehouse, NAMES, "outcomes")
    for _ in range(2):
        summarize(NAMES, Local(warehouse), RULES, pairs, said.append)
        assert summed == NAMES
    assert said == ["summarize: r, s", "summarize: summaries are those of these outcomes already"]
    assert warehouse.rows(PredictionAccuracy, NAMES).num_rows == 0
    before = warehouse.lineage(NAMES)
    assert {key for key in before if "accuracy" in key[1]} == {
        (one, accuracy_step(other)) for one, other in pairs
    }

    replayed(warehouse, ["s"], "other outcomes")
    summarize(NAMES, Local(warehouse), RULES, pairs, said.append)
    assert summed == [*NAMES, "s"]
    after = warehouse.lineage(NAMES)
    changed = {key for key in after if before[key] != after[key] and "accuracy" in key[1]}
    assert changed == {("s", accuracy_step("s")), ("r", accuracy_step("s"))}


def test_what_was_not_replayed_is_not_summed_up(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    replayed(warehouse, ["r"], "outcomes")
    with pytest.raises(UserError, match=r"no outcomes of a recording 's': run kip-replay run"):
        summarize(NAMES, Local(warehouse), RULES, [])

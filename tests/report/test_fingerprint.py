"""A page is written anew when anything that it follows from is another."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from report_examples import CONFIG

from kip_replay.jobs import _steps
from kip_replay.pipelines.rules import RULES

#: A warehouse, and its lineage, in which every step is done.
WAREHOUSE = Mock(**{"lineage.return_value.get.return_value": "done"})


def fingerprint(config: Any = CONFIG) -> str:
    found = _steps.report_fingerprint(["one"], WAREHOUSE, {}, config)
    assert found is not None
    return found


def test_it_follows_from_the_limits_of_verdicts() -> None:
    assert fingerprint() == fingerprint()
    limited = [
        (name, key)
        for name in ("report", *(steps.name for steps in RULES))
        for key in CONFIG[name]
        if key.startswith(("decide_", "damaged_"))
    ]
    assert len(limited) >= len(RULES) + 1
    for section, key in limited:
        other = {**CONFIG, section: {**CONFIG[section], key: 0.125}}
        assert fingerprint(other) != fingerprint()


def test_it_follows_from_all_that_makes_a_page(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def code_of(modules: tuple[str, ...], texts: tuple[str, ...]) -> str:
        read.extend(texts)
        return ""

    monkeypatch.setattr(_steps, "code_of", code_of)
    fingerprint()
    names = {Path(each).name for each in read}
    assert {"template.html.j2", "page.js", "charts.css", "uPlot.iife.min.js"} <= names
    assert {"slowest.py", "page.toml", "curves.py", "slow_produces.sql", "errors.toml"} <= names
    assert "__pycache__" not in {part for each in read for part in Path(each).parts}

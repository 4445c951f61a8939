"""A rule is named in its folders, and nowhere else but by a rule that reads its outcomes.

Its limits of verdicts stand with those of the others, where operators look for them.
"""

import pytest
from recorded_logs import REPOSITORY

from kip_replay.pipelines.rules import RULES

TOPS = ("conf", "jobs", "pipelines", "replay", "tools")
SUFFIXES = {".py", ".sql", ".toml", ".j2", ".conf", ".sh"}


def folders_of(rule: str) -> set[str]:
    return {f"replay/{rule}", f"pipelines/rules/{rule}"}


@pytest.mark.parametrize("rule", [steps.name for steps in RULES])
def test_nothing_outside_names_a_rule(rule: str) -> None:
    followers = {steps.name for steps in RULES if rule in steps.follows}
    may = set().union(*map(folders_of, {rule, *followers}))
    files = (file for top in TOPS for file in (REPOSITORY / top).rglob("*"))
    naming = {
        file.relative_to(REPOSITORY).as_posix()
        for file in files
        if file.suffix in SUFFIXES and rule in file.read_text(encoding="utf-8") + file.name
    }
    assert naming
    naming -= {"conf/decisions.toml"}
    assert not {name for name in naming if not any(name.startswith(f"{at}/") for at in may)}

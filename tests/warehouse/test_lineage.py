"""A rule's code is what its own modules import: the report replays nothing."""

import ast
import shutil
from importlib.util import resolve_name
from pathlib import Path

import pytest
from small_logs import REPOSITORY

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.pipelines.engines.text import read_texts
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse import steps
from kip_replay.pipelines.warehouse.steps import contents_of

BY_NAME = {steps.name: steps for steps in RULES}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's code, to be changed."""
    for package in ("pipelines", "replay"):
        python = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / package, tmp_path / package, ignore=python)
    monkeypatch.setattr(steps, "_FOLDER", tmp_path)
    return tmp_path


def code(rule: str) -> str:
    return steps.code_of.__wrapped__(BY_NAME[rule].step.modules)


@pytest.mark.parametrize(
    ("changed", "rules"),
    [
        # What a FETCH of the metadata log lacks, lowest_acked_offset reads too.
        ("replay/model/raft.py", {"hwm_parking", "lowest_acked_offset"}),
        ("replay/hwm_parking/loop.py", {"hwm_parking"}),
        ("replay/incremental_fetch/__init__.py", {"incremental_fetch"}),
        ("replay/records.py", {*BY_NAME}),
        ("pipelines/replaying/seam.py", {*BY_NAME}),
        ("pipelines/rules/__init__.py", set()),
        ("pipelines/report/page.py", set()),
        ("pipelines/warehouse/commits.py", set()),
    ],
)
def test_a_changed_module_changes_the_rules_that_import_it(
    changed: str, rules: set[str], folder: Path
) -> None:
    before = {rule: code(rule) for rule in BY_NAME}
    with (folder / changed).open("a") as module:
        module.write("# another word\n")
    assert {rule for rule in BY_NAME if code(rule) != before[rule]} == rules


def test_texts_are_of_the_rules_that_read_them() -> None:
    def read(name: str) -> set[str]:
        return {r.name for r in RULES if any(str(f).endswith(name) for f in r.step.queries)}

    assert read("hwm_parking/events.sql") == {"hwm_parking", "lowest_acked_offset"}
    assert read("replaying/topic_names.sql") == {*BY_NAME} - {"hwm_parking", "lowest_acked_offset"}
    assert read("min_isr_acks/events.sql") == {"min_isr_acks"}


@pytest.mark.parametrize("rule", RULES, ids=lambda steps: steps.name)
def test_texts_that_events_read_are_beside_them(rule: SummedRule) -> None:
    """A rule's code has the files that its events and dependencies are in, and no other text."""
    files, followed = rule.step.queries, {f"{other}_events" for other in rule.file.follows}
    stated = followed.union(*(read_texts(file) for file in files))
    assert all({*rule.text(name).parts_read} <= stated for name in ("events", "dependencies"))


def test_imports_are_those_of_the_parser_of_python() -> None:
    for path in (each for top in TOPS for each in REPOSITORY.glob(f"{top}/**/*.py")):
        package, found = ".".join(("kip_replay", *path.parent.relative_to(REPOSITORY).parts)), set()
        for node in ast.walk(ast.parse(path.read_bytes())):
            names = {alias.name for alias in getattr(node, "names", ()) if hasattr(alias, "asname")}
            if isinstance(node, ast.ImportFrom):
                base = resolve_name("." * node.level + (node.module or ""), package)
                names = {base, *(f"{base}.{name}" for name in names)}
            found |= {name for name in names if name.startswith("kip_replay")}
        name = package if path.name == "__init__.py" else f"{package}.{path.stem}"
        assert found == {*steps._imported(path, name)}, path


def test_contents_are_the_same_whatever_files_are_called() -> None:
    def row(name: str, content: str) -> dict[str, object]:
        return {"node_id": 1, "source_file": name, "content_hash": content}

    rows = [row("a", "1"), row("b", "2"), row("c", "2")]
    assert contents_of(rows) == ["1:1", "1:2"]


# --- a rule is named in its folders, and by a rule that reads its outcomes ------------------------

TOPS = ("conf", "jobs", "pipelines", "replay", "tools")
SUFFIXES = {".py", ".sql", ".toml", ".j2", ".conf", ".sh"}


@pytest.mark.parametrize("rule", [steps.name for steps in RULES])
def test_nothing_outside_names_a_rule(rule: str) -> None:
    followers = {steps.name for steps in RULES if rule in steps.file.follows}
    folders = ("replay", "pipelines/rules")
    may = tuple(f"{folder}/{name}/" for folder in folders for name in (rule, *followers))
    files = (file for top in TOPS for file in (REPOSITORY / top).rglob("*"))
    naming = {
        file.relative_to(REPOSITORY).as_posix()
        for file in files
        if file.suffix in SUFFIXES and rule in file.read_text(encoding="utf-8") + file.name
    }
    assert naming
    # Where operators look for limits of verdicts; what is printed for all rules.
    naming -= {"conf/decisions.toml", "pipelines/rules/errors.toml"}
    assert not {name for name in naming if not name.startswith(may)}

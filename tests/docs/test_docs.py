"""Pages hold together, and hold what the code has: links, keys, reasons, messages."""

import ast
import json
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import TypeGuard

import pytest
from deltalake import write_deltalake
from markdown_it import MarkdownIt
from small_logs import REPOSITORY

from kip_replay.jobs import sql
from kip_replay.jobs._cli import Exit, read_config
from kip_replay.jobs._steps import STEPS
from kip_replay.jobs.main import JOBS
from kip_replay.jobs.run import PARSER
from kip_replay.pipelines.analysis.catalog import Catalog
from kip_replay.pipelines.analysis.views import read_views
from kip_replay.pipelines.ingest.manifest import ENTRIES, FACTS, NODE_ENTRIES, RULE_KEYS
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.quality.suites import load_suites
from kip_replay.replay.kafka.request_log.line import RejectReason
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES, Lineage
from tools.docs import step_graph, table_page

PAGES = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
_SHELL = (">", "|", "&&")
_JOB = re.compile(r"^(?:\.venv/bin/)?kip-replay (?=[a-z])")


def named(page: Path) -> str:
    """The page's path in the repository: what a test of it is called."""
    return page.relative_to(REPOSITORY).as_posix()


def blocks(page: Path) -> Iterator[str]:
    """Blocks of code, fenced or indented, without their indentation."""
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type in ("fence", "code_block"):
            yield token.content


def commands(page: Path) -> Iterator[list[str]]:
    """The words after `kip-replay` of each command in the blocks, continued lines put together."""
    for block in blocks(page):
        open_command = ""
        for line in block.splitlines():
            if not open_command and not _JOB.match(line):
                continue
            open_command += line.removesuffix("\\") + "\n"
            try:
                words = shlex.split(open_command, comments=True)
            except ValueError:  # a quote that a later line closes
                continue
            if not line.endswith("\\"):
                yield [*takewhile(lambda word: word not in _SHELL, words)][1:]
                open_command = ""
        assert not open_command, f"{named(page)}: {open_command}"


DOCS = REPOSITORY / "docs"
_LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)]*))?\)")


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor:
            assert anchor in slugs(target), f"{path}#{anchor}"


def test_every_page_is_reached_from_the_readme() -> None:
    reached, left = set(), {REPOSITORY / "README.md"}
    while left:
        page = left.pop()
        reached.add(page)
        links = {(page.parent / path).resolve() for path, _ in _LINK.findall(page.read_text())}
        left |= {link for link in links if link.suffix == ".md"} - reached
    assert reached >= {*PAGES}


def test_the_architecture_page_has_the_graph_of_the_steps() -> None:
    assert step_graph(STEPS) in (DOCS / "architecture.md").read_text(encoding="utf-8")
    arrows = re.findall(r"(\w+) --> (\w+)", step_graph(STEPS))
    names = [step.name for step in STEPS]
    assert {"ingest", "report"} < {name for arrow in arrows for name in arrow} == {*names}
    written = {*TABLES.values()} - {Lineage}
    assert written == {table for step in STEPS for table in step.writes}


def keys_of_tables(text: str) -> set[str]:
    return {*re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)}


def test_the_manifest_page_has_the_keys_that_are_read() -> None:
    text = (DOCS / "manifest.md").read_text(encoding="utf-8")
    of_recording, _, rest = text.partition("Of a node:")
    of_node, _, rest = rest.partition("## How it was made")
    made, _, command_line = rest.partition("## Without a manifest")
    assert keys_of_tables(of_recording) == ENTRIES
    of_rules = [key for keys in RULE_KEYS.values() for key in keys.items()]
    assert all(f"| `{n}` | {key.says} | {key.missing} |" in of_recording for n, key in of_rules)
    assert keys_of_tables(of_node) == NODE_ENTRIES
    facts = made.rpartition("\n\n`")[2]
    assert {*re.findall(r"\w+", facts)} == FACTS
    options = {*re.findall(r"^\| `(--[a-z-]+)", command_line, re.MULTILINE)}
    [group] = [group for group in PARSER._action_groups if "manifest" in str(group.title)]
    assert options == {action.option_strings[0] for action in group._group_actions}


# --- docs/troubleshooting.md

TROUBLE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")


def texts(node: ast.AST) -> Iterator[str]:
    """Texts of a module, `…` where an f-string has a value."""
    for each in ast.walk(node):
        if isinstance(each, ast.JoinedStr):
            yield "".join(str(part.value) if is_text(part) else "…" for part in each.values)
        elif is_text(each):
            yield str(each.value)


def is_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_quoted_messages_are_those_of_the_code() -> None:
    files = [file for top in ("jobs", "pipelines") for file in (REPOSITORY / top).rglob("*.py")]
    said = [text for file in files for text in texts(ast.parse(file.read_text(encoding="utf-8")))]
    quoted = re.findall(r"\*\*`([^`]+)`\*\*", TROUBLE)
    assert len(quoted) > 20
    assert [message for message in quoted if not any(message in text for text in said)] == []


def test_every_reason_and_exit_status_is_explained() -> None:
    assert keys_of_tables(TROUBLE) == {reason.name for reason in RejectReason}
    statuses = re.findall(r"^\| (\d) \|", TROUBLE, re.MULTILINE)
    assert [*map(int, statuses)] == [*Exit]


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_keys_are_never_null_and_every_column_says_what_it_holds(table: Table) -> None:
    columns = {column.name: column for column in table.columns}
    assert len(columns) == len(table.columns)
    assert table.key[0] == "recording"
    assert all(not columns[name].nullable for name in table.key)
    assert table.comment
    assert all(column.comment for column in table.columns)


def test_units_stand_at_the_end_of_names() -> None:
    for table in TABLES.values():
        for column in table.columns:
            if column.name.endswith("_ms") and column.name not in ("max_wait_ms", "timeout_ms"):
                assert str(column.type) == "double", (table.name, column.name)
            if column.name.endswith("_bytes") and column.name not in ("min_bytes", "max_bytes"):
                assert str(column.type) == "int64", (table.name, column.name)
            if column.name.endswith("_at"):
                assert str(column.type) == "timestamp[us, tz=UTC]", (table.name, column.name)


def test_the_page_of_tables_is_up_to_date() -> None:
    assert (REPOSITORY / "docs" / "tables.md").read_text(encoding="utf-8") == table_page()


COMMANDS = [(page, words) for page in PAGES for words in commands(page)]
#: `kip-replay JOB --option` in a sentence.
MENTIONED = re.compile(r"`kip-replay ([a-z]+)([^`]*)`")
SETTING = re.compile(r"`([a-z_]+\.(?!toml`)[a-z_]+)`")


def parser_of(job: str) -> ArgumentParser:
    assert job in JOBS
    found = import_module(f"kip_replay.jobs.{job}").PARSER
    assert isinstance(found, ArgumentParser)
    return found


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One with every table and no row."""
    warehouse = tmp_path_factory.mktemp("pages") / "warehouse"
    for table in TABLES.values():
        empty = table.arrow_schema.empty_table()
        write_deltalake(str(warehouse / table.name), empty, partition_by=[*table.partitioned_by])
    return warehouse


@pytest.mark.parametrize(("page", "words"), COMMANDS, ids=str)
def test_commands_are_parsed(page: Path, words: list[str]) -> None:
    job, *arguments = words
    given = parser_of(job).parse_args(arguments)
    read_config(None, given.set)


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_mentioned_jobs_have_the_options_mentioned(page: Path) -> None:
    for job, rest in MENTIONED.findall(page.read_text(encoding="utf-8")):
        known = parser_of(job).format_help()
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in known, f"kip-replay {job} has no {option}"


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_mentioned_settings_exist(page: Path) -> None:
    config = read_config(None, [])
    for name in SETTING.findall(page.read_text(encoding="utf-8")):
        section, _, key = name.partition(".")
        assert section not in config or key in config[section], name


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_mentioned_targets_of_make_exist(page: Path) -> None:
    targets = re.findall(r"^([a-z-]+):.*##", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    text = "\n".join([*blocks(page), *re.findall(r"`([^`]+)`", page.read_text(encoding="utf-8"))])
    assert {*re.findall(r"^make ([a-z-]+)", text, re.MULTILINE)} <= {*targets}


def manifests() -> list[str]:
    return [block for page in PAGES for block in blocks(page) if block.startswith("{\n")]


@pytest.mark.parametrize("manifest", manifests())
def test_manifests_are_read(manifest: str, tmp_path: Path) -> None:
    (tmp_path / "recording.json").write_text(manifest, encoding="utf-8")
    assert load_recording(tmp_path).name == json.loads(manifest)["name"]


@pytest.mark.parametrize("words", [words[1:] for _, words in COMMANDS if words[0] == "sql"])
def test_queries_in_commands_run(
    words: list[str], warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(warehouse.parent)
    assert sql.main(words) == 0


def test_queries_run(warehouse: Path) -> None:
    """`kip-replay sql --answer docs/sql.md` writes answers, from the warehouse of `make run`."""
    catalog = Catalog(str(warehouse), read_views())
    every = [each for page in PAGES for each in blocks(page)]
    queries = [each for each in every if each.startswith(("SELECT ", "FROM ", "WITH "))]
    assert len(queries) >= 24
    for query in queries:
        list(catalog.query(query).rows)


def test_python_reads_the_tables(warehouse: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (warehouse.parent / "pipelines").symlink_to(REPOSITORY / "pipelines")
    monkeypatch.chdir(warehouse.parent)
    examples = [each for page in PAGES for each in blocks(page) if "import deltalake" in each]
    assert examples
    for example in examples:
        exec(example, {})


def test_suites_are_accepted(tmp_path: Path) -> None:
    own = [each for page in PAGES for each in blocks(page) if each.startswith("[[expectation]]")]
    assert own
    (tmp_path / "shown.toml").write_text("\n".join(own), encoding="utf-8")
    shown = [each for each in load_suites([tmp_path]) if each.suite == "shown"]
    assert len(shown) == len(own)

"""What pages show is accepted by the code: commands, manifests, queries, suites, settings."""

import json
import re
from argparse import ArgumentParser
from importlib import import_module
from pathlib import Path

import pytest
from deltalake import write_deltalake
from markdown_pages import PAGES, blocks, commands, named
from recorded_logs import REPOSITORY

from kip_replay.jobs import sql
from kip_replay.jobs._config import read_config
from kip_replay.jobs.main import JOBS
from kip_replay.pipelines.analysis.catalog import Catalog
from kip_replay.pipelines.analysis.views import read_views
from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.quality.suites import load_suites
from kip_replay.replay.tables import TABLES

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

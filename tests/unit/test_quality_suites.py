"""Suites as data: what ships is well formed, and a mistake is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality.suites import Severity, load_suites
from kip_replay.replay.log_tables import LOG_TABLES
from kip_replay.replay.tables import TABLES

GOOD = """
[[expectation]]
name = "no_fetch_is_large"
table = "fetches"
severity = "info"
says = "no FETCH asks for more than 100 MB"
fails_where = "max_bytes > 100000000"
shows = ["client_id"]
"""


def loaded(folder: Path, text: str, name: str = "mine.toml") -> list[str]:
    """Names of what a folder with one suite adds."""
    (folder / name).write_text(text)
    return [each.name for each in load_suites([folder]) if each.suite == Path(name).stem]


def test_what_ships_covers_every_table_of_the_log_and_every_layer() -> None:
    shipped = load_suites()
    assert {each.suite for each in shipped} == {"bronze", "outcomes", "summaries"}
    keyed = {each.table for each in shipped if each.key}
    assert {table.name for table in LOG_TABLES} <= keyed
    outside = {"client_observations", "latency_curves", "lineage", "replay_state"}
    assert {*TABLES} - keyed <= {*outside, "quality_results", "quality_failures"}
    assert {each.severity for each in shipped} == {*Severity}


def test_a_suite_is_added_without_code(tmp_path: Path) -> None:
    assert loaded(tmp_path, GOOD) == ["no_fetch_is_large"]
    (added,) = (each for each in load_suites([tmp_path]) if each.suite == "mine")
    assert added.kept_columns == ("request_id", "client_id")
    assert added.place == ("mine", "fetches", "no_fetch_is_large")
    assert "max_bytes > 100000000" in added.sql


def test_an_expectation_of_the_same_name_replaces_ours(tmp_path: Path) -> None:
    text = GOOD.replace("no_fetch_is_large", "no_line_is_rejected").replace("fetches", "requests")
    text = text.replace('"requests"', '"rejected_lines"').replace('["client_id"]', "[]")
    loaded(tmp_path, text, "bronze.toml")
    ours, theirs = ({each.place: each for each in load_suites(more)} for more in ([], [tmp_path]))
    place = ("bronze", "rejected_lines", "no_line_is_rejected")
    assert ours.keys() == theirs.keys()
    assert (ours[place].severity, theirs[place].severity) == (Severity.WARNING, Severity.INFO)


def test_table_in_a_query_stands_for_each_of_the_tables(tmp_path: Path) -> None:
    text = GOOD.replace('table = "fetches"', 'tables = ["fetches", "produces"]')
    query = 'query = "SELECT * FROM {table} JOIN requests USING (recording)"\n'
    (tmp_path / "mine.toml").write_text(text.split("fails_where")[0] + query)
    mine = [each for each in load_suites([tmp_path]) if each.suite == "mine"]
    joined = "SELECT * FROM {} JOIN requests USING (recording)"
    assert [each.sql for each in mine] == [joined.format("fetches"), joined.format("produces")]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("[[expectation]]", "[[expectation]", "cannot be read"),
        ("[[expectation]]", "[[check]]", "unknown field 'check'"),
        ('severity = "info"', 'severity = "bad"', "'bad' - at '$.expectation[0].severity'"),
        ('severity = "info"', "", "missing required field 'severity'"),
        ('says = "no', 'sais = "no', "unknown field 'sais'"),
        ('table = "fetches"', 'table = "fetchs"', "no table 'fetchs'"),
        ('table = "fetches"', "", "no table ''"),
        ('table = "fetches"', 'table = "fetches"\ntables = ["produces"]', "a table and tables"),
        ('shows = ["client_id"]', 'shows = ["clientid"]', "no column clientid"),
        ('shows = ["client_id"]', "key = true", "exactly one of"),
        ('fails_where = "max_bytes > 100000000"', 'in_requests = "id"', "no column id"),
        ("[[expectation]]", GOOD + "[[expectation]]", "there twice"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, old: str, new: str, said: str) -> None:
    (tmp_path / "mine.toml").write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UserError) as error:
        load_suites([tmp_path])
    assert said in str(error.value)
    assert str(error.value).count("mine.toml") == 1


def test_a_folder_without_suites_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are no suites in"):
        load_suites([tmp_path / "nowhere"])

"""Suites as data: what ships is well formed, and a mistake is one sentence."""

from pathlib import Path

import pytest

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality.suites import Severity, load_suites
from kip_replay.pipelines.rules import RULES
from kip_replay.replay.log_tables import LOG_TABLES, OBSERVATIONS
from kip_replay.replay.tables import TABLES

COLUMNS = 'columns = ["max_bytes", "min_bytes"]'
GOOD = f"""
[[expectation]]
type = "expect_column_values_to_be_between"
tables = ["fetches"]
{COLUMNS}
max_value = 100000000
severity = "info"
description = "no FETCH requests more than 100 MB"
"""


NAMED = '[[expectation]]\nname = "lines_are_accounted_for"\n'


def test_what_ships_covers_every_table_and_rule() -> None:
    shipped = load_suites()
    rules = {rule.name for rule in RULES}
    assert {each.suite for each in shipped} == {"log", "outcomes", "summaries", *rules}
    unique = {each.table: each for each in shipped if "column_list" in each.arguments}
    assert all(each.arguments["column_list"] == [*TABLES[t].key] for t, each in unique.items())
    assert {table.name for table in LOG_TABLES} <= unique.keys()
    outside = {each.name for each in OBSERVATIONS}
    outside |= {"latency_curves", "latency_histograms", "headlines", "decisions"}
    outside |= {"lineage", "replay_state", "quality_results", "quality_failures"}
    assert {*TABLES} - unique.keys() <= outside
    assert {each.severity for each in shipped} == {*Severity}
    assert len({each.place for each in shipped}) == len(shipped)


def test_an_entry_is_an_expectation_for_each_table_and_column(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD)
    first, second = (each for each in load_suites([tmp_path]) if each.suite == "mine")
    assert first.place == ("mine", "fetches", "column_values_to_be_between max_bytes")
    assert first.arguments == {"max_value": 100000000, "column": "max_bytes"}
    assert (second.columns, second.severity) == (["min_bytes"], Severity.INFO)
    assert second.says == "no FETCH requests more than 100 MB"


def test_nulls_of_pairs_are_no_failures(tmp_path: Path) -> None:
    text = GOOD.replace(COLUMNS, 'pairs = [["node_id", "acks"]]').replace("fetches", "produces")
    text = text.replace("max_value = 100000000", "or_equal = true")
    (tmp_path / "mine.toml").write_text(text)
    (pair,) = (each for each in load_suites([tmp_path]) if each.suite == "mine")
    columns = {"column_A": "node_id", "column_B": "acks"}
    expected = {"or_equal": True, **columns, "ignore_row_if": "either_value_is_missing"}
    assert pair.arguments == expected
    assert pair.columns == ["node_id", "acks"]


def test_an_expectation_of_the_same_name_replaces_ours(tmp_path: Path) -> None:
    text = GOOD.replace("fetches", "ingested_files").replace("[[expectation]]\n", NAMED)
    (tmp_path / "log.toml").write_text(text.replace(COLUMNS, 'columns = ["lines_read"]'))
    ours, theirs = ({each.place: each for each in load_suites(more)} for more in ([], [tmp_path]))
    place = ("log", "ingested_files", "lines_are_accounted_for")
    assert ours.keys() == theirs.keys()
    assert (ours[place].severity, theirs[place].severity) == (Severity.CRITICAL, Severity.INFO)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[expectation]]", "[[expectation]", "cannot be read"),
        ('severity = "info"', 'severity = "bad"', "'bad' is not a valid Severity"),
        ('tables = ["fetches"]', 'tables = ["fetchs"]', "there is no table 'fetchs'"),
        ('tables = ["fetches"]', "", "one of tables and outcomes_with"),
        ('tables = ["fetches"]', 'tables = ["fetches"]\noutcomes_with = []', "one of tables"),
        ('"min_bytes"', '"minbytes"', "fetches has no column minbytes"),
        (COLUMNS, "pairs = [1]", "expectation 1 of"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UserError) as error:
        load_suites([tmp_path])
    assert message in str(error.value)
    assert str(error.value).count("mine.toml") == 1


def test_a_folder_without_suites_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are no suites in"):
        load_suites([tmp_path / "nowhere"])

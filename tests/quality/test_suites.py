"""Suites as data: what ships is well formed, and a mistake is one sentence."""

from pathlib import Path

import pytest

from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.quality.suites import load_suites
from kip_replay.pipelines.rule_files import Severity
from kip_replay.pipelines.rules import RULES
from kip_replay.replay.log_tables import LOG_TABLES
from kip_replay.replay.tables import TABLES

HOLDS = 'holds = ["max_bytes <= 100000000", "min_bytes < 9"]'
GOOD = f"""
[[expectation]]
tables = ["fetches"]
{HOLDS}
severity = "warning"
description = "no FETCH requests more than 100 MB"
"""


def test_what_ships_covers_every_table_and_rule() -> None:
    shipped = load_suites()
    rules = {rule.name for rule in RULES}
    suites = {"keys", "log", "outcomes", "summaries", *rules}
    assert {expectation.suite for expectation in shipped} == suites
    unique = {expectation.table for expectation in shipped if expectation.suite == "keys"}
    assert {table.name for table in LOG_TABLES} <= unique
    outside = {"latency_curves", "latency_histograms", "headlines", "decisions"}
    outside |= {"lineage", "replay_state", "quality_results", "quality_failures"}
    assert {*TABLES} - unique <= outside
    assert {expectation.severity for expectation in shipped} == {*Severity}
    assert len({expectation.place for expectation in shipped}) == len(shipped)


def test_an_entry_is_an_expectation_for_each_table_and_condition(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD)
    first, second = (each for each in load_suites([tmp_path]) if each.suite == "mine")
    assert first.place == ("mine", "fetches", "max_bytes <= 100000000")
    assert first.condition == "NOT (max_bytes <= 100000000)"
    assert (second.columns, second.severity) == (("min_bytes",), Severity.WARNING)
    assert second.says == "no FETCH requests more than 100 MB"


def test_an_expectation_of_the_same_name_replaces_ours(tmp_path: Path) -> None:
    text = GOOD.replace("fetches", "ingested_files").replace(HOLDS, 'holds = ["lines_read >= 0"]')
    (tmp_path / "log.toml").write_text(f'{text}\nname = "lines_are_accounted_for"')
    ours, theirs = ({each.place: each for each in load_suites(more)} for more in ([], [tmp_path]))
    place = ("log", "ingested_files", "lines_are_accounted_for")
    assert ours.keys() == theirs.keys()
    assert (ours[place].severity, theirs[place].severity) == (Severity.CRITICAL, Severity.WARNING)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[[expectation]]", "[[expectation]", "cannot be read"),
        ("[[expectation]]", "[[expectations]]", "unknown field `expectations`"),
        (
            'severity = "warning"',
            'severity = "bad"',
            "Invalid enum value 'bad' - at `$.exp",
        ),
        ('tables = ["fetches"]', 'tables = "fetches"', "Expected `array"),
        ('tables = ["fetches"]', 'tables = ["fetchs"]', "there is no table 'fetchs'"),
        ('tables = ["fetches"]', "", "one of `tables` and `outcomes_with`"),
        ('tables = ["fetches"]', 'tables = ["fetches"]\noutcomes_with = []', "one of `tables`"),
        (HOLDS, 'columns = ["max_bytes"]', "unknown field `columns` - at `$.expectation[0]`"),
        (HOLDS, "", "one of `holds` and `unexpected_rows_query`"),
        (HOLDS, f'{HOLDS}\nname = "n"', "one condition in `holds` with a `name`"),
        (HOLDS, 'unexpected_rows_query = "SELECT"', "a `name` with `unexpected_rows_query`"),
        (HOLDS, 'name = "n"\nunexpected_rows_query = "SELECT {batch"', "expected '}'"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, old: str, new: str, message: str) -> None:
    (tmp_path / "mine.toml").write_text(GOOD.replace(old, new, 1))
    with pytest.raises(UserError) as error:
        load_suites([tmp_path])
    assert message in str(error.value)
    assert str(error.value).count("mine.toml") == 1
    assert "\n" not in str(error.value)


def test_a_folder_without_suites_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="there are no suites in"):
        load_suites([tmp_path / "nowhere"])

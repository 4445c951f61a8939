"""Which fingerprints a table's commits still vouch for: also when old commits are gone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kip_replay.pipelines.warehouse.commit_history import (
    Commit,
    Mark,
    Scope,
    commits,
    current_marks,
    marks_text,
)

A: Scope = {"recording": "a"}
B: Scope = {"recording": "b"}
A_RULE: Scope = {"recording": "a", "rule": "r"}


def history(*said: tuple[str, str | None], first: int = 0) -> list[Commit]:
    """Commits of (operation, user metadata), given in the order in which they were made."""
    made = [
        Commit(first + at, operation, 1000 * (first + at), meta)
        for at, (operation, meta) in enumerate(said)
    ]
    return made[::-1]


def wrote(*marks: tuple[Scope, str]) -> tuple[str, str]:
    return "WRITE", marks_text(marks)


def restated(as_of: int, *marks: tuple[Scope, str]) -> tuple[str, str]:
    return "WRITE", marks_text(marks, as_of)


def current(commits: list[Commit]) -> dict[str, str]:
    return {json.dumps(mark.scope): mark.fingerprint for mark in current_marks(commits)}


def marks(*expected: tuple[Scope, str]) -> dict[str, str]:
    return {json.dumps(scope): fingerprint for scope, fingerprint in expected}


def test_the_last_write_of_a_scope_counts() -> None:
    assert current(history(wrote((A, "1")), wrote((B, "2")), wrote((A, "3")))) == marks(
        (A, "3"), (B, "2")
    )


def test_a_wider_or_narrower_write_ends_what_was_said_before() -> None:
    assert current(history(wrote((A, "1")), wrote((A_RULE, "2")))) == marks((A_RULE, "2"))
    assert current(history(wrote((A_RULE, "1")), wrote((A, "2")))) == marks((A, "2"))


def test_a_write_that_says_nothing_ends_everything() -> None:
    assert current(history(wrote((A, "1")), ("DELETE", None))) == {}
    assert current(history(wrote((A, "1")), ("OPTIMIZE", None), ("VACUUM END", None))) == marks(
        (A, "1")
    )


def test_restated_marks_need_no_older_commits() -> None:
    late = history(restated(40, (A, "1"), (B, "2")), wrote((B, "3")), first=41)
    assert current(late) == marks((B, "3"), (A, "1"))
    assert [mark.at_ms for mark in current_marks(late)] == [42_000, 41_000]


@pytest.mark.parametrize("between", [wrote((A, "2")), ("DELETE", None)])
def test_a_writer_that_came_between_is_never_overlooked(between: tuple[str, str | None]) -> None:
    """Version 1 was written after version 0 was read and before the marks of 0 were restated."""
    made = history(wrote((A, "1")), between, restated(0, (A, "1")))
    assert current(made).get(json.dumps(A)) != "1"


def test_restated_marks_do_not_count_if_a_commit_between_is_gone() -> None:
    assert current(history(restated(40, (A, "1")), first=43)) == {}


_SCOPES = st.sampled_from([A, B, A_RULE, {"recording": "b", "rule": "r"}, {"rule": "r"}])
_WRITES = st.lists(st.tuples(_SCOPES, st.text("xyz", min_size=1, max_size=1)), max_size=2)


@given(st.lists(_WRITES, max_size=8), st.data())
def test_restating_at_any_time_changes_nothing(
    writes: list[list[tuple[Scope, str]]], data: st.DataObject
) -> None:
    """Marks of any version, restated at any later time, with older commits deleted or not."""
    made = [wrote(*said) if said else ("OPTIMIZE", None) for said in writes]
    expected = current(history(*made))
    as_of = data.draw(st.integers(0, len(made)))
    said = [(mark.scope, mark.fingerprint) for mark in current_marks(history(*made[:as_of]))]
    at = data.draw(st.integers(as_of, len(made)))
    whole = history(*made[:at], restated(as_of - 1, *said), *made[at:])
    assert current(whole) == expected
    kept_from = data.draw(st.integers(0, as_of))
    assert current([commit for commit in whole if commit.version >= kept_from]) == expected


def test_commits_are_read_from_the_log_the_last_first(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    info = {"commitInfo": {"timestamp": 5, "operation": "WRITE", "userMetadata": "hello"}}
    (log / f"{1:020}.json").write_text(json.dumps(info, separators=(",", ":")) + "\n")
    (log / f"{0:020}.json").write_text('{"protocol":{}}\n')
    (log / "_last_checkpoint.json").write_text("{}")
    found = list(commits(str(tmp_path)))
    assert found[0] == Commit(1, "WRITE", 5, "hello")
    assert (found[1].version, found[1].operation, found[1].user_metadata) == (0, "", None)
    assert list(current_marks(found)) == list[Mark]()

"""What the commits of a Delta table say its rows follow from.

A write names scopes (all rows of a recording, of a rule in it) and, for each, the fingerprint of
what its rows follow from: a *mark*, in the commit's user metadata. A mark is current until a later
commit may have touched a row of its scope. Commits are read from the last one backwards.

Delta deletes commits that are older than the table's log retention, and marks would go with them.
So ``jobs.maintain`` *restates* marks that have become old: a commit that changes no row says the
marks that were current as of a version. Another writer may have come between that version and the
commit; so a restated mark counts only if every commit between them is there and leaves it current.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import deltalake

ScopeValue: TypeAlias = str | int | bool
#: Rows of a table by the values of some of its columns: all rows of a recording, of a rule in it.
Scope: TypeAlias = Mapping[str, ScopeValue]

#: The fingerprint of a scope whose rows were deleted: it follows from nothing.
DELETED = ""
#: Operations in a table's history that leave its rows as they are.
_ROWS_STAY = (
    "ADD COLUMN",
    "CREATE TABLE",
    "OPTIMIZE",
    "SET TBLPROPERTIES",
    "UNSET TBLPROPERTIES",
    "VACUUM",
)


class Commit(NamedTuple):
    """A commit's version, operation, time (ms since the epoch) and user metadata."""

    version: int
    operation: str
    at_ms: int
    user_metadata: str | None


class Mark(NamedTuple):
    """A scope, the fingerprint of what its rows follow from, and when a commit last said so."""

    scope: Scope
    fingerprint: str
    at_ms: int


def commits(path: str) -> Iterator[Commit]:
    """The table's commits as far back as they are kept, the last one first."""
    if "://" in path:
        for said in deltalake.DeltaTable(path).history():
            yield _commit(said["version"], said, 0)
        return
    # The same, a commit at a time: most questions are answered by the last ones.
    for file in sorted(Path(path, "_delta_log").glob("*.json"), reverse=True):
        if file.stem.isdecimal():
            yield _commit(int(file.stem), _commit_info(file), int(file.stat().st_mtime * 1000))


def _commit(version: int, info: Mapping[str, Any], at_ms: int) -> Commit:
    """A commit as it said itself; ``at_ms`` where it did not say when."""
    said_at_ms = info.get("timestamp", at_ms)
    return Commit(version, info.get("operation", ""), said_at_ms, info.get("userMetadata"))


def marks_text(marks: Iterable[tuple[Scope, str]], as_of: int | None = None) -> str:
    """User metadata of a commit that says marks; with ``as_of``, that restates them."""
    written = [{"scope": dict(scope), "fingerprint": fp} for scope, fp in marks]
    return json.dumps(
        {"written": written} if as_of is None else {"as_of": as_of} | {"restated": written}
    )


def current_marks(history: Iterable[Commit]) -> Iterator[Mark]:
    """The marks that are current, those said last first."""
    touched: list[Scope] = []
    restated: _Restated | None = None
    oldest = None
    for commit in history:
        if restated is not None and commit.version <= restated.as_of:
            break
        oldest = commit.version
        said = _said(commit.user_metadata, "written")
        again = _restated(commit)
        if not said and again is None and not commit.operation.startswith(_ROWS_STAY):
            return
        yield from _untouched(said, touched, commit.at_ms)
        touched += [scope for scope, _ in said]
        restated = restated or again
    if restated is not None and oldest == restated.as_of + 1:
        yield from _untouched(restated.said, touched, restated.at_ms)


class _Restated(NamedTuple):
    as_of: int
    said: Sequence[tuple[Scope, str]]
    at_ms: int


def _restated(commit: Commit) -> _Restated | None:
    try:
        as_of = int(json.loads(commit.user_metadata or "")["as_of"])
    except (ValueError, TypeError, KeyError):
        return None
    return _Restated(as_of, _said(commit.user_metadata, "restated"), commit.at_ms)


def _said(user_metadata: str | None, what: str) -> list[tuple[Scope, str]]:
    """Scopes and fingerprints that a commit wrote or restated; none for any other commit."""
    try:
        marks = json.loads(user_metadata or "")[what]
        return [(dict(mark["scope"]), str(mark["fingerprint"])) for mark in marks]
    except (ValueError, TypeError, KeyError):
        return []


def _untouched(
    said: Iterable[tuple[Scope, str]], touched: Sequence[Scope], at_ms: int
) -> Iterator[Mark]:
    for scope, fingerprint in said:
        if not any(_overlap(scope, later) for later in touched):
            yield Mark(scope, fingerprint, at_ms)


def _overlap(one: Scope, other: Scope) -> bool:
    """Whether a row could be in both scopes."""
    return all(one[name] == other[name] for name in one.keys() & other.keys())


def _commit_info(commit: Path) -> dict[str, Any]:
    """The action of a commit that says what it was; writers other than Spark may leave it out."""
    with commit.open(encoding="utf-8") as actions:
        for action in actions:
            if action.startswith('{"commitInfo":'):
                return dict(json.loads(action)["commitInfo"])
    return {}

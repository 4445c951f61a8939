"""Selects rows of ``replay_state`` to resume from: those that are as they were saved."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

from kip_replay.pipelines.warehouse.data_files import microseconds

_CHECKED = ("rule", "state_key", "fingerprint")


class FollowsFrom(NamedTuple):
    """Holds what states follow from, as their ``fingerprint`` has it.

    Until when they were replayed (UTC microseconds), the last ingest that they have seen, the last
    epoch of outcomes that they follow, the rule with its settings, and what else the log has that
    their outcomes depend on.
    """

    until_us: int
    ingest_epoch: int
    followed_epoch: int
    identity: str
    dependencies: str

    def __str__(self) -> str:
        return " ".join(map(str, self))

    @classmethod
    def of(cls, fingerprint: str) -> Self:
        until_us, ingest_epoch, followed_epoch, *others = fingerprint.split(" ")
        return cls(int(until_us), int(ingest_epoch), int(followed_epoch), *others)


def is_late(files: Iterable[Mapping[str, Any]], saved: FollowsFrom) -> bool:
    """Returns whether a reading that the states have not seen has an event of their time.

    ``files``: rows of ingested_files.
    """
    unseen = (f["first_event_at"] for f in files if f["ingest_epoch"] > saved.ingest_epoch)
    return any(at is not None and microseconds(at) <= saved.until_us for at in unseen)


def checksum(row: Mapping[str, Any]) -> str:
    """Hashes a row of ``replay_state``: rule, key, what it follows from, and the state."""
    digest = hashlib.blake2b(row["state"], digest_size=8)
    digest.update("\0".join(row[name] for name in _CHECKED).encode())
    return digest.hexdigest()


def saved_by(rows: Sequence[Mapping[str, Any]], rule: str) -> FollowsFrom | None:
    """Returns what a rule's states follow from; None without any, or if they were changed."""
    mine = [row for row in rows if row["rule"] == rule]
    keys = {row["state_key"] for row in mine}
    found = {row["fingerprint"] for row in mine}
    is_as_saved = all(None not in row.values() and checksum(row) == row["checksum"] for row in mine)
    if len(found) != 1 or len(keys) != len(mine) or not is_as_saved:
        return None
    return FollowsFrom.of(found.pop())

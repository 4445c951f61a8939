"""The partitions that one client fetches, and what both sides last said of each.

This is the knowledge that sessions save the wire from repeating. It is the same whether the log
repeats it (full FETCHes) or not (incremental ones), so every variant is told from it: what a FETCH
changes of the request side is what an incremental request lists, what its answer changes is what an
incremental response lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .order import FullOrder
from .recorded import AskedPartition, ForgottenPartition, PartitionKey, ToldPartition
from .session import Changes
from .sizes import FetchSizes

_UNKNOWN_OFFSET = -1
_UNKNOWN_TOPIC_OR_PARTITION = 3
#: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID: told without reading.
_NEVER_READ = frozenset({29, 100})

#: What the draft's response says of a partition besides records.
Header = tuple[int, int, int, int]


@dataclass(slots=True)
class FollowedPartition:
    """A partition of a client: as last asked for, and as last answered (``CachedPartition``).

    One that is new was not answered: its high watermark and log start offset are -1, so that the
    first answer always lists it.
    """

    asked: AskedPartition
    high_watermark: int = _UNKNOWN_OFFSET
    log_start_offset: int = _UNKNOWN_OFFSET
    header: Header | None = None


class News(NamedTuple):
    """What an answer says of a partition, and under which protocol it has to.

    ``is_read``: the broker came to look at the partition's log. If it did not, the partition stands
    behind all that were read.
    """

    told: ToldPartition
    for_session: bool
    for_draft: bool
    is_read: bool


def is_altered(before: AskedPartition, after: AskedPartition) -> bool:
    """An incremental request lists it again (``FetchRequest.PartitionData.equals``)."""
    return _told_by_request(before) != _told_by_request(after)


def is_altered_for_draft(before: AskedPartition, after: AskedPartition) -> bool:
    """The draft's request lists it again: it has no epochs."""
    return _told_by_draft(before) != _told_by_draft(after)


def _told_by_request(asked: AskedPartition) -> tuple[int, ...]:
    return (*_told_by_draft(asked), asked.current_leader_epoch, asked.last_fetched_epoch)


def _told_by_draft(asked: AskedPartition) -> tuple[int, ...]:
    return asked.fetch_offset, asked.log_start_offset, asked.partition_max_bytes


@dataclass
class FollowedPartitions:
    """All partitions of one client. ``order`` is that of its full FETCH."""

    order: FullOrder
    partitions: dict[PartitionKey, FollowedPartition] = field(default_factory=dict)
    #: Partitions whose request has tagged fields (none, with the clients that there are).
    _tagged: set[PartitionKey] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.partitions)

    # --- request

    def changes_of_full(
        self, listed: Sequence[AskedPartition], name_of: Callable[[str], str | None]
    ) -> Changes:
        """What a full FETCH changes, which lists all partitions there are from then on."""
        keys = {asked.key for asked in listed}
        gone = [key for key in self.partitions if key not in keys]
        return self._changes(listed, gone, name_of)

    def changes_of_incremental(
        self,
        listed: Sequence[AskedPartition],
        forgotten: Iterable[ForgottenPartition],
        name_of: Callable[[str], str | None],
    ) -> Changes:
        """What an incremental FETCH changes, from what it lists and forgets."""
        gone = [f.key for f in forgotten if f.key in self.partitions]
        # The broker takes up first what is listed, then what is forgotten.
        lost = set(gone)
        return self._changes([a for a in listed if a.key not in lost], gone, name_of)

    def _changes(
        self,
        listed: Sequence[AskedPartition],
        gone: Sequence[PartitionKey],
        name_of: Callable[[str], str | None],
    ) -> Changes:
        new = [asked for asked in listed if asked.key not in self.partitions]
        updated = [
            asked
            for asked in listed
            if asked.key in self.partitions and is_altered(self.partitions[asked.key].asked, asked)
        ]
        if not gone or not new:
            return Changes(new, updated, gone, {})
        replaced = _replaced(new, gone, name_of)
        losers = set(replaced.values())
        return Changes(
            [asked for asked in new if asked.key not in replaced],
            [*updated, *(asked for asked in new if asked.key in replaced)],
            [key for key in gone if key not in losers],
            replaced,
        )

    def ask(self, changes: Changes) -> None:
        """Take a FETCH's changes."""
        for key in (*changes.removed, *changes.replaced.values()):
            del self.partitions[key]
            self.order.remove(key)
            self._tagged.discard(key)
        for asked in (*changes.added, *changes.updated):
            followed = self.partitions.get(asked.key)
            if followed is None:
                self.partitions[asked.key] = FollowedPartition(asked)
                self.order.append(asked.key)
            else:
                followed.asked = asked
            if asked.replica_directory_id is not None or asked.high_watermark != 2**63 - 1:
                self._tagged.add(asked.key)

    def list_anew(self, version: int, listed: Iterable[AskedPartition]) -> None:
        """A full FETCH shows the order of all partitions, in which ``ask`` had to guess."""
        self.order = FullOrder.of(version, (asked.key for asked in listed))

    # --- response

    def news(self, told: Iterable[ToldPartition]) -> list[News]:
        """What an answer says that is new, and remember it (``maybeUpdateResponseData``)."""
        found = []
        for partition in told:
            followed = self.partitions[partition.key]
            header = (
                partition.error_code,
                partition.high_watermark,
                partition.last_stable_offset,
                partition.log_start_offset,
            )
            for_session = (
                partition.has_records
                or partition.high_watermark != followed.high_watermark
                or partition.log_start_offset != followed.log_start_offset
                or partition.preferred_read_replica >= 0
                or partition.error_code != 0
                or partition.diverging_epoch is not None
            )
            for_draft = partition.has_records or header != followed.header
            is_read = _is_read(partition, followed)
            # When the error goes away, the partition is to be told again.
            followed.high_watermark = (
                _UNKNOWN_OFFSET if partition.error_code else partition.high_watermark
            )
            followed.log_start_offset = partition.log_start_offset
            followed.header = header
            found.append(News(partition, for_session, for_draft, is_read))
        return found

    def taken(self, told: Iterable[ToldPartition], is_follower: bool) -> None:
        """The client gets the answer: before its next FETCH, it puts some partitions at the end."""
        for partition in told:
            self.order.take(partition.key, partition.has_records, is_follower)

    # --- full FETCHes

    def request_bytes(self, sizes: FetchSizes) -> int:
        """A request that lists all."""
        plain = sizes.plain_partition_bytes
        tagged = sum(sizes.asked_bytes(self.partitions[key].asked) - plain for key in self._tagged)
        return sizes.request_of_all(self.order.runs, len(self), tagged)

    def response_bytes(self, sizes: FetchSizes, news: Sequence[News]) -> int:
        """A response that lists all, of which ``news`` are not plainly unchanged."""
        told = [n.told for n in news]
        last = {n.told.key for n in news if not n.is_read}
        if not last:
            return sizes.response_of_all(self.order.runs, len(self), told)
        keys = sorted(self.order.keys(), key=last.__contains__)
        return sizes.response_of_listed(keys, told)


def _is_read(told: ToldPartition, followed: FollowedPartition) -> bool:
    """Whether the broker looked at a partition's log (``KafkaApis.handleFetchRequest``).

    A partition that it does not have any more is found while the FETCH waits, since that is where
    FETCHes spend their time; from the next FETCH on, the broker knows before it reads.
    """
    if told.error_code != _UNKNOWN_TOPIC_OR_PARTITION:
        return told.error_code not in _NEVER_READ
    return followed.header is not None and followed.header[0] != told.error_code


def _replaced(
    new: Sequence[AskedPartition],
    gone: Sequence[PartitionKey],
    name_of: Callable[[str], str | None],
) -> dict[PartitionKey, PartitionKey]:
    """Which new partition takes the place of which that goes: the same name, another topic id."""
    by_name = {(name, key[1]): key for key in gone if (name := name_of(key[0])) is not None}
    replaced = {}
    for asked in new:
        name = name_of(asked.key[0])
        old = None if name is None else by_name.get((name, asked.partition))
        if old is not None:
            replaced[asked.key] = old
    return replaced

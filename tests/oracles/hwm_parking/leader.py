"""The rule: who is answered, who is parked, who is woken, why and with which high watermark.

It follows ``KafkaRaftClient.tryCompleteFetchRequest`` and ``LeaderState.maybeUpdateHighWatermark``
and knows no clock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from .metadata_log import UNKNOWN_OFFSET


class Completion(StrEnum):
    """Why a FETCH was answered."""

    RECORDS = "records"
    HIGH_WATERMARK = "high_watermark"
    TIMEOUT = "timeout"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"
    ERROR = "error"
    UNEXPLAINED = "unexplained"


class Fetch(NamedTuple):
    """A FETCH of the metadata log, as its sender builds it (``buildFetchRequest``)."""

    replica_id: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    max_wait_us: int = 500_000
    token: int = 0


class Answer(NamedTuple):
    """What the leader answers: why, whether it was parked first, and what it tells."""

    fetch: Fetch
    completion: Completion
    parked: bool
    high_watermark: int
    log_end_offset: int


def turned_away(fetch: Fetch, *, parked: bool = False) -> Answer:
    """NOT_LEADER_OR_FOLLOWER: empty, and without a high watermark."""
    return Answer(fetch, Completion.ERROR, parked, UNKNOWN_OFFSET, fetch.fetch_offset)


@dataclass
class Leader:
    """The leader of one epoch: its offsets, its voters' progress and its parked FETCHes.

    ``voters`` are the other voters; ``voter_count`` counts all, the leader included if it votes.
    ``epoch_ends`` are the end offsets of earlier epochs, ``snapshot`` is the end offset of the
    snapshot below which the log was deleted. Each method returns the answers it causes, in the
    order in which the Raft thread builds them.
    """

    hwm_aware: bool
    voters: frozenset[int]
    voter_count: int
    epoch_start_offset: int = -1
    log_end_offset: int = 0
    log_start_offset: int = 0
    epoch_ends: dict[int, int] = field(default_factory=dict)
    snapshot: int | None = None
    high_watermark: int = UNKNOWN_OFFSET
    segment: int = 0
    _high_watermark_segment: int = 0
    _voter_offsets: dict[int, int] = field(default_factory=dict)
    _parked: dict[int, Answer] = field(default_factory=dict)

    def fetch(self, fetch: Fetch) -> list[Answer]:
        """Take a FETCH: answer it or park it (``tryCompleteFetchRequest``, steps 3 to 5)."""
        refusal = self._validate(fetch)
        if refusal is not None:
            return [self._answer(fetch, refusal)]
        # The high watermark moves before this answer is built, so the answer shows the move.
        woken = self.voter_progress(fetch.replica_id, fetch.fetch_offset)
        due = self._due_now(fetch)
        if due is not None:
            return [*woken, self._answer(fetch, due)]
        # On expiry the answer built now is sent, with today's high watermark.
        self._parked[fetch.token] = self._answer(fetch, Completion.TIMEOUT, parked=True)
        return woken

    def voter_progress(self, replica_id: int, offset: int) -> list[Answer]:
        """A FETCH at an offset says that its sender has everything below; voters' count."""
        if replica_id not in self.voters:
            return []
        self._voter_offsets[replica_id] = offset
        return self._update_high_watermark()

    def append(self, log_end_offset: int) -> list[Answer]:
        """Append up to ``log_end_offset``: every FETCH that waits at or below it completes."""
        self.log_end_offset = max(self.log_end_offset, log_end_offset)
        # Only a leader that is the single voter commits alone; it does so before it answers.
        woken = self._update_high_watermark()
        return woken + self._wake(
            Completion.RECORDS, lambda f: f.fetch_offset <= self.log_end_offset
        )

    def expire(self, token: int) -> list[Answer]:
        """A FETCH has been parked for its maxWaitMs: what was built at park time is sent."""
        answer = self._parked.pop(token, None)
        return [] if answer is None else [answer]

    def roll_segment(self) -> None:
        """Start a new segment: an equal high watermark with new metadata counts as an update."""
        self.segment += 1

    def resign(self) -> list[Answer]:
        """Stop leading: NOT_LEADER_OR_FOLLOWER, empty, for everyone who is parked."""
        parked = [a.fetch for a in self._parked.values()]
        self._parked.clear()
        return [turned_away(fetch, parked=True) for fetch in parked]

    @property
    def parked(self) -> list[Fetch]:
        """FETCHes that wait, in the order in which they were parked."""
        return [answer.fetch for answer in self._parked.values()]

    def _validate(self, fetch: Fetch) -> Completion | None:
        """``validateOffsetAndEpoch``: a log the leader can't continue from is told so at once."""
        if self.snapshot is not None and (
            fetch.fetch_offset == 0 or fetch.fetch_offset < self.log_start_offset
        ):
            return Completion.SNAPSHOT
        end = self.epoch_ends.get(fetch.last_fetched_epoch)
        if end is not None and fetch.fetch_offset > end:
            return Completion.DIVERGING
        return None

    def _due_now(self, fetch: Fetch) -> Completion | None:
        if fetch.fetch_offset < self.log_end_offset:
            return Completion.RECORDS
        if self.hwm_aware and fetch.high_watermark < self.high_watermark:
            return Completion.HIGH_WATERMARK
        return Completion.TIMEOUT if fetch.max_wait_us == 0 else None

    def _update_high_watermark(self) -> list[Answer]:
        """``maybeUpdateHighWatermark``: the floor(N/2)-th of the voters' offsets, descending.

        The leader's own offset is at or above all others, so it stands first where it votes.
        """
        own = [self.log_end_offset] if self.voter_count > len(self.voters) else []
        offsets = [*own, *sorted(self._voter_offsets.values(), reverse=True)]
        rank = self.voter_count // 2
        if rank >= len(offsets) or not self._is_update(offsets[rank]):
            return []
        self.high_watermark = offsets[rank]
        self._high_watermark_segment = self.segment
        return self._wake(Completion.HIGH_WATERMARK, lambda f: True) if self.hwm_aware else []

    def _is_update(self, candidate: int) -> bool:
        rolled = self.segment != self._high_watermark_segment
        above = candidate > self.high_watermark or (candidate == self.high_watermark and rolled)
        return above and candidate > self.epoch_start_offset

    def _wake(self, completion: Completion, chosen: Callable[[Fetch], bool]) -> list[Answer]:
        """Complete parked FETCHes; what is sent is not tested again, only read anew."""
        waiting = [a.fetch for a in self._parked.values() if chosen(a.fetch)]
        for fetch in waiting:
            del self._parked[fetch.token]
        return [
            self._answer(
                fetch,
                Completion.RECORDS if fetch.fetch_offset < self.log_end_offset else completion,
                parked=True,
            )
            for fetch in waiting
        ]

    def _answer(self, fetch: Fetch, completion: Completion, *, parked: bool = False) -> Answer:
        told_nothing = completion in (Completion.DIVERGING, Completion.SNAPSHOT)
        end = fetch.fetch_offset if told_nothing else self.log_end_offset
        return Answer(fetch, completion, parked, self.high_watermark, end)

"""The metadata log's leader and its replicas: ``KafkaRaftClient`` and ``LeaderState``.

Which FETCH the leader completes when, and with which high watermark. The caller decides when one
expires. KIP-1166 is the flag ``hwm_aware`` and the sentences in quotes, each with its section.
"""

from collections.abc import Collection, Iterable
from enum import StrEnum

import msgspec

#: ``metadata.max.idle.interval.ms``: so often the active controller writes a NoOpRecord (KIP-835).
METADATA_MAX_IDLE_INTERVAL_US = 500_000
#: How long a FETCH of the metadata log may stay parked (``KafkaRaftClient.MAX_FETCH_WAIT_MS``).
MAX_FETCH_WAIT_US = 500_000
#: First version of FETCH with the field HighWatermark ("Request").
HWM_AWARE_VERSION = 18
#: "Set to -1 if the HWM is not known" (Public Interfaces, "Request").
UNKNOWN_OFFSET = -1
#: "The default value for the HWM is the largest int64" ("Request"): read where it was not sent.
NOT_SENT = 2**63 - 1
#: Error code of a FETCH whose response is not in the log ("response":"").
NO_RESPONSE = -2


class Fetch(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A FETCH of the metadata log (``buildFetchRequest``); ``token`` numbers a leader's FETCHes."""

    replica_id: int
    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int
    max_wait_us: int = MAX_FETCH_WAIT_US
    token: int = 0


class Completion(StrEnum):
    """Why the leader completed a FETCH. ``DRAIN``: it drained its batches, and there was none."""

    RECORDS = "records"
    HIGH_WATERMARK = "high_watermark"
    DRAIN = "drain"
    TIMEOUT = "timeout"
    DIVERGING = "diverging"
    SNAPSHOT = "snapshot"
    ERROR = "error"


class Response(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The response to a FETCH; ``log_end_offset`` ends the records that it carries.

    KRaft "always includes the HWM in the FETCH response" (Handling, "KRaft").
    """

    fetch: Fetch
    completion: Completion
    parked: bool
    high_watermark: int
    log_end_offset: int


def majority_offset(
    follower_offsets: Collection[int], voter_count: int, own_offset: int | None
) -> int | None:
    """Returns what a majority of the voters has (``LeaderState.maybeUpdateHighWatermark``).

    That is the floor(N/2)-th of their end offsets, descending; None while too few are known. The
    leader's own comes first, since none is above it; None if it does not vote.
    """
    own = [] if own_offset is None else [own_offset]
    offsets = own + sorted(follower_offsets, reverse=True)
    return offsets[voter_count // 2] if voter_count // 2 < len(offsets) else None


class Leader(msgspec.Struct, array_like=True):
    """The leader of one epoch (Handling, "KRaft"): offsets, voters' progress, parked FETCHes.

    ``voters`` are the other voters; ``voter_count`` counts the leader too if it votes.
    ``epoch_ends``: end offsets of earlier epochs; ``snapshot``: that of the latest snapshot.
    ``parked``: by token, the response that expiry sends.
    Methods return the responses that they cause, as the Raft thread builds them.
    """

    hwm_aware: bool
    leader_epoch: int
    voters: frozenset[int]
    voter_count: int
    epoch_start_offset: int = -1
    log_end_offset: int = 0
    log_start_offset: int = 0
    epoch_ends: dict[int, int] = {}
    snapshot: int | None = None
    high_watermark: int = UNKNOWN_OFFSET
    voter_offsets: dict[int, int] = {}
    parked: dict[int, Response] = {}

    def fetch(self, fetch: Fetch) -> list[Response]:
        """Completes a FETCH or parks it (``tryCompleteFetchRequest``)."""
        if (invalid := self._validate(fetch)) is not None:
            return [self._respond(fetch, invalid)]
        # The high watermark moves before the response is built, so the response shows the move.
        responses = self.update_voter(fetch.replica_id, fetch.fetch_offset)
        if (due := self._due(fetch)) is not None:
            return [*responses, self._respond(fetch, due)]
        # Expiry sends this response as it is, with the high watermark of now.
        self.parked[fetch.token] = self._respond(fetch, Completion.TIMEOUT, parked=True)
        return responses

    def _due(self, fetch: Fetch) -> Completion | None:
        """Returns why a FETCH completes at once; None parks it.

        "If the response is empty and the remote replica's HWM is greater than or equal to the
        leader's HWM, the FETCH request is parked" ("KRaft").
        """
        if fetch.fetch_offset < self.log_end_offset:
            return Completion.RECORDS
        # NOT_SENT is never below, and a leader without version 18 ignores the field
        # ("Compatibility"): both as before the KIP.
        if self.hwm_aware and fetch.high_watermark < self.high_watermark:
            return Completion.HIGH_WATERMARK
        return Completion.TIMEOUT if fetch.max_wait_us == 0 else None

    def update_voter(self, replica_id: int, fetch_offset: int) -> list[Response]:
        """Notes that a voter has everything below its fetch offset (``updateReplicaState``)."""
        if replica_id not in self.voters:
            return []
        self.voter_offsets[replica_id] = fetch_offset
        return self._update_high_watermark()

    def _update_high_watermark(self) -> list[Response]:
        """Moves the high watermark once a majority has a record of the leader's epoch.

        "When the leader's HWM changes, the leader may complete all parked FETCH requests"
        ("KRaft").
        """
        own_offset = self.log_end_offset if self.voter_count > len(self.voters) else None
        offset = majority_offset(self.voter_offsets.values(), self.voter_count, own_offset)
        if offset is None or offset <= self.epoch_start_offset:
            return []
        high_watermark = min(offset, self.log_end_offset)
        if high_watermark <= self.high_watermark:
            return []
        self.high_watermark = high_watermark
        return self._complete(Completion.HIGH_WATERMARK) if self.hwm_aware else []

    def append(self, log_end_offset: int) -> list[Response]:
        """Appends, or drains no batch: completes who is parked up to the end (``flushLeaderLog``).

        "KRaft completes all of the parked requests with the new appended records" (Motivation).
        """
        self.log_end_offset = max(self.log_end_offset, log_end_offset)
        # A single voter commits what it appends, before it responds.
        responses = self._update_high_watermark()
        return responses + self._complete(Completion.DRAIN, self.log_end_offset)

    def expire(self, token: int) -> list[Response]:
        """Completes a FETCH that waited: "500ms is the maximum amount of time" (Motivation)."""
        response = self.parked.pop(token, None)
        return [] if response is None else [response]

    def resign(self, waiting: Iterable[Fetch] = ()) -> list[Response]:
        """Stops leading: NOT_LEADER_OR_FOLLOWER to the parked, then to those ``waiting``."""
        rejected = [(response.fetch, True) for response in self.parked.values()]
        rejected += [(fetch, False) for fetch in waiting]
        self.parked.clear()
        return [
            Response(f, Completion.ERROR, p, UNKNOWN_OFFSET, f.fetch_offset) for f, p in rejected
        ]

    def _complete(self, completion: Completion, offset: int | None = None) -> list[Response]:
        """Completes FETCHes parked at or below an offset (None: all), without asking ``_due``."""
        responses = []
        for fetch in [response.fetch for response in self.parked.values()]:
            if offset is None or fetch.fetch_offset <= offset:
                del self.parked[fetch.token]
                has_records = fetch.fetch_offset < self.log_end_offset
                due = Completion.RECORDS if has_records else completion
                responses.append(self._respond(fetch, due, parked=True))
        return responses

    def _validate(self, fetch: Fetch) -> Completion | None:
        """Finds a replica whose log can't be continued (``validateOffsetAndEpoch``)."""
        offset = fetch.fetch_offset
        if self.snapshot is not None and (offset == 0 or offset < self.log_start_offset):
            return Completion.SNAPSHOT
        epoch_end = self.epoch_ends.get(fetch.last_fetched_epoch, offset)
        return Completion.DIVERGING if offset > epoch_end else None

    def _respond(self, fetch: Fetch, completion: Completion, parked: bool = False) -> Response:
        invalid = completion in (Completion.DIVERGING, Completion.SNAPSHOT)
        end = fetch.fetch_offset if invalid else self.log_end_offset
        return Response(fetch, completion, parked, self.high_watermark, end)


class ReplicaState(msgspec.Struct, array_like=True):
    """A voter or an observer (Handling, "Sending"): its log end offset and high watermark."""

    fetch_offset: int
    last_fetched_epoch: int
    high_watermark: int = UNKNOWN_OFFSET

    def fetch(self, replica_id: int, max_wait_us: int, token: int, *, hwm_aware: bool) -> Fetch:
        """Builds a FETCH: "the replica will include its HWM", in a version that can ("Sending")."""
        sent = self.high_watermark if hwm_aware else NOT_SENT
        offset, epoch = self.fetch_offset, self.last_fetched_epoch
        return Fetch(replica_id, offset, epoch, sent, max_wait_us, token)

    def receive(self, response: Response, leader: Leader) -> None:
        """Appends the records and learns the high watermark (``handleFetchResponse``)."""
        if response.completion is Completion.DIVERGING:
            # What stays is of that epoch, as far as the leader has it too.
            self.fetch_offset = leader.epoch_ends[self.last_fetched_epoch]
        elif response.completion is Completion.SNAPSHOT:
            self.fetch_offset, self.last_fetched_epoch = leader.snapshot or 0, leader.leader_epoch
        elif response.log_end_offset > self.fetch_offset:
            self.fetch_offset = response.log_end_offset
            self.last_fetched_epoch = leader.leader_epoch
        learned = min(self.fetch_offset, response.high_watermark)
        self.high_watermark = max(self.high_watermark, learned)

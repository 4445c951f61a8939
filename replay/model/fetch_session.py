"""Fetch sessions (KIP-227), in the order of its sections, which are quoted, and of Kafka's classes.

``FetchMetadata``; ``FetchSessionHandler``, the client; ``FetchSession``, ``CachedPartition`` and
``FetchSessionCacheShard``, the broker. A session is one object here, at both ends. What client and
broker remember of a partition is the same in all sessions of a client, and is kept once
(``CachedPartitions``). A session's own are its epoch and the orders of its partitions.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from ..kafka.messages.columns import Bools, Ints
from .cached_partitions import (
    CACHED_HIGH_WATERMARK,
    EPOCHS,
    LOG_START_OFFSET,
    NO_ENTRIES,
    NO_SLOT,
    NO_SLOTS,
    NOTHING,
    CachedPartitions,
    Entries,
    PartitionOrder,
    RequestLists,
    ResponseChanges,
    Slots,
)

# "FetchRequest Metadata meaning": (0, 0), "Make a full FetchRequest. Create a new incremental fetch
# session if possible. If a new fetch session is created, it will start at epoch 1." (id, 0) closes
# that session first; (0, -1) and (id, -1) create none. (id, n) is incremental.
NO_SESSION = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_MAX_EPOCH = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """Returns the epoch that follows: "After reaching MAX_INT, it wraps around to 1"."""
    return 1 if epoch == _MAX_EPOCH else epoch + 1


# --- what a FETCH lists, and what of it changes the session ---------------------------------------


class RequestChanges(msgspec.Struct, gc=False):
    """Changes that a FETCH makes to the set of partitions that its client fetches.

    ``kept``: those that it lists and that were in the set; of these ``updated`` changed, in the
    rows ``differs``. ``replacing`` those ``replaced`` are partitions of the same name and index
    under a new topic id; neither are among ``added`` and ``removed``.
    """

    kept: Slots
    updated: Entries
    differs: Bools
    added: Entries = NO_ENTRIES
    removed: Slots = NO_SLOTS
    replacing: Entries = NO_ENTRIES
    replaced: Slots = NO_SLOTS

    @property
    def keeps_the_set(self) -> bool:
        return not (len(self.added.at) or len(self.removed) or len(self.replaced))


_NO_CHANGES = RequestChanges(NO_SLOTS, NO_ENTRIES, np.zeros((EPOCHS + 1, 0), np.bool_))


def update(
    cached: CachedPartitions,
    requested: RequestLists,
    listed: slice,
    forgotten: Ints | None,
    by_id: bool,
) -> RequestChanges:
    """Changes a client's partitions as its FETCH does, and returns what it changes.

    "Incremental Fetch Requests": which partitions one lists, or would list as one. ``forgotten``:
    None for a full FETCH, which lists all that stay. ``by_id``: topics go by id, not by name.
    """
    if forgotten is not None and listed.start == listed.stop and not len(forgotten):
        return _NO_CHANGES
    # What is new was not in the session before.
    entries, new = cached.entries_of(requested, listed)
    removed = NO_SLOTS
    # The client wants to remove it.
    if forgotten is not None and len(forgotten):
        removed = cached.slots_of(np.array(list(dict.fromkeys(forgotten.tolist()))))
        removed = Slots(removed[removed != NO_SLOT])
        # FetchSession.update: first what is listed, then what is forgotten.
        entries = entries.where(~np.isin(entries.slots, removed))
    if forgotten is None and len(entries.at) < cached.size:
        slots = cached.slots()
        removed = Slots(slots[~np.isin(slots, entries.slots)])
    # Its maxBytes, fetchOffset or logStartOffset changes. So do the epochs of KIP-320 and KIP-595.
    updated, differs = cached.update(requested, entries)
    changes = RequestChanges(entries.slots, updated, differs, removed=removed)
    if not (len(new) or len(removed)):
        return changes
    replacing, replaced = _replacements(cached, requested, new, removed, by_id)
    cached.remove(removed)
    return replace(
        changes,
        added=cached.add(requested, new[~np.isin(new, replacing)]),
        removed=Slots(removed[~np.isin(removed, replaced)]),
        replacing=cached.add(requested, replacing),
        replaced=Slots(replaced),
    )


def _replacements(
    cached: CachedPartitions, requested: RequestLists, new: Ints, removed: Slots, by_id: bool
) -> tuple[Ints, Ints]:
    """Returns positions of new partitions, and the slots of removed ones whose places they take.

    KIP-516: a new partition replaces a removed one of its name and index, but another topic id.
    """
    if not (len(new) and len(removed)):
        return NOTHING, NOTHING
    gone = cached.numbering.names_of(cached.numbers_of(removed), by_id)
    slot_of = dict(zip(gone, removed.tolist(), strict=True))
    names = cached.numbering.names_of(requested.partitions[new], by_id)
    pairs = [
        (at, slot_of.pop(name))
        for at, name in zip(new.tolist(), names, strict=True)
        if name in slot_of and name[0] is not None
    ]
    replacing, replaced = np.array(pairs, np.int64).reshape(-1, 2).T
    return replacing, replaced


def is_returned(response: ResponseChanges) -> Bools:
    """Tells which partitions an incremental response lists, of all that the broker looked at.

    "Incremental Fetch Responses"; ``CachedPartition.maybeUpdateResponseData``. "Whenever any of
    these elements change, or if there is new data available for a partition, the partition will be
    included."
    """
    # "The broker wants to notify the client about a change in the partition's highWatermark or
    # broker logStartOffset": after an error any high watermark; never the last stable offset. New
    # data (``brings``); since the KIP also an error, a preferred read replica or a diverging epoch.
    differs = response.differs
    listed: Bools = differs[CACHED_HIGH_WATERMARK] | differs[LOG_START_OFFSET] | response.brings
    return listed


class FetchSession(msgspec.Struct, array_like=True):
    """A session ("Fetch Session"). ``epoch`` is that of its next FETCH."""

    client: PartitionOrder
    broker: PartitionOrder
    epoch: int = 1

    def request(self, changes: RequestChanges, cached: CachedPartitions) -> tuple[Entries, Ints]:
        """Returns what the client lists, in order, and the partitions that it forgets.

        ``FetchSessionHandler.Builder.build``: new ones come first, then the others as they came
        into the session; what is forgotten goes topic by topic (``addToForgottenTopicMap``).
        """
        self.epoch = next_epoch(self.epoch)
        if changes.keeps_the_set:
            return self.client.sort(changes.updated), NOTHING
        # "If the client wants to remove a partition, [it] will add the partition to the
        # removed_partitions list": also one whose topic id was replaced, which is listed anew.
        removed, replaced, replacing = changes.removed, changes.replaced, changes.replacing
        gone = [self.client.sort(Entries(slots, slots)).at for slots in (removed, replaced)]
        self.client.replace(replaced, replacing.slots)
        self.client.move_last(changes.added.slots)
        # FetchSession.update: what is new to the broker comes to its end, as listed.
        self.broker.move_last(changes.added.slots)
        self.broker.move_last(self.client.sort(replacing).slots)
        forgotten = cached.numbers_of(Slots(np.concatenate(gone)))
        topics = cached.numbering.topic_of[forgotten].tolist()
        place = {topic: number for number, topic in enumerate(dict.fromkeys(topics))}
        by_topic = np.array([place[topic] for topic in topics], np.int64).argsort(kind="stable")
        altered = self.client.sort(changes.updated.joined(replacing))
        return changes.added.joined(altered), forgotten[by_topic]

    def response(self, response: ResponseChanges, which: Bools) -> Entries:
        """Returns what the broker lists, in order; partitions that it did not read come last."""
        listed = which.nonzero()[0]
        if len(listed) > 1:
            listed = listed[self.broker.ranks[response.entries.slots[listed]].argsort()]
            if response.not_read is not None:  # KafkaApis.handleFetchRequest
                listed = listed[response.not_read[listed].argsort(kind="stable")]
        return response.entries.where(listed)

    def rotate(self, slots: Slots) -> None:
        """Moves the partitions of which a response had records to the broker's end, in this order.

        "Handling Partition Size Limits in Incremental Fetch Requests": "When data is returned for a
        partition, that partition is moved to the end of the list."
        """
        self.broker.move_last(slots)


# --- "Fetch Session Caching": who finds a slot, is refused, is evicted ----------------------------

SHARDS = 8
#: ``min.incremental.fetch.session.eviction.ms``
EVICTION_MS = 120_000


class SessionEvent(StrEnum):
    CREATED = "created"
    REFUSED = "refused"
    EVICTED = "evicted"
    CLOSED = "closed"


class Reason(StrEnum):
    SLOT_FREE = "a slot was free"
    SLOT_MADE_FREE = "a slot was made free"
    NO_SLOTS = "no slots"
    CACHE_FULL = "cache full"
    IDLE = "idle"
    NOT_PRIVILEGED = "not privileged"
    SMALLER = "smaller"
    FORGOTTEN = "all forgotten"
    CLIENT = "client closed it"
    NEW_SESSION = "client requested a new one"


class CachedSession(msgspec.Struct, array_like=True):
    """A session in a cache; caches of several sizes that have created it for the same FETCH share
    the object, each under its own id. ``size``: its number of partitions.
    """

    session_key: str
    privileged: bool
    size: int
    created_ms: int
    last_used_ms: int
    is_old: bool = False

    def touch(self, size: int, now_ms: int) -> None:
        """Notes an incremental FETCH, after which the session has ``size`` partitions."""
        self.last_used_ms = now_ms
        self.size = size
        # Kafka looks at the age only here: a session that is not used does not become old.
        self.is_old = now_ms - self.created_ms > EVICTION_MS


class Occurrence(NamedTuple):
    """An event in the life of a session in a shard of a cache, and why it happens."""

    event: SessionEvent
    reason: Reason
    session: CachedSession
    shard: int


class FetchSessionCache(msgspec.Struct, array_like=True):
    """The cache of a broker: ``max.incremental.fetch.session.cache.slots`` in 8 shards.

    Each shard has ``slots // 8`` of them, so that fewer than 8 are none. New sessions go to the
    shards in turn, and compete within theirs. ``slots`` None: every session finds one. ``shards``:
    sessions by id. Kafka draws ids at random; here they count the ``created`` ones, and the
    remainder is a session's shard. ``requested``: how many sessions were, refused ones too.
    """

    slots: int | None
    shards: list[dict[int, CachedSession]] = msgspec.field(
        default_factory=lambda: [{} for _ in range(SHARDS)]
    )
    created: int = 0
    requested: int = 0

    def find(self, session_id: int) -> CachedSession | None:
        return self.shards[session_id % SHARDS].get(session_id)

    def maybe_create(self, new: CachedSession) -> tuple[int | None, list[Occurrence]]:
        """Creates a session with a full response; returns its id, None if refused, and events."""
        shard = self.requested % SHARDS
        self.requested += 1
        sessions = self.shards[shard]
        events, why = [], Reason.SLOT_FREE
        if self.slots is not None and len(sessions) >= self.slots // SHARDS:
            evicted_id, why = _evictable(sessions, new)
            if evicted_id is None:
                return None, [Occurrence(SessionEvent.REFUSED, why, new, shard)]
            evicted = sessions.pop(evicted_id)
            events = [Occurrence(SessionEvent.EVICTED, why, evicted, shard)]
            why = Reason.SLOT_MADE_FREE
        self.created += 1
        new_id = self.created * SHARDS + shard
        sessions[new_id] = new
        return new_id, [*events, Occurrence(SessionEvent.CREATED, why, new, shard)]

    def share(self, session_id: int, session: CachedSession) -> None:
        """Replaces a session, if it is still there, by the object that other caches have of it."""
        if self.find(session_id) is not None:
            self.shards[session_id % SHARDS][session_id] = session

    def close(self, session_id: int, reason: Reason) -> list[Occurrence]:
        """Removes a session, if it is still there."""
        shard = session_id % SHARDS
        session = self.shards[shard].pop(session_id, None)
        return [Occurrence(SessionEvent.CLOSED, reason, session, shard)] if session else []

    def forget_unused(self, before_ms: int) -> None:
        """Drops, if slots are unlimited, what was not used for so long that it never will be."""
        if self.slots is not None:
            return
        for shard in self.shards:
            for number in [id for id, s in shard.items() if s.last_used_ms < before_ms]:
                del shard[number]


def _evictable(
    sessions: Mapping[int, CachedSession], new: CachedSession
) -> tuple[int | None, Reason]:
    """Returns which session leaves its slot to a new one (None: none), and why (``tryEvict``).

    "The new session will evict an existing session if and only if:"
    """
    if not sessions:
        return None, Reason.NO_SLOTS
    # "The existing session has been inactive for more than
    # min.incremental.fetch.session.eviction.ms, OR" (in Kafka this comes first)
    last_used_ms, idlest = min((session.last_used_ms, id) for id, session in sessions.items())
    if new.created_ms - last_used_ms > EVICTION_MS:
        return idlest, Reason.IDLE
    # "The new session belongs to a follower, and the existing session belongs to a regular
    # consumer, OR the existing session has existed for more than [that], AND the new session has
    # more partitions". The new one's id counts as 0: it loses against its equal.
    evictable_keys = [
        (session.privileged, session.size, id)
        for id, session in sessions.items()
        if session.is_old or (new.privileged and not session.privileged)
    ]
    least = min(evictable_keys, default=None)
    if least is None or (new.privileged, new.size, 0) < least:
        return None, Reason.CACHE_FULL
    privileged, _, id = least
    outranked = new.privileged and not privileged
    return id, Reason.NOT_PRIVILEGED if outranked else Reason.SMALLER

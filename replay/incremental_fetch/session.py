"""KIP-227's rule: the partitions that an incremental FETCH lists, and those of its response.

In the order of the KIP as released. Partitions go by their slots (``followed``), places in a
FETCH's lists are positions (``lists``). What client and broker remember of a partition ("Fetch
Session") is the same in all sessions of a client (``followed``). Only the orders, ranks by slot,
and the epoch are a session's own.
"""

from typing import NamedTuple

import msgspec
import numpy as np

from ..kafka.messages.encoding import Bools, Ints
from . import lists
from .followed import FollowedPartitions, Response
from .slots import NO_SLOTS, NONE, Ranks

# "FetchRequest Metadata meaning": (0, 0) and (id, 0) are full and ask for a session, (0, -1) and
# (id, -1) are full and ask for none; an id closes its session. (id, n) is incremental.
NO_SESSION = 0
INITIAL_EPOCH, FINAL_EPOCH = 0, -1
_MAX_EPOCH = 2**31 - 1


def next_epoch(epoch: int) -> int:
    """ "Fetch Epoch": it counts requests, and goes on at 1 (``FetchMetadata.nextEpoch``)."""
    return 1 if epoch == _MAX_EPOCH else epoch + 1


class RequestChanges(NamedTuple):
    """What a FETCH changes in the set of partitions that its sender fetches.

    ``updated``, ``added`` and ``replacing`` are positions, each with its slots; ``removed`` and
    ``replaced`` are slots that were given up. A partition replaces another of the same name and
    index whose topic id is new, and is in none of the others. ``differs``: which values of updated
    ones (``Requested``). ``listed_slots``: what the request lists of what was followed before.
    """

    listed_slots: Ints
    updated: Ints
    updated_slots: Ints
    differs: Bools
    added: Ints = NO_SLOTS
    added_slots: Ints = NO_SLOTS
    removed: Ints = NO_SLOTS
    replacing: Ints = NO_SLOTS
    replacing_slots: Ints = NO_SLOTS
    replaced: Ints = NO_SLOTS

    @property
    def keeps_the_set(self) -> bool:
        """No partition comes or goes."""
        return not (len(self.added) or len(self.removed) or len(self.replaced))


_NO_CHANGES = RequestChanges(NO_SLOTS, NO_SLOTS, NO_SLOTS, np.zeros((4, 0), np.bool_))


def change(
    followed: FollowedPartitions,
    requested: lists.Requested,
    listed: slice,
    forgotten: Ints | None,
    by_id: bool,
) -> RequestChanges:
    """Take what a request lists and forgets (None: it is full); ``by_id``: topics go by id."""
    if forgotten is not None and listed.start == listed.stop and not len(forgotten):
        return _NO_CHANGES
    partitions, at = requested.partitions[listed], np.arange(listed.start, listed.stop)
    slots, new, gone = followed.slots.of(partitions), NO_SLOTS, NO_SLOTS
    if forgotten is not None and len(forgotten):
        gone = followed.slots.of(np.array(list(dict.fromkeys(forgotten.tolist()))))
        gone = gone[gone != NONE]
        # FetchSession.update: first what is listed, then what is forgotten.
        stays = ~np.isin(slots, gone)
        slots, at = slots[stays], at[stays]
    known = slots != NONE
    if np.count_nonzero(known) < len(known):
        slots, at, new = slots[known], at[known], at[~known]
    if forgotten is None and len(slots) < len(followed):
        mine = followed.slots.all()
        gone = mine[~np.isin(mine, slots)]
    # "Incremental Fetch Requests": a partition is listed if its maxBytes, fetchOffset or
    # logStartOffset changes. So do the epochs of KIP-320 and KIP-595.
    now = lists.columns(requested.values[: lists.TAGS], at)
    differs = followed.requested[: lists.TAGS].take(slots, axis=1) != now
    updated = np.logical_or.reduce(differs).nonzero()[0]
    changes = RequestChanges(
        slots, at[updated], slots[updated], differs[:, updated], new, removed=gone
    )
    followed.update(changes.updated_slots, requested, changes.updated)
    return changes if changes.keeps_the_set else _take_set(followed, requested, changes, by_id)


def _take_set(
    followed: FollowedPartitions, requested: lists.Requested, changes: RequestChanges, by_id: bool
) -> RequestChanges:
    """Partitions come and go, and those of one name and index replace one another (KIP-516)."""
    added, removed = changes.added, changes.removed
    pairs: list[tuple[int, int]] = []
    if len(added) and len(removed):
        gone = followed.names_of(followed.partitions_of(removed), by_id)
        slot_of = dict(zip(gone, removed.tolist(), strict=True))
        new = followed.names_of(requested.partitions[added], by_id)
        pairs = [
            (at, slot_of.pop(name))
            for at, name in zip(added.tolist(), new, strict=True)
            if name in slot_of and name[0] is not None
        ]
    replacing, replaced = np.array(pairs, np.int64).reshape(-1, 2).T
    followed.slots.remove(removed)
    added = added[~np.isin(added, replacing)]
    return changes._replace(
        added=added,
        added_slots=followed.add(requested, added),
        removed=removed[~np.isin(removed, replaced)],
        replacing=replacing,
        replacing_slots=followed.add(requested, replacing),
        replaced=replaced,
    )


def is_returned(returned: lists.Returned, response: Response) -> Bools:
    """Which partitions an incremental response lists, of all that the broker looked at."""
    # "Incremental Fetch Responses": there is new data, or, since then, an error, a preferred read
    # replica (KIP-392) or a diverging epoch (KIP-595).
    listed: Bools = np.logical_or.reduce(lists.columns(returned.brings, response.at))
    # "The broker wants to notify the client about a change in the partition's highWatermark or
    # broker logStartOffset"; after an error, any high watermark is a change
    # (FetchSession.CachedPartition.maybeUpdateResponseData). The last stable offset is none.
    before, now = response.before, response.now
    listed |= before[lists.CACHED_HIGH_WATERMARK] != now[lists.HIGH_WATERMARK]
    listed |= before[lists.LOG_START_OFFSET] != now[lists.LOG_START_OFFSET]
    return listed


class FetchSession(msgspec.Struct, array_like=True):
    """A session ("Fetch Session"): its epoch, and the orders of its partitions at both ends.

    ``is_older`` than the log: its orders are not known, and it is the recorded one.
    """

    uses_topic_ids: bool
    recorded_id: int | None
    client: Ranks
    broker: Ranks
    next_epoch: int = 1
    is_older: bool = False

    def request(self, changes: RequestChanges, followed: FollowedPartitions) -> tuple[Ints, Ints]:
        """Positions of the partitions that the client lists, in order, and those it forgets.

        FetchSessionHandler.Builder.build: new ones come first, then the others as they came into
        the session. What is forgotten goes by number, topic by topic.
        """
        self.next_epoch = next_epoch(self.next_epoch)
        if changes.keeps_the_set:
            return self.client.sort(changes.updated, changes.updated_slots), NO_SLOTS
        # "If the client wants to remove a partition, [it] will add the partition to the
        # removed_partitions list": also one whose topic id was replaced, which is listed anew.
        removed, replaced = changes.removed, changes.replaced
        gone = [self.client.sort(slots, slots) for slots in (removed, replaced)]
        self.client.replace(replaced, changes.replacing_slots)
        self.client.put_last(changes.added_slots)
        # FetchSession.update: what is new to the broker comes to its end, as listed.
        self.broker.put_last(changes.added_slots)
        self.broker.put_last(self.client.sort(changes.replacing_slots, changes.replacing_slots))
        altered = np.concatenate([changes.updated, changes.replacing])
        slots = np.concatenate([changes.updated_slots, changes.replacing_slots])
        listed = np.concatenate([changes.added, self.client.sort(altered, slots)])
        return listed, followed.by_topic(np.concatenate(gone))

    def response(self, response: Response, which: Bools) -> tuple[Ints, Ints]:
        """Positions and slots of the partitions that the broker lists, in order.

        What it did not read stands at the end (KafkaApis.handleFetchRequest).
        """
        listed = which.nonzero()[0]
        if len(listed) > 1:
            listed = self.broker.sort(listed, response.slots[listed])
            if response.not_read is not None:
                listed = listed[response.not_read[listed].argsort(kind="stable")]
        return response.at[listed], response.slots[listed]

    def rotate(self, slots: Ints) -> None:
        """A response had records of these partitions, in this order.

        "Handling Partition Size Limits in Incremental Fetch Requests": when data is returned for a
        partition, it is moved to the end of the list.
        """
        self.broker.put_last(slots)

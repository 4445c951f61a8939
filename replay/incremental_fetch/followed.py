"""The partitions that one client fetches, and what both sides last said of each.

This is the knowledge that sessions save the wire from repeating. It is the same whether the log
repeats it (full FETCHes) or not (incremental ones), so every variant is told from it: what a FETCH
changes of the request side is what an incremental request lists, what its answer changes is what an
incremental response lists.

What was last said stands in arrays, a column per partition (``slots``); a FETCH is compared with it
as a whole. Places in a FETCH's lists are given as positions in the batch (``lists``).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kip_replay.replay.kafka.messages.encoding import Bools, Ints

from .lists import ABSENT, EPOCHS, ERROR, HIGH_WATERMARK, LOG_START_OFFSET, Asked, Told
from .order import NO_SLOTS, FullOrder
from .partitions import Partitions
from .slots import NONE, Slots

_UNKNOWN_OFFSET = -1
_UNKNOWN_TOPIC_OR_PARTITION = 3
#: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_ID: told without reading.
_NEVER_READ = (29, 100)
#: As if it were told: no header, no high watermark, no log start offset. So the first answer always
#: lists a partition.
_NEVER_TOLD = np.array([[ABSENT], [ABSENT], [ABSENT], [_UNKNOWN_OFFSET]])


class Changes(NamedTuple):
    """What a FETCH changes in the set of partitions that its sender fetches.

    ``added`` and ``updated`` are positions in the request's list, ``added`` in the order in which
    the sender lists them; ``removed`` are slots. ``replaced`` says whose place a partition takes,
    position and slot: the same name and index, another topic id; such a partition is in none of the
    others. ``updated_for_draft``: those of ``updated`` that differ in more than epochs, which the
    draft's request does not have.
    """

    added: Ints
    updated: Ints
    updated_slots: Ints
    updated_for_draft: Bools
    removed: Ints
    replaced: list[tuple[int, int]]

    @property
    def keeps_the_set(self) -> bool:
        """No partition comes or goes."""
        return not (len(self.added) or len(self.removed) or self.replaced)


class News(NamedTuple):
    """What an answer says of partitions, and which protocol has to say it.

    ``at`` are positions in the response's list. ``not_read``: the broker did not come to look at
    the partition's log, so that it stands behind all that were read; None: all were read.
    """

    at: Ints
    slots: Ints
    for_session: Bools
    for_draft: Bools
    not_read: Bools | None


class FollowedPartitions:
    """All partitions of one client. ``order`` is that of its full FETCH."""

    def __init__(self, numbering: Partitions) -> None:
        self._numbering = numbering
        self.slots = Slots()
        self.order = FullOrder(numbering, self.topics_of)
        self.asked: Ints = np.zeros((4, 8), np.int64)
        self.told: Ints = np.zeros((4, 8), np.int64)
        #: The partitions that the last full FETCH listed, and their slots.
        self._listed = NO_SLOTS, NO_SLOTS
        #: ``Asked.tags`` of partitions that have any (none, with the clients that there are).
        self.tags: dict[int, int] = {}

    def __len__(self) -> int:
        return self.slots.here

    def topics_of(self, slots: Ints) -> Ints:
        """The topic of each slot's partition."""
        return self._numbering.topic_of.take(self.partitions_of(slots))

    def partitions_of(self, slots: Ints) -> Ints:
        """The number of each slot's partition."""
        return self.slots.partitions.take(slots)

    def slots_as_listed(self, partitions: Ints) -> Ints:
        """The slots of a full FETCH's partitions, which are often those of the one before."""
        if not np.array_equal(partitions, self._listed[0]):
            slots = self.slots.of(partitions)
            if not _all(slots != NONE):
                return slots
            self._listed = partitions.copy(), slots
        return self._listed[1]

    # --- request

    def changes_of_full(self, asked: Asked, row: slice, slots: Ints, by_id: bool) -> Changes:
        """What a full FETCH changes, which lists all partitions there are from then on."""
        known = slots != NONE
        if _all(known):
            gone = self._all_but(slots) if len(slots) < len(self) else NO_SLOTS
            return self._changes(asked, np.arange(row.start, row.stop), slots, gone, by_id)
        at = np.flatnonzero(known) + row.start
        gone = self._all_but(slots[known])
        new = np.flatnonzero(~known) + row.start
        return self._changes(asked, at, slots[known], gone, by_id, new)

    def changes_of_incremental(
        self, asked: Asked, row: slice, forgotten: Ints, by_id: bool
    ) -> Changes:
        """What an incremental FETCH changes, from what it lists and the partitions it forgets.

        The broker takes up first what is listed, then what is forgotten.
        """
        if row.start == row.stop and not len(forgotten):
            return NO_CHANGES
        partitions = asked.partitions[row]
        slots, at = self.slots.of(partitions), np.arange(row.start, row.stop)
        gone = NO_SLOTS
        if len(forgotten):
            gone = self.slots.of(forgotten)
            gone = np.array(list(dict.fromkeys(gone[gone != NONE].tolist())), np.int64)
            lost = self.partitions_of(gone)
            stays = ~np.isin(partitions, lost)
            slots, at = slots[stays], at[stays]
        known = slots != NONE
        if _all(known):
            return self._changes(asked, at, slots, gone, by_id)
        return self._changes(asked, at[known], slots[known], gone, by_id, at[~known])

    def _changes(
        self,
        asked: Asked,
        at: Ints,
        slots: Ints,
        gone: Ints,
        by_id: bool,
        new: Ints = NO_SLOTS,
    ) -> Changes:
        """From what is asked for as before or altered, what goes and what is new."""
        differs = self.asked.take(slots, axis=1) != columns(asked.values, at)
        for_draft = differs[0] | differs[1] | differs[2]
        altered = (for_draft | differs[EPOCHS]).nonzero()[0]
        for_draft = for_draft[altered]
        updated, updated_slots = at[altered], slots[altered]
        replaced: list[tuple[int, int]] = []
        if len(gone) and len(new):
            replaced = self._replaced(asked, new, gone, by_id)
        if replaced:
            took, lost = zip(*replaced, strict=True)
            new, gone = new[~np.isin(new, took)], gone[~np.isin(gone, lost)]
        return Changes(new, updated, updated_slots, for_draft, gone, replaced)

    def _all_but(self, slots: Ints) -> Ints:
        mine = self.slots.all()
        return mine[~np.isin(mine, slots)]

    def _replaced(self, asked: Asked, new: Ints, gone: Ints, by_id: bool) -> list[tuple[int, int]]:
        """Which new partition takes the place of which that goes: same name, another topic id."""
        name_of, index_of = self._numbering.name_of, self._numbering.index_of
        by_name = {}
        for slot, partition in zip(gone.tolist(), self.partitions_of(gone).tolist(), strict=True):
            topic = int(self._numbering.topic_of[partition])
            by_name[name_of(topic, by_id), int(index_of[partition])] = slot
        replaced = []
        for at in new.tolist():
            name = name_of(int(asked.topics[at]), by_id)
            index = int(index_of[asked.partitions[at]])
            old = None if name is None else by_name.pop((name, index), None)
            if old is not None:
                replaced.append((at, old))
        return replaced

    def ask(self, changes: Changes, asked: Asked) -> tuple[Ints, Ints]:
        """Take a FETCH's changes; the slots of ``added``, and of those that replaced others."""
        added = taken = NO_SLOTS
        if len(changes.updated):
            self.asked[:, changes.updated_slots] = asked.values[:, changes.updated]
            self._note_tags(changes.updated_slots, asked, changes.updated)
        if changes.keeps_the_set:
            return added, taken
        self._listed = NO_SLOTS, NO_SLOTS
        old = [old for _, old in changes.replaced]
        removed = np.concatenate([changes.removed, np.array(old, np.int64)])
        self.slots.remove(removed)
        for slot in removed.tolist():
            self.tags.pop(slot, None)
        added = self._add(asked, changes.added)
        taken = self._add(asked, np.array([at for at, _ in changes.replaced], np.int64))
        return added, taken

    def _add(self, asked: Asked, at: Ints) -> Ints:
        slots = self.slots.add(asked.partitions[at])
        if self.slots.given > self.asked.shape[1]:
            more = max(self.slots.given, 2 * self.asked.shape[1]) - self.asked.shape[1]
            room = np.zeros((4, more), np.int64)
            self.asked = np.concatenate([self.asked, room], axis=1)
            self.told = np.concatenate([self.told, room], axis=1)
        self.asked[:, slots] = asked.values[:, at]
        self.told[:, slots] = _NEVER_TOLD
        self._note_tags(slots, asked, at)
        return slots

    def _note_tags(self, slots: Ints, asked: Asked, at: Ints) -> None:
        if asked.tags is None and not self.tags:
            return
        tags = [0] * len(at) if asked.tags is None else asked.tags[at].tolist()
        for slot, tag in zip(slots.tolist(), tags, strict=True):
            if tag:
                self.tags[slot] = tag
            else:
                self.tags.pop(slot, None)

    def tagged(self) -> tuple[int, int]:
        """Partitions that are asked for with a directory id, and with a high watermark."""
        if not self.tags:
            return 0, 0
        tags = self.tags.values()
        return sum(tag & 1 for tag in tags), sum(tag >> 1 for tag in tags)

    # --- response

    def news(self, told: Told, row: slice, slots: Ints, any_error: bool) -> News:
        """What an answer says that is new, and remember it (``maybeUpdateResponseData``).

        ``slots`` are those of the row's partitions; partitions that are not followed count for
        nothing.
        """
        at = np.arange(row.start, row.stop)
        known = slots != NONE
        if not _all(known):
            at, slots = at[known], slots[known]
        values = columns(told.values, at)
        before = self.told.take(slots, axis=1)
        differs = before != values
        is_new = differs[0] | differs[1] | differs[2] | differs[3]
        speaks = told.speaks[at]
        for_session = speaks | differs[HIGH_WATERMARK] | differs[LOG_START_OFFSET]
        if np.count_nonzero(differs[ERROR]):
            # When the error goes away, the partition is to be told again.
            over = before[ERROR] != 0
            for_session |= over & (values[HIGH_WATERMARK] != _UNKNOWN_OFFSET)
            silent = over & ~speaks & (values[HIGH_WATERMARK] == _UNKNOWN_OFFSET)
            for_session[silent] = differs[LOG_START_OFFSET, silent]
        changed = is_new.nonzero()[0]
        self.told[:, slots[changed]] = values[:, changed]
        not_read = _not_read(values[ERROR], before[ERROR]) if any_error else None
        return News(at, slots, for_session, told.has_records[at] | is_new, not_read)

    # --- slots

    def renumber(self) -> Ints:
        """Give up the slots of partitions that have gone; the old slot of each new one."""
        kept = self.slots.all()
        slot_of = np.full(self.slots.given + 1, NONE, np.int64)
        slot_of[kept] = np.arange(len(kept))
        partitions = self.partitions_of(kept)
        self.order.renumber(slot_of)
        self._listed = NO_SLOTS, NO_SLOTS
        self.slots = Slots()
        self.slots.add(partitions)
        self.asked, self.told = self.asked[:, kept], self.told[:, kept]
        self.tags = {int(slot_of[slot]): tag for slot, tag in self.tags.items()}
        return kept


_NONE = np.zeros(0, np.bool_)
NO_CHANGES = Changes(NO_SLOTS, NO_SLOTS, NO_SLOTS, _NONE, NO_SLOTS, [])
NO_NEWS = News(NO_SLOTS, NO_SLOTS, _NONE, _NONE, None)


def _all(flags: Bools) -> bool:
    """As ``flags.all()``, and faster where there are few."""
    return int(np.count_nonzero(flags)) == len(flags)


def columns(values: Ints, at: Ints) -> Ints:
    """Some columns, of ascending positions; not copied where they stand together."""
    if len(at) and at[-1] - at[0] == len(at) - 1:
        return values[:, at[0] : at[-1] + 1]
    return values.take(at, axis=1)


def _not_read(error: Ints, before: Ints) -> Bools | None:
    """Whose log the broker did not look at (``KafkaApis.handleFetchRequest``).

    A partition that it does not have any more is found while the FETCH waits, since that is where
    FETCHes spend their time; from the next FETCH on, the broker knows before it reads.
    """
    is_missing = error == _UNKNOWN_TOPIC_OR_PARTITION
    was_read = (before != ABSENT) & (before != _UNKNOWN_TOPIC_OR_PARTITION)
    not_read = np.isin(error, _NEVER_READ) | (is_missing & ~was_read)
    return not_read if not_read.any() else None

"""The order in which a client lists its partitions in a full FETCH, and what their topics take.

A full FETCH shows its order. Between two, with incremental ones, it has to be followed. A replica
fetcher puts a partition at the end when it has taken records of it, and with the first response
after it was added (``AbstractFetcherThread.processFetchRequest``,
``PartitionStates.updateAndMoveToEnd``). A consumer since Kafka 4.0 lists the elements of a hash set
(``AbstractFetch.prepareFetchRequests``): they stay where they are; here those that are added come
to the end. On the wire of an incremental FETCH none of this shows, and only the grouping of
adjacent partitions of a topic follows from it.

The order is a list as long as full FETCHes follow one another (each is read whole anyway). The
first change that comes alone turns it into runs, and from then on a change costs the same
however many partitions there are.
"""

from collections.abc import Callable

import numpy as np

from kip_replay.replay.kafka.messages.encoding import Bools, Ints, unsigned_varint_bytes
from kip_replay.replay.kafka.messages.fetch_pieces import TopicTotals

from .partitions import Partitions, runs_of
from .slots import NO_SLOTS, NONE

#: Lengths of runs from which on the varint before their partitions has another byte.
_LONGER = frozenset((1 << bits) - 1 for bits in (7, 14, 21, 28))


class FullOrder:
    """The partitions of a full FETCH in order, by slot. ``topics_of`` returns the topics of slots.

    ``moves``: partitions to be put at the end once the client has the response, that is before its
    next FETCH. ``is_fresh``, by slot: no response has had the partition yet.
    """

    def __init__(self, numbering: Partitions, topics_of: Callable[[Ints], Ints]) -> None:
        self._numbering = numbering
        self._topics_of = topics_of
        self._listed: Ints = NO_SLOTS
        self._totals = TopicTotals()
        #: None: the order is ``_listed``.
        self._runs: TopicRuns | None = None
        self.moves: Ints = NO_SLOTS
        self.is_fresh: Bools = np.zeros(0, np.bool_)

    @property
    def totals(self) -> TopicTotals:
        return self._totals if self._runs is None else self._runs.totals

    def keys(self) -> Ints:
        return self._listed if self._runs is None else self._runs.slots

    def list_anew(self, slots: Ints, totals: TopicTotals) -> None:
        self._listed, self._totals = slots, totals
        self._runs, self.moves = None, NO_SLOTS
        self.is_fresh = np.ones(int(slots.max(initial=-1)) + 1, np.bool_)

    def change(self, removed: Ints, added: Ints) -> None:
        """Partitions go, and others come to the end."""
        more = int(added.max(initial=-1)) + 1 - len(self.is_fresh)
        if more > 0:
            self.is_fresh = np.pad(self.is_fresh, (0, more + len(self.is_fresh) // 2))
        self.is_fresh[added] = True
        self._move(removed, added)

    def respond(self, slots: Ints, has_records: Bools, is_follower: bool) -> None:
        """A response has these partitions: a follower puts some at the end before it goes on."""
        if is_follower:
            self.moves = slots[has_records | self.is_fresh[slots]]
            self.is_fresh[slots] = False

    def settle(self) -> None:
        """The client has the response."""
        moves, self.moves = self.moves, NO_SLOTS
        if not len(moves):
            return
        if self._runs is None and 4 * len(moves) >= len(self._listed):
            stays = np.ones(int(self._listed.max()) + 1, np.bool_)
            stays[moves] = False
            self.relist(np.concatenate([self._listed[stays[self._listed]], moves]))
        else:
            self._move(moves, moves)

    def renumber(self, slot_of: Ints) -> None:
        """Slots are numbered anew: ``slot_of`` has the new ones by the old."""
        fresh = slot_of[np.flatnonzero(self.is_fresh)]
        self.is_fresh = np.zeros(int(slot_of.max(initial=-1)) + 1, np.bool_)
        self.is_fresh[fresh[fresh >= 0]] = True
        self.moves = slot_of[self.moves]
        self._listed, self._totals, self._runs = slot_of[self.keys()], self.totals, None

    def relist(self, slots: Ints) -> None:
        """The order is this one; nothing else has happened."""
        self._runs, self._listed = None, slots
        self._totals = self._numbering.totals(self._topics_of(slots))

    def _move(self, removed: Ints, added: Ints) -> None:
        if self._runs is None:
            self._runs = TopicRuns(self._numbering, self._listed, self._topics_of(self._listed))
        self._runs.remove(removed)
        self._runs.append(added, self._topics_of(added))
        if self._runs.is_worn:
            self.relist(self.keys())


class TopicRuns:
    """Runs of adjacent partitions of one topic, kept up while partitions come, go and move.

    A partition leaves where it stands or comes to the end, nothing else happens: a dict keeps their
    order, and each partition knows its run. Runs that meet when the one between them ends become
    one; the smaller then points at the larger, and whoever looks for its run follows the pointers
    and shortens them (union-find).
    """

    def __init__(self, numbering: Partitions, slots: Ints, topics: Ints) -> None:
        of_runs, lengths = runs_of(topics)
        n = len(of_runs)
        self._bytes_of = numbering.topic_bytes
        # Run 0, of no topic, stands before the first and after the last.
        self._topic, self._length = [NONE, *of_runs], [0, *lengths]
        self._before, self._after = [n, *range(n)], [*range(1, n + 1), 0]
        self._joined = list(range(n + 1))
        run_of = np.repeat(np.arange(1, n + 1), lengths)
        self._run_of: dict[int, int] = dict(zip(slots.tolist(), run_of.tolist(), strict=True))
        self._runs, self._utf8, self._varints, self._lengths = numbering.totals(topics)

    @property
    def totals(self) -> TopicTotals:
        return TopicTotals(self._runs, self._utf8, self._varints, self._lengths)

    @property
    def slots(self) -> Ints:
        return np.fromiter(self._run_of, np.int64, len(self._run_of))

    @property
    def is_worn(self) -> bool:
        """So many runs have come and gone that it is time to begin anew."""
        return len(self._topic) > 4 * len(self._run_of) + 1000

    def append(self, slots: Ints, topics: Ints) -> None:
        """Partitions that are not there come to the end, in this order."""
        run = self._before[0]
        for slot, topic in zip(slots.tolist(), topics.tolist(), strict=True):
            if self._topic[run] != topic:
                run = self._open(topic)
            length = self._length[run] = self._length[run] + 1
            if length in _LONGER:
                self._lengths += 1
            self._run_of[slot] = run

    def remove(self, slots: Ints) -> None:
        joined = self._joined
        for slot in slots.tolist():
            run = self._run_of.pop(slot)
            while joined[run] != run:
                joined[run] = run = joined[joined[run]]
            length = self._length[run]
            self._length[run] = length - 1
            if length in _LONGER:
                self._lengths -= 1
            if length == 1:
                self._close(run)

    def _open(self, topic: int) -> int:
        run, last = len(self._topic), self._before[0]
        self._topic.append(topic)
        self._length.append(0)
        self._joined.append(run)
        self._before.append(last)
        self._after.append(0)
        self._before[0] = self._after[last] = run
        self._count(topic, 1)
        return run

    def _close(self, run: int) -> None:
        """Take out a run that is empty; its neighbours may be of one topic."""
        before, after = self._take_out(run)
        if before == after or self._topic[before] != self._topic[after]:
            return
        small, large = sorted((before, after), key=self._length.__getitem__)
        self._take_out(small)
        self._joined[small] = large
        lengths = self._length[small], self._length[large]
        self._length[large] = sum(lengths)
        separate = sum(unsigned_varint_bytes(n + 1) for n in lengths)
        self._lengths += 1 + unsigned_varint_bytes(sum(lengths) + 1) - separate

    def _take_out(self, run: int) -> tuple[int, int]:
        before, after = self._before[run], self._after[run]
        self._after[before], self._before[after] = after, before
        self._count(self._topic[run], -1)
        return before, after

    def _count(self, topic: int, runs: int) -> None:
        utf8_bytes, varint_bytes = self._bytes_of[topic]
        self._runs += runs
        self._utf8 += runs * utf8_bytes
        self._varints += runs * varint_bytes
        # Of the varint before its partitions the first byte; the others are counted by length.
        self._lengths += runs

"""Who leads a partition and who is in its ISR, as one node learns it (kafka.cluster.Partition).

A leader's facts change seldom: they are followed one by one, in Python, and each row of the log
gets the ``Condition`` it falls under (``Leaderships``).
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from .inputs import FETCH, ISR_ASKED, METADATA, PRODUCE
from .log import ALL, NOWHERE, NULL, Array, Log, no_longs

#: From learning of a commit until partitions follow it: applying takes longest on a cold broker.
APPLY_US_MAX = 200_000
#: METADATA that contradicts what is known is believed if that is older.
STALE_US = 2_000_000
#: ``leads`` as long as the log leaves it open; else 0 or 1.
MAYBE = -1
#: A min.insync.replicas that is not known.
UNKNOWN_MIN_ISR = -1
#: ``Log.loss``: when the leadership was lost is known, or METADATA shows that it was before.
LOST, LOST_BEFORE = 1, 2
#: ... or a hole of another log hides what acknowledgements depend on from then on (``holes``).
DOUBTED = 3

Isr = tuple[int, ...]


class Condition(NamedTuple):
    """What acknowledgements depend on besides offsets; sets of followers are bits by seat.

    ``isr_size`` is NOWHERE if the ISR is not known, ``members`` is the maximal ISR, ``min_isrs``
    has a value per variant.
    """

    term: int
    leads: int
    isr_size: int
    previous_size: int
    in_sync: int
    members: int
    min_isrs: Isr
    isr: Isr | None
    previous: Isr | None


class Fact(NamedTuple):
    """A partition as METADATA or ALTER_PARTITION has it; ``is_active``: its node may lead."""

    isr: Isr | None
    leader_id: int | None
    leader_epoch: int | None
    replicas: int
    is_active: bool


class Leadership(msgspec.Struct):
    """One partition as this node knows it. Methods return whether the high watermark may move."""

    node_id: int
    min_isrs: Isr
    isr: Isr | None = None
    requested: Isr | None = None
    previous: Isr | None = None
    #: The ISR that a hole of another log put in doubt, and when.
    doubted: Isr | None = None
    doubted_us: int | None = None
    #: Followers that are absent, maybe fenced or stopped.
    missed: list[int] = []
    replicas: int = 0
    leader_id: int | None = None
    leader_epoch: int = -1
    lost_epoch: int = -2
    lost_us: int = -APPLY_US_MAX - 1
    leads: int = MAYBE
    changed_us: int = 0
    term: int = 0
    loss: int = 0
    #: What the last condition followed from.
    noted: Any = None
    #: Followers by seat: who was ever in the ISR, or fetched.
    seats: list[int] = []

    def seat(self, broker_id: int) -> int:
        """A follower's seat, a new one if it has none."""
        if broker_id not in self.seats:
            self.seats.append(broker_id)
        return self.seats.index(broker_id)

    def _bits(self, *sets: Isr | None) -> int:
        followers = {one for members in sets for one in members or () if one != self.node_id}
        return sum(1 << self.seat(one) for one in sorted(followers))

    def condition(self) -> Condition:
        # effectiveMinIsr: no more than there are replicas.
        capped = (min(k, self.replicas) if self.replicas else k for k in self.min_isrs)
        return Condition(
            self.term,
            self.leads,
            NOWHERE if self.isr is None else len(self.isr),
            NOWHERE if self.previous is None else len(self.previous),
            self._bits(self.isr),
            self._bits(self.isr, self.requested),
            tuple(capped),
            self.isr,
            self.previous,
        )

    def lead(self) -> None:
        """A new term: followers have to show anew what they have."""
        self.leads = 1
        self.term += 1

    def lose(self, at_us: int, loss: int) -> None:
        """This node does not lead any more: what waits gets NOT_LEADER_OR_FOLLOWER."""
        self.leads, self.loss = 0, loss
        self.lost_epoch, self.lost_us = self.leader_epoch, at_us

    def take(self, at_us: int, kind: int, fact: Fact) -> bool:
        """ALTER_PARTITION arrived, or its response was built, or METADATA was returned."""
        self.replicas = fact.replicas or self.replicas
        if kind == ISR_ASKED:
            # Who is new in what the leader requests counts from now on.
            if fact.isr is not None and self.isr is not None:
                self.requested = fact.isr
            return False
        if kind == METADATA and not self._believes(at_us, fact):
            return False
        self.commit(at_us, fact.isr)
        return True

    def commit(self, at_us: int, isr: Isr | None) -> None:
        """An ISR was committed; None: the leader's request was refused."""
        self.requested = None
        if set(self.missed) & set(isr or ()):
            return
        if isr is not None:
            self.doubted_us = None
        if isr is not None and isr != self.isr:
            self.previous, self.isr, self.changed_us = self.isr, isr, at_us

    def _believes(self, at_us: int, fact: Fact) -> bool:
        """METADATA may be old: an ISR or a leader in it is not always today's."""
        if self.doubted_us is not None:
            return bool(fact.isr) and at_us - self.doubted_us > STALE_US
        if not fact.isr or self.isr is None:
            return bool(fact.isr)
        epoch = fact.leader_epoch
        is_old = epoch is not None and epoch < self.leader_epoch
        return fact.is_active and not is_old and at_us - self.changed_us > STALE_US

    def configure(self, at_us: int, min_isrs: Isr) -> bool:
        """min.insync.replicas is another one."""
        self.min_isrs = min_isrs
        return True

    def doubt(self, at_us: int) -> bool:
        """The ISR may be another one by now."""
        self.isr, self.requested, self.doubted, self.doubted_us = None, None, self.isr, at_us
        self.loss = DOUBTED
        return True

    def knows(self, broker_id: int) -> bool:
        """Whether it matters that a broker may have stopped."""
        return broker_id in self.seats or self.leader_id == broker_id

    def may_add(self, broker_id: int) -> bool:
        """Whether a broker that fetches may be in the ISR by now."""
        isr = self.isr or ()
        return bool(isr) and broker_id not in isr and len(isr) != self.replicas

    def miss(self, at_us: int, follower: int) -> bool:
        """A follower is absent, maybe fenced or stopped."""
        self.loss = DOUBTED
        self.missed = [*self.missed, follower]
        if follower in (self.isr or ()):
            self.doubt(at_us)
        return self._lead_instead(follower)

    def find(self, _: int, follower: int) -> bool:
        """A follower that was absent is back."""
        self.missed = [one for one in self.missed if one != follower]
        return False

    def _lead_instead(self, broker_id: int) -> bool:
        """Of a leader that is gone: somebody else of the ISR leads now, maybe this node."""
        if self.leader_id == broker_id != self.node_id:
            self.leader_id = None
            self.leads = MAYBE if self.leads == 0 else self.leads
        return True

    def hold(self, at_us: int, broker_id: int) -> bool:
        """A broker that stops or is fenced may have been taken out before, or an heir be none."""
        if broker_id == self.node_id:
            self.doubt(at_us)
        elif broker_id in (self.isr or ()):
            self.loss = DOUBTED
        return True

    def doubt_loss(self, _: int) -> bool:
        """Who does not lead may lead by now."""
        self.leads = MAYBE if self.leads == 0 else self.leads
        return False

    def believe(self, _: int) -> bool:
        """It is none: nothing was changed."""
        if self.doubted_us is not None:
            self.isr, self.doubted_us, self.missed = self.doubted, None, []
        return True

    def doubt_outcomes(self, _: int) -> bool:
        """What waits may have been completed otherwise."""
        self.loss = DOUBTED
        return True

    def name_leader(self, at_us: int, fact: Fact) -> None:
        """METADATA names the leader, or leaves it out."""
        epoch = fact.leader_epoch or 0
        if fact.leader_id is None:
            return
        self.leader_id = fact.leader_id
        if fact.leader_id == self.node_id:
            if self.leads != 1 and epoch > self.lost_epoch:
                self.lead()
        elif self.leads == 1 and epoch > self.leader_epoch >= 0:
            self.lose(at_us, LOST_BEFORE)
        elif self.leads == MAYBE:
            self.leads = 0
        self.leader_epoch = max(self.leader_epoch, epoch)

    def take_out(self, at_us: int, broker_id: int, inactive: frozenset[int]) -> bool:
        """A controller fenced a broker or lets it stop; the last one of an ISR stays in it."""
        isr = self.isr or ()
        has_heir = set(isr) - {self.node_id} - inactive
        if broker_id == self.node_id and self.leads == 1 and has_heir:
            self.lose(at_us, LOST)
        self._lead_instead(broker_id)
        if broker_id in isr and len(isr) > 1:
            self.commit(at_us, tuple(one for one in isr if one != broker_id))
        return True


#: What happens to all partitions at once: a function of the partition and the time.
Change = Callable[[Leadership, int], bool]


class Leaderships(msgspec.Struct):
    """All partitions of a node, and the conditions that rows refer to."""

    node_id: int
    all: list[Leadership] = []
    conditions: list[Condition] = []
    current: Array = msgspec.field(default_factory=no_longs)
    _leads: Array = msgspec.field(default_factory=no_longs)
    _epochs: Array = msgspec.field(default_factory=no_longs)

    def add(self, more: Sequence[Isr]) -> None:
        """Partitions of which nothing is known yet but min.insync.replicas."""
        zeros = np.zeros(len(more), np.int64)
        columns = (self.current, self._leads, self._epochs)
        self.current, self._leads, self._epochs = (np.append(one, zeros) for one in columns)
        for min_isrs in more:
            self.all.append(Leadership(self.node_id, min_isrs))
            self._note(len(self.all) - 1)

    def compact(self, log: Log) -> None:
        """Leave out the conditions that neither rows nor partitions refer to any more."""
        if len(self.conditions) > 2 * (len(self.all) + len(log.order)):
            places = np.append(self.current, log.condition)
            kept, places = np.unique(places, return_inverse=True)
            self.conditions = [self.conditions[place] for place in kept.tolist()]
            self.current, log.condition[:] = np.split(places, [len(self.current)])

    def _note(self, p: int) -> int:
        """The condition that a partition is in now."""
        one = self.all[p]
        sets, numbers = (one.isr, one.requested, one.previous), (one.leads, one.term, one.replicas)
        if one.noted != (*sets, *numbers, one.min_isrs):
            one.noted, self._leads[p] = (*sets, *numbers, one.min_isrs), one.leads
            condition = one.condition()
            if not self.conditions or self.conditions[self.current[p]] != condition:
                self.current[p] = len(self.conditions)
                self.conditions.append(condition)
        return int(self.current[p])

    @property
    def brokers(self) -> Array:
        """Followers' ids by partition, a column per seat, NOWHERE if it is free."""
        width = max([1, *(len(one.seats) for one in self.all)])
        table = [one.seats + [NOWHERE] * (width - len(one.seats)) for one in self.all]
        return np.array(table, np.int64).reshape(-1, width)

    def seats_of(self, partitions: Array, brokers: Array) -> Array:
        """Seats of followers at partitions, new ones for those that have none."""
        seats = self._seats_of(partitions, brokers)
        if (seats == NOWHERE).any():
            for p, broker in sorted({*zip(partitions.tolist(), brokers.tolist(), strict=True)}):
                self.all[p].seat(broker)
            seats = self._seats_of(partitions, brokers)
        return seats

    def _seats_of(self, partitions: Array, brokers: Array) -> Array:
        table = self.brokers[partitions] == brokers[:, None]
        return np.where(table.any(axis=1), table.argmax(axis=1), NOWHERE)

    def follow(
        self, log: Log, epochs: Array, details: Array, facts: Sequence[Fact | Change]
    ) -> None:
        """Fill in ``condition`` and ``loss``; rows that change nothing become of no kind (0).

        ``log`` is by partition; ``epochs`` are those of FETCHes that were noted, else -1;
        ``details``: positions in ``facts``, NOWHERE for PRODUCEs and FETCHes.
        """
        if not len(details):
            return
        begins = np.flatnonzero(np.append(True, log.partition[1:] != log.partition[:-1]))
        partitions, ends = log.partition[begins], np.append(begins[1:], len(details))
        log.condition[:] = self.current[log.partition]
        watched = np.maximum.reduceat(details, begins) != NOWHERE
        watched |= self._leads[partitions] != 1
        watched |= np.maximum.reduceat(epochs, begins) > self._epochs[partitions]
        for i in np.flatnonzero(watched).tolist():
            rows = slice(begins[i], ends[i])
            part = Log(*(column[rows] for column in log))
            self._follow_one(int(partitions[i]), part, epochs[rows], details[rows], facts)

    def _follow_one(
        self, p: int, log: Log, epochs: Array, details: Array, facts: Sequence[Fact | Change]
    ) -> None:
        one, n, begin = self.all[p], len(details), 0
        for r in [*np.flatnonzero(details != NOWHERE).tolist(), n]:
            if one.leads != 1 and begin < r:
                self._lead_if_shown(p, log, epochs, begin, r)
            if begin < r:
                one.leader_epoch = max(one.leader_epoch, int(epochs[begin:r].max()))
                self._epochs[p] = one.leader_epoch
            if r == n:
                break
            at_us, kind, fact = int(log.at_us[r]), int(log.kind[r]), facts[details[r]]
            moves = fact(one, at_us) if callable(fact) else one.take(at_us, kind, fact)
            log.condition[r:] = self._note(p)
            if kind == METADATA and moves and isinstance(fact, Fact):
                one.name_leader(at_us, fact)
                log.condition[r + 1 :] = self._note(p)
            log.kind[r], log.loss[r] = ALL if moves else 0, one.loss
            one.loss, begin = 0, r + 1

    def _lead_if_shown(self, p: int, log: Log, epochs: Array, begin: int, end: int) -> None:
        """From the first row on that only a leader can have."""
        one, rows = self.all[p], slice(begin, end)
        is_noted = (log.kind[rows] == FETCH) & (log.offset[rows] != NULL)
        is_append = (log.kind[rows] == PRODUCE) & (log.base_offset[rows] >= 0)
        if one.leads == 0:
            # It may not have applied everywhere yet that it does not lead any more.
            is_append &= log.at_us[rows] - one.lost_us > APPLY_US_MAX
        shown = np.flatnonzero(is_append | (is_noted & (epochs[rows] > one.lost_epoch)))
        if len(shown):
            one.lead()
            log.condition[begin + int(shown[0]) :] = self._note(p)

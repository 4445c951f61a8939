"""What one node knows of a partition's leader and ISR, from METADATA, ALTER_PARTITION and the rest.

``kip_926.Partition`` has what follows for acknowledgements; here is how far it is known.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from .events import Kind
from .kip_926 import Isr, Partition

#: From learning of a commit until partitions follow it: applying takes longest on a cold broker.
APPLY_US_MAX = 200_000
#: METADATA that contradicts what is known is believed if that is older.
STALE_US = 2_000_000
#: How batches that wait lost their leader: when is known, or METADATA shows that it was before.
LOST, LOST_BEFORE = 1, 2
#: ... or a gap in a log hides what acknowledgements depend on from then on (``uncertainties``).
UNCERTAIN = 3
#: ... or offsets in the log contradict each other.
CONTRADICTED = 4


class Fact(NamedTuple):
    """A partition as METADATA or ALTER_PARTITION has it; ``is_active``: its node may lead."""

    isr: Isr | None
    leader_id: int | None
    leader_epoch: int | None
    replicas: int
    is_active: bool


class Leadership(msgspec.Struct, array_like=True):
    """One partition as this node knows it. Changes return whether acknowledgements may follow.

    ``leads`` is None as long as the log leaves it open. ``uncertain_us``: since when the ISR may be
    another one behind a gap. ``missed``: followers that are absent, maybe fenced or stopped.
    ``loss``: what a change means for the batches that wait, for the caller to take.
    """

    partition: Partition
    leads: bool | None = None
    previous: Isr | None = None
    changed_us: int = 0
    uncertain_us: int | None = None
    missed: list[int] = []
    leader_id: int | None = None
    leader_epoch: int = -1
    lost_epoch: int = -2
    lost_us: int = -APPLY_US_MAX - 1
    loss: int = 0

    @property
    def isr(self) -> Isr | None:
        return self.partition.isr

    def lead(self) -> None:
        self.leads = True
        self.partition.lead()

    def lose(self, at_us: int, loss: int) -> None:
        """This node does not lead any more: what waits gets NOT_LEADER_OR_FOLLOWER."""
        self.leads, self.loss = False, loss
        self.lost_epoch, self.lost_us = self.leader_epoch, at_us

    def lead_by_append(self, at_us: int) -> None:
        """A batch was appended: this node leads."""
        # It may not have applied everywhere yet that it does not lead any more.
        if self.leads is None or at_us - self.lost_us > APPLY_US_MAX:
            self.lead()

    def note_epoch(self, epoch: int) -> None:
        """A follower's FETCH of an epoch was noted: this node leads."""
        if not self.leads and epoch > self.lost_epoch:
            self.lead()
        self.leader_epoch = max(self.leader_epoch, epoch)

    def take(self, at_us: int, kind: str, fact: Fact) -> bool:
        """ALTER_PARTITION arrived, or its response was built, or METADATA was returned."""
        self.partition.replicas = fact.replicas or self.partition.replicas
        if kind == Kind.ISR_ASKED:
            # Who is new in what the leader requests counts from now on.
            if fact.isr is not None and self.isr is not None:
                self.partition.change_isr(self.isr, fact.isr)
            return False
        if kind == Kind.METADATA and not self._believes(at_us, fact):
            return False
        self.commit(at_us, fact.isr)
        return True

    def commit(self, at_us: int, isr: Isr | None) -> None:
        """An ISR was committed; None: the leader's request was refused."""
        known = self.isr
        if not set(self.missed) & set(isr or ()) and isr is not None:
            self.uncertain_us = None
            if isr != known:
                self.previous, self.changed_us, known = known, at_us, isr
        self.partition.change_isr(known)

    def _believes(self, at_us: int, fact: Fact) -> bool:
        """METADATA may be old: an ISR or a leader in it is not always today's."""
        if self.uncertain_us is not None:
            return bool(fact.isr) and at_us - self.uncertain_us > STALE_US
        if not fact.isr or self.isr is None:
            return bool(fact.isr)
        epoch = fact.leader_epoch
        is_old = epoch is not None and epoch < self.leader_epoch
        return fact.is_active and not is_old and at_us - self.changed_us > STALE_US

    def name_leader(self, at_us: int, fact: Fact) -> None:
        """METADATA names the leader, or leaves it out."""
        epoch = fact.leader_epoch or 0
        if fact.leader_id is None:
            return
        self.leader_id = fact.leader_id
        if fact.leader_id == self.partition.leader_id:
            if not self.leads and epoch > self.lost_epoch:
                self.lead()
        elif self.leads and epoch > self.leader_epoch >= 0:
            self.lose(at_us, LOST_BEFORE)
        elif self.leads is None:
            self.leads = False
        self.leader_epoch = max(self.leader_epoch, epoch)

    def take_out(self, at_us: int, broker_id: int, inactive: frozenset[int]) -> bool:
        """A controller fenced a broker or lets it stop; the last one of an ISR stays in it."""
        isr = self.isr or ()
        has_heir = set(isr) - {self.partition.leader_id} - inactive
        if broker_id == self.partition.leader_id and self.leads and has_heir:
            self.lose(at_us, LOST)
        self._lead_instead(broker_id)
        if broker_id in isr and len(isr) > 1:
            self.commit(at_us, tuple(one for one in isr if one != broker_id))
        return True

    def _lead_instead(self, broker_id: int) -> None:
        """Of a leader that is gone: somebody else of the ISR leads now, maybe this node."""
        if self.leader_id == broker_id != self.partition.leader_id:
            self.leader_id = None
            self.may_lead(0)

    def forget_isr(self, at_us: int) -> bool:
        """The ISR may be another one by now."""
        self.uncertain_us, self.loss = at_us, UNCERTAIN
        self.partition.change_isr(None)
        return True

    def knows(self, broker_id: int) -> bool:
        """Whether it matters that a broker may have stopped."""
        partition = self.partition
        known = (partition.followers, partition.isr or (), self.previous or ())
        return any(broker_id in one for one in known) or self.leader_id == broker_id

    def may_add(self, broker_id: int) -> bool:
        """Whether a broker that fetches may be in the ISR by now."""
        isr = self.isr or ()
        return bool(isr) and broker_id not in isr and len(isr) != self.partition.replicas

    def miss(self, at_us: int, follower: int) -> bool:
        """A follower is absent, maybe fenced or stopped."""
        self.loss = UNCERTAIN
        self.missed = [*self.missed, follower]
        if follower in (self.isr or ()):
            self.forget_isr(at_us)
        self._lead_instead(follower)
        return True

    def find(self, _: int, follower: int) -> bool:
        """A follower that was absent is back."""
        self.missed = [one for one in self.missed if one != follower]
        return False

    def hold(self, at_us: int, broker_id: int) -> bool:
        """A broker that stops or is fenced may have been taken out before, or an heir be none."""
        if broker_id == self.partition.leader_id:
            self.forget_isr(at_us)
        elif broker_id in (self.isr or ()):
            self.loss = UNCERTAIN
        return True

    def may_lead(self, _: int) -> bool:
        """Who does not lead may lead by now."""
        if self.leads is False:
            self.leads = None
        return False

    def forget_waiting(self, _: int) -> bool:
        """What waits may have been completed otherwise."""
        self.loss = UNCERTAIN
        return True


#: What happens to many partitions at once: a function of the partition and the time.
Change = Callable[[Leadership, int], bool]

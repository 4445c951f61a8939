"""What one node knows of partitions: leader, ISR, min.insync.replicas.

``model.partition`` has what follows for acknowledgements; here is how far it is known.
"""

from collections.abc import Callable
from enum import StrEnum

import msgspec

from ..model.partition import Isr, Partition
from .events import PENDING, EventKind, LeaderEvent, PartitionState

#: From learning of a commit until partitions follow it: applying takes longest on a cold broker.
APPLY_US_MAX = 200_000
#: METADATA that contradicts what is known counts if that is older.
STALE_US = 2_000_000


class Loss(StrEnum):
    """Why batches that wait are not followed any more."""

    LEADER = "this node does not lead any more"
    LEADER_BEFORE = "METADATA shows that it did not lead any more before"
    UNCERTAIN = "a gap in a log hides what acknowledgements depend on from then on"
    CONTRADICTED = "offsets in the log contradict each other"


class KnownPartition(msgspec.Struct, array_like=True):
    """One partition as this node knows it. Changes return whether acknowledgements may follow.

    ``leads`` is None as long as the log leaves it open. ``uncertain_us``: since when the ISR may be
    another one behind a gap. ``absent``: followers that may be fenced or stopped. ``loss``: what a
    change means for the batches that wait, for the caller to take.
    """

    partition: Partition
    leads: bool | None = None
    previous_isr: Isr | None = None
    changed_us: int = 0
    uncertain_us: int | None = None
    absent: list[int] = []
    leader_id: int | None = None
    leader_epoch: int = -1
    lost_epoch: int = -2
    lost_us: int | None = None
    loss: Loss | None = None

    @property
    def isr(self) -> Isr | None:
        return self.partition.isr

    def lead(self, at_us: int) -> None:
        self.leads = True
        self.partition.lead(at_us)

    def _lose(self, at_us: int, loss: Loss) -> None:
        """Ends this node's lead: what waits gets NOT_LEADER_OR_FOLLOWER."""
        self.leads, self.loss = False, loss
        self.lost_epoch, self.lost_us = self.leader_epoch, at_us

    def lead_by_append(self, at_us: int) -> None:
        """Takes an append for a sign that this node leads."""
        # It may not have applied everywhere yet that it does not lead any more.
        if self.leads is None or self.lost_us is None or at_us - self.lost_us > APPLY_US_MAX:
            self.lead(at_us)

    def note_epoch(self, at_us: int, epoch: int) -> None:
        """Takes a FETCH of an epoch for a sign that this node leads."""
        if not self.leads and epoch > self.lost_epoch:
            self.lead(at_us)
        self.leader_epoch = max(self.leader_epoch, epoch)

    def take(self, at_us: int, kind: str, state: PartitionState) -> bool:
        """Takes a request or response of ALTER_PARTITION, or what METADATA returned."""
        self.partition.replicas = state.replicas or self.partition.replicas
        if kind == EventKind.ISR_REQUESTED:
            # Who is new in what the leader requests counts from now on.
            if state.isr is not None and self.isr is not None:
                self.partition.change_isr(self.isr, state.isr)
            return False
        if kind == EventKind.METADATA and not self._is_news(at_us, state):
            return False
        self._commit(at_us, state.isr)
        return True

    def _commit(self, at_us: int, isr: Isr | None) -> None:
        """Takes a committed ISR; None: the leader's request was refused."""
        current = self.isr
        if isr is not None and not set(self.absent) & set(isr):
            self.uncertain_us = None
            if isr != current:
                self.previous_isr, self.changed_us, current = current, at_us, isr
        self.partition.change_isr(current)

    def _is_news(self, at_us: int, state: PartitionState) -> bool:
        """Tells whether METADATA is newer than what is known: nodes may return an old state."""
        if not state.isr:
            return False
        if self.uncertain_us is not None:
            return at_us - self.uncertain_us > STALE_US
        if self.isr is None:
            return True
        epoch = state.leader_epoch
        is_old = epoch is not None and epoch < self.leader_epoch
        return state.is_active and not is_old and at_us - self.changed_us > STALE_US

    def name_leader(self, at_us: int, state: PartitionState) -> None:
        """Takes the leader that METADATA names, if it does."""
        epoch = state.leader_epoch or 0
        if state.leader_id is None:
            return
        self.leader_id = state.leader_id
        if state.leader_id == self.partition.leader_id:
            if not self.leads and epoch > self.lost_epoch:
                self.lead(at_us)
        elif self.leads and epoch > self.leader_epoch >= 0:
            self._lose(at_us, Loss.LEADER_BEFORE)
        elif self.leads is None:
            self.leads = False
        self.leader_epoch = max(self.leader_epoch, epoch)

    def take_out(self, at_us: int, broker_id: int, inactive: frozenset[int]) -> bool:
        """Takes out a broker that a controller fenced or lets stop; the last of an ISR stays."""
        isr, own_id = self.isr or (), self.partition.leader_id
        has_heir = set(isr) - {own_id} - inactive
        if broker_id == own_id and self.leads and has_heir:
            self._lose(at_us, Loss.LEADER)
        self._succeed(broker_id)
        if broker_id in isr and len(isr) > 1:
            self._commit(at_us, tuple(member for member in isr if member != broker_id))
        return True

    def _succeed(self, broker_id: int) -> None:
        """Follows a leader that is gone: another one of the ISR leads now, maybe this node."""
        if self.leader_id == broker_id != self.partition.leader_id:
            self.leader_id = None
            self.may_lead(0)

    def may_lead(self, _: int) -> bool:
        """Leaves open whether a node that did not lead does by now."""
        if self.leads is False:
            self.leads = None
        return False

    def forget_isr(self, at_us: int) -> bool:
        """Forgets the ISR: it may be another one by now."""
        self.uncertain_us = at_us
        self.partition.change_isr(None)
        return self.forget_waiting(at_us)

    def forget_waiting(self, _: int) -> bool:
        """Gives up what waits: it may have been completed otherwise."""
        self.loss = Loss.UNCERTAIN
        return True

    def depends_on(self, broker_id: int) -> bool:
        """Tells whether it matters that a broker may have stopped."""
        partition = self.partition
        members = (partition.followers, partition.isr or (), self.previous_isr or ())
        return any(broker_id in ids for ids in members) or self.leader_id == broker_id

    def may_add(self, broker_id: int) -> bool:
        """Tells whether a broker that fetches may be in the ISR by now."""
        isr = self.isr or ()
        return bool(isr) and broker_id not in isr and len(isr) != self.partition.replicas

    def miss(self, at_us: int, follower: int) -> bool:
        """Notes that a follower is absent, maybe fenced or stopped."""
        self.absent = [*self.absent, follower]
        if follower in (self.isr or ()):
            self.forget_isr(at_us)
        self._succeed(follower)
        return self.forget_waiting(at_us)

    def find(self, _: int, follower: int) -> bool:
        """Notes that a follower that was absent is back."""
        self.absent = [broker_id for broker_id in self.absent if broker_id != follower]
        return False

    def hold(self, at_us: int, broker_id: int) -> bool:
        """Allows for a broker that was taken out before it stopped, and an heir that is none."""
        if broker_id == self.partition.leader_id:
            self.forget_isr(at_us)
        elif broker_id in (self.isr or ()):
            self.forget_waiting(at_us)
        return True


#: What happens to many partitions at once: a function of the partition and the time.
Change = Callable[[KnownPartition, int], bool]


class MinIsrConfig(msgspec.Struct):
    """min.insync.replicas of topics, and the brokers' default without a name, where it is known.

    ``stated``: by the manifest, as long as no line says otherwise. ``values``: None is the default.
    """

    stated: dict[str, int]
    values: dict[str, int | None] = {}
    #: Topics of which it was set, or deleted.
    assigned: set[str] = set()

    def take(self, event: LeaderEvent) -> None:
        """Takes what was set, deleted or described; described without a value is the default."""
        name = event.name or ""
        value = int(event.value) if event.value and event.value.isdigit() else None
        # What describes a topic that was set may be older than what was set.
        if event.operation == "describe" and name in self.assigned:
            return
        if self.stated.get(name) != value:
            self.stated.pop(name, None)
        self.values.pop(name, None)
        self.assigned.discard(name)
        if event.operation != PENDING and (name or value is not None):
            self.values[name] = value
            self.assigned |= set() if event.operation == "describe" else {name} - {""}

    def forget(self) -> None:
        """Forgets what lines state: it may be another one by now."""
        self.values, self.assigned = {}, set()

    def of(self, topic: str) -> int | None:
        """Returns the value in force for a topic, None if it is not known."""
        value = self.values.get(topic, self.stated.get(topic, 0))
        return (value or None) if value is not None else self.values.get("", self.stated.get(""))

"""How far the log shows a partition's leader, ISR and min.insync.replicas.

``model.partition`` is the partition at its leader, and takes the ISR for known. Here is where that
comes from: lines that state it (METADATA, ALTER_PARTITION), lines that imply it (an append, a FETCH
with a leader epoch, a broker that was fenced), and gaps behind which it may be another one.
"""

from enum import StrEnum

import msgspec

from ..log_gaps import LOG_GAP
from ..model.partition import Isr, Partition, has_enough_in_sync
from .events import DESCRIBE, PENDING, EventKind, LeaderEvent, ListedPartition

#: From when a node learns of a commit until all its partitions apply it: most on a cold broker.
APPLY_US_MAX = 200_000
#: METADATA that contradicts what is known counts if that is older: nodes may return an old state.
STALE_US = 2_000_000


class Role(StrEnum):
    """Tells whether this node leads a partition, as far as the log shows."""

    UNKNOWN = "unknown"
    LEADER = "leader"
    FOLLOWER = "follower"


class Loss(StrEnum):
    """Names why batches that wait are not followed any more.

    All but ``LEADER``, which is an error of the response, are reasons why this is unknown.
    """

    LEADER = "this node does not lead any more"
    #: METADATA shows it, later.
    LEADER_BEFORE = "the leader was lost meanwhile, and the log does not tell when"
    #: What acknowledgements depend on from then on.
    HIDDEN = LOG_GAP
    CONTRADICTED = "a follower's offset goes back: it contradicts the FETCH before"
    FENCED_WHEN = "a broker was fenced meanwhile, and the log leaves open which append did it"


class KnownPartition(msgspec.Struct, array_like=True):
    """A partition as far as the log shows it; ``model`` is as this node would lead it.

    ``previous_isr``: the one before the last change, at ``changed_us``. ``uncertain_us``: since
    when the ISR may be another one behind a gap; None: it is not. ``lost_epoch``: the leader epoch
    of the lead that this node lost, at ``lost_us``. ``loss``: what a change means for the batches
    that wait, until ``MinIsrAcks`` has applied it to them.

    Whatever changes it, acknowledgements may follow.
    """

    model: Partition
    role: Role = Role.UNKNOWN
    previous_isr: Isr | None = None
    changed_us: int = 0
    uncertain_us: int | None = None
    leader_id: int | None = None
    leader_epoch: int = -1
    lost_epoch: int = -2
    lost_us: int | None = None
    loss: Loss | None = None

    @property
    def isr(self) -> Isr | None:
        return self.model.isr

    def isr_at_append(self, min_isr: int | None, *, is_taken: bool) -> Isr | None:
        """Returns the ISR under which the leader appended or refused a batch with acks=all.

        Where it took one (``is_taken``), its ISR was large enough, whatever was committed: it had
        not applied yet what made the ISR too small.
        """
        isr = self.isr
        if not is_taken or isr is None or min_isr is None:
            return isr
        return isr if has_enough_in_sync(len(isr), min_isr) else self.previous_isr

    # --- who leads

    def _lead(self, at_us: int) -> None:
        self.role = Role.LEADER
        self.model.lead(at_us)

    def _lose(self, at_us: int, loss: Loss) -> None:
        """Ends this node's lead: what waits gets NOT_LEADER_OR_FOLLOWER."""
        self.role, self.loss = Role.FOLLOWER, loss
        self.lost_epoch, self.lost_us = self.leader_epoch, at_us

    def note_append(self, at_us: int) -> None:
        """Infers from an append that this node leads.

        An append soon after it lost the lead shows nothing: it may not have applied the loss yet.
        """
        if self.role is Role.LEADER:
            return
        is_open = self.role is Role.UNKNOWN or self.lost_us is None
        if is_open or at_us - (self.lost_us or 0) > APPLY_US_MAX:
            self._lead(at_us)

    def note_epoch(self, at_us: int, epoch: int) -> None:
        """Infers from a FETCH with a leader epoch that this node leads with it."""
        if self.role is not Role.LEADER and epoch > self.lost_epoch:
            self._lead(at_us)
        if epoch > self.leader_epoch:
            self.leader_epoch = epoch

    def note_leader(self, at_us: int, stated: ListedPartition) -> None:
        """Notes the leader that METADATA names, if it names one."""
        if stated.leader_id is None:
            return
        epoch = stated.leader_epoch or 0
        self.leader_id = stated.leader_id
        if stated.leader_id == self.model.leader_id:
            if self.role is not Role.LEADER and epoch > self.lost_epoch:
                self._lead(at_us)
        elif self.role is Role.LEADER and epoch > self.leader_epoch >= 0:
            self._lose(at_us, Loss.LEADER_BEFORE)
        elif self.role is Role.UNKNOWN:
            self.role = Role.FOLLOWER
        self.leader_epoch = max(self.leader_epoch, epoch)

    def _succeed(self, broker_id: int) -> None:
        """Allows for another leader, maybe this node, where the one that led is gone."""
        if self.leader_id == broker_id != self.model.leader_id:
            self.leader_id = None
            self.may_lead(0)

    def may_lead(self, _: int) -> None:
        """Leaves open whether a node that did not lead does by now."""
        if self.role is Role.FOLLOWER:
            self.role = Role.UNKNOWN

    # --- who is in sync

    def note_state(
        self, at_us: int, kind: str, stated: ListedPartition, *, is_active: bool
    ) -> bool:
        """Notes what ALTER_PARTITION requested or returned, or METADATA of an active broker.

        Returns whether that changed what is known.
        """
        isr = None if stated.isr is None else tuple(sorted({*stated.isr}))
        replicas = len({*(stated.replicas or ())})
        if replicas and replicas != self.model.replicas:
            self.model.configure(self.model.min_isrs, replicas)
        if kind == EventKind.ISR_REQUESTED:
            # From now on the high watermark waits for those that the leader wants to add.
            if isr is not None and self.isr is not None:
                self.model.change_isr(self.isr, isr)
            return False
        if kind == EventKind.METADATA and not (isr and self._is_news(at_us, stated, is_active)):
            return False
        self._commit(at_us, isr)
        return True

    def _commit(self, at_us: int, isr: Isr | None) -> None:
        """Notes a committed ISR; None: the leader's request was refused, and the last one stays."""
        current = self.isr
        if isr is not None:
            self.uncertain_us = None
            if isr != current:
                self.previous_isr, self.changed_us, current = current, at_us, isr
        self.model.change_isr(current)

    def _is_news(self, at_us: int, stated: ListedPartition, is_active: bool) -> bool:
        """Tells whether METADATA is newer than what is known: nodes may return an old state."""
        if self.uncertain_us is not None:
            return at_us - self.uncertain_us > STALE_US
        if self.isr is None:
            return True
        epoch = stated.leader_epoch
        is_old = epoch is not None and epoch < self.leader_epoch
        return is_active and not is_old and at_us - self.changed_us > STALE_US

    def take_out(self, at_us: int, broker_id: int, inactive: frozenset[int]) -> None:
        """Removes a broker that a controller fenced or lets stop; the last of an ISR stays in it.

        This node loses the lead only to another one of the ISR that may lead: not ``inactive``.
        """
        isr, own_id = self.isr or (), self.model.leader_id
        has_heir = set(isr) - {own_id} - inactive
        if broker_id == own_id and self.role is Role.LEADER and has_heir:
            self._lose(at_us, Loss.LEADER)
        self._succeed(broker_id)
        if broker_id in isr and len(isr) > 1:
            self._commit(at_us, tuple(member for member in isr if member != broker_id))

    # --- what gaps leave open

    def forget_isr(self, at_us: int) -> None:
        """Forgets the ISR: it may be another one by now."""
        self.uncertain_us = at_us
        self.model.change_isr(None)
        self.forget_waiting(at_us)

    def forget_waiting(self, _: int, loss: Loss = Loss.HIDDEN) -> None:
        """Gives up what waits: it may have been completed otherwise."""
        self.loss = loss

    def depends_on(self, broker_id: int) -> bool:
        """Tells whether it matters that a broker may have stopped."""
        members = (self.model.followers, self.isr or (), self.previous_isr or ())
        return any(broker_id in ids for ids in members) or self.leader_id == broker_id

    def may_add(self, broker_id: int) -> bool:
        """Tells whether a broker that fetches may be in the ISR by now."""
        isr = self.isr or ()
        return bool(isr) and broker_id not in isr and len(isr) != self.model.replicas

    def miss(self, at_us: int, follower: int) -> None:
        """Allows for a follower that is absent, maybe fenced or stopped."""
        if follower in (self.isr or ()):
            self.forget_isr(at_us)
        self._succeed(follower)
        self.forget_waiting(at_us)

    def allow_for_stop(self, at_us: int, broker_id: int) -> None:
        """Allows for a broker that left the ISR, or lost its heir in it, unseen before it stopped.

        Where it is this node, who is in the ISR and leads next is open.
        """
        if broker_id == self.model.leader_id:
            self.forget_isr(at_us)
        elif broker_id in (self.isr or ()):
            self.forget_waiting(at_us)


class MinIsrConfig(msgspec.Struct):
    """min.insync.replicas of topics, and the brokers' default without a name, where it is known.

    ``stated``: by the manifest, as long as no line says otherwise. ``values``: None is the default.
    """

    stated: dict[str, int]
    values: dict[str, int | None] = {}
    #: Topics of which it was set, or deleted.
    assigned: set[str] = set()

    def note(self, event: LeaderEvent) -> None:
        """Notes what was set, deleted or described; described without a value is the default."""
        name = event.name
        value = int(event.value) if event.value and event.value.isdigit() else None
        # A description may be older than the value that was set.
        if event.operation == DESCRIBE and name in self.assigned:
            return
        if self.stated.get(name) != value:
            self.stated.pop(name, None)
        self.values.pop(name, None)
        self.assigned.discard(name)
        if event.operation != PENDING and (name or value is not None):
            self.values[name] = value
            self.assigned |= set() if event.operation == DESCRIBE else {name} - {""}

    def forget(self) -> None:
        """Forgets what lines state: values may have changed by now."""
        self.values, self.assigned = {}, set()

    def in_force(self, topic: str) -> int | None:
        """Returns the value in force for a topic, None if it is not known."""
        if topic not in self.values:
            return self.stated.get(topic)
        value = self.values[topic]
        return self.values.get("", self.stated.get("")) if value is None else value

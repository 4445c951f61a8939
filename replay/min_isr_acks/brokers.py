"""Which brokers count, as one leader sees it: unfenced, stopping, fenced, and since when.

A controller that fences a broker or lets it stop takes it out of every ISR by itself, and only
heartbeats show it: a broker that wants to shut down is taken out after its first such heartbeat;
one that falls silent is fenced by the first scan after its session (``BrokerHeartbeatManager``,
``ReplicationControlManager.maybeFenceOneStaleBroker``). The leader acts on it when it has *applied*
the metadata records, with a high watermark above them. Its own FETCHes of the metadata log show it:

* what they brought: the append in the window of a scan that holds a record for the broker and one
  for each of its partitions is the fencing;
* which high watermark they carried, and that the leader sent its next FETCH: it has the response.

Where it can fail: two large appends in the window of one scan (the first is taken; where the second
comes, what waited since the first is unknown), a session timeout that is not Kafka's default, no
controller's log (then a change counts from when the controller responded, and a fencing is not
seen at all).
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from ..model.brokers import SCAN_INTERVAL_US, SESSION_TIMEOUT_US, BrokerControlState, next_state
from .constants import COMMIT_SLACK_US, FENCING_RECORDS_MIN, RESPONSES_KEPT_US, SCAN_SLACK_US
from .events import SILENCE, LeaderEvent


class Applied(NamedTuple):
    """A broker's state, and since when the leader knows it.

    None: what was taken for its fencing since then may have been something else.
    """

    at_us: int
    broker_id: int
    state: BrokerControlState | None


class MetadataResponse(NamedTuple):
    """A response with records of the metadata log, from ``start`` up to ``end``, exclusive."""

    built_us: int
    start: int
    end: int
    high_watermark: int


class _Change(msgspec.Struct):
    """A change that the leader has not applied yet.

    Either the controller's response to a heartbeat, built at ``after_us``, states it: it was
    committed by then. Or it is a *fencing*, by a scan between ``after_us`` and ``until_us`` of
    which only the append of its records shows; ``offset`` is the end of that, None until found.
    """

    state: BrokerControlState
    broker_id: int
    epoch: int
    after_us: int
    until_us: int | None = None
    offset: int | None = None

    @property
    def is_fencing(self) -> bool:
        return self.until_us is not None

    def may_come_at(self, at_us: int) -> bool:
        """Tells whether the window of a fencing is not over at a time."""
        return self.until_us is not None and at_us <= self.until_us


class BrokerStates(msgspec.Struct):
    """Brokers' states as one node knows them. Fed in order of time.

    ``states`` and ``epochs``: as the node has applied them. ``decided``: what the controller made
    of a broker last, applied or not, and of which epoch. ``pending``: what is between the two.
    ``fetch``: the node's last FETCH of the metadata log, whose response it may not have yet;
    ``responses``: those that it has. ``fencings``: those applied whose window is not over, and
    when.
    """

    states: dict[int, BrokerControlState] = {}
    epochs: dict[int, int] = {}
    decided: dict[int, tuple[BrokerControlState, int]] = {}
    pending: list[_Change] = []
    responses: list[MetadataResponse] = []
    fetch: LeaderEvent | None = None
    fencings: list[tuple[_Change, int]] = []

    def is_active(self, broker_id: int) -> bool:
        """Tells whether the controller may make it a leader: nothing else was decided."""
        decided = self.decided.get(broker_id)
        return decided is None or decided[0] is BrokerControlState.UNFENCED

    def may_join(self, broker_id: int, epoch: int | None) -> bool:
        """Tells whether the controller would let a broker into an ISR (``isReplicaIsrEligible``).

        It must be unfenced and not stopping, and fetch with its current epoch. A broker without a
        heartbeat in the log counts as unfenced, because it fetches.
        """
        state = self.states.get(broker_id, BrokerControlState.UNFENCED)
        if state is not BrokerControlState.UNFENCED:
            return False
        return epoch is None or self.epochs.get(broker_id, epoch) == epoch

    def heartbeat(self, event: LeaderEvent) -> list[Applied]:
        """Notes what a heartbeat's response states, and the fencing that a silence leads to."""
        assert event.built_us is not None
        broker_id, epoch, stops = event.replica_id, event.replica_epoch, event.want_shut_down
        # A broker that stops at once is fenced in the response; out of the ISR it is either way.
        state = next_state(want_shut_down=stops, is_fenced=event.is_fenced and not stops)
        may_be_fenced = any(p.broker_id == broker_id and p.is_fencing for p in self.pending)
        if self.decided.get(broker_id) != (state, epoch) or may_be_fenced:
            self.decided[broker_id] = (state, epoch)
            self.pending.append(_Change(state, broker_id, epoch, event.built_us))
        if event.operation == SILENCE and state is BrokerControlState.UNFENCED:
            due_us = event.dequeued_us + SESSION_TIMEOUT_US
            until_us = due_us + SCAN_INTERVAL_US + SCAN_SLACK_US
            fenced = BrokerControlState.FENCED
            self.pending.append(_Change(fenced, broker_id, epoch, due_us, until_us))
        if self.fetch:
            return []
        # No responses with the metadata log are known: a change counts from its response on.
        changes = [change for change in self.pending if not change.is_fencing]
        self.pending = [change for change in self.pending if change.is_fencing]
        return [self._take(change, change.after_us) for change in changes]

    def miss(self, broker_id: int) -> None:
        """Supposes that a broker was fenced that is absent while lines are missing.

        So it may not join ISRs until a heartbeat comes. If it was not fenced it still is in its
        ISRs: its leaders take it out only if it was not caught up for long.
        """
        self.states[broker_id] = BrokerControlState.FENCED
        self.decided.pop(broker_id, None)

    def metadata_fetch(
        self, event: LeaderEvent, partitions_with: Callable[[int], int]
    ) -> list[Applied]:
        """Notes that this node fetches the metadata log again: it has the previous response.

        Returns the changes that it applies with it. ``partitions_with(broker)`` counts partitions
        with the broker in their ISR.
        """
        fetch, self.fetch = self.fetch, event
        if fetch is None or fetch.built_us is None or event.fetch_offset < 0:
            return []
        start, end = fetch.fetch_offset, event.fetch_offset
        response = MetadataResponse(fetch.built_us, start, end, fetch.high_watermark)
        ambiguous = self._find_fencings(response, partitions_with)
        self.responses.append(response)
        if response.built_us - self.responses[0].built_us > 2 * RESPONSES_KEPT_US:
            oldest_us = response.built_us - RESPONSES_KEPT_US
            self.responses = [kept for kept in self.responses if kept.built_us > oldest_us]
        return [*ambiguous, *self._apply(response, event.at_us)]

    def committed_after(self, after_us: int) -> bool:
        """Tells whether the node has a response with a commit after a time (controller's clock)."""
        if not self.responses:
            return self.fetch is None
        return self._shows(self.responses[-1], after_us)

    def _shows(self, response: MetadataResponse, after_us: int) -> bool:
        """Tells whether a response has a commit that no response before a time has."""
        since_us = after_us - COMMIT_SLACK_US
        if response.built_us < since_us:
            return False
        before = [kept.high_watermark for kept in self.responses if kept.built_us < since_us]
        return response.high_watermark > max(before, default=-1)

    def _find_fencings(
        self, response: MetadataResponse, partitions_with: Callable[[int], int]
    ) -> list[Applied]:
        """Finds fencings in a response: an append in their window that is large enough.

        A second append as large within the window may have been the fencing, too.
        """

        def may_fence(broker_id: int) -> bool:
            least = max(FENCING_RECORDS_MIN, 1 + partitions_with(broker_id))
            return response.end - response.start >= least

        built_us, before_us = response.built_us, 0
        if self.responses:
            before_us = self.responses[-1].built_us
        self.fencings = [entry for entry in self.fencings if entry[0].may_come_at(built_us)]
        for change in self.pending:
            if not change.is_fencing or change.offset is not None:
                continue
            in_window = change.after_us <= built_us and change.may_come_at(built_us)
            # A node that slept through the window learns of all at once.
            slept = before_us < change.after_us <= built_us
            if (in_window or slept) and may_fence(change.broker_id):
                change.offset = response.end
                self.decided[change.broker_id] = (BrokerControlState.FENCED, change.epoch)
        return [
            Applied(since_us, change.broker_id, None)
            for change, since_us in self.fencings
            if may_fence(change.broker_id)
        ]

    def _apply(self, response: MetadataResponse, at_us: int) -> list[Applied]:
        """Applies what a response shows to be committed; forgets fencings that did not come."""
        applied: list[Applied] = []
        pending: list[_Change] = []
        for change in self.pending:
            in_window = change.may_come_at(response.built_us)
            if change.offset is not None:
                is_due = response.high_watermark >= change.offset
            else:
                is_due = not change.is_fencing and self._shows(response, change.after_us)
            if is_due:
                if in_window:
                    self.fencings.append((change, response.built_us))
                applied.append(self._take(change, at_us))
            elif not change.is_fencing or change.offset is not None or in_window:
                pending.append(change)
        self.pending = pending
        return applied

    def _take(self, change: _Change, at_us: int) -> Applied:
        self.states[change.broker_id] = change.state
        self.epochs[change.broker_id] = change.epoch
        return Applied(at_us, change.broker_id, change.state)

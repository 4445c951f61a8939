"""The leader and its producers under another rule: what each PRODUCE would wait if all react.

A broker reads one request at a time of a connection: behind a response that comes late the next
PRODUCE waits in the socket, and all that one high watermark releases arrive together. Under another
rule they arrive when they were sent. A PRODUCE that came more than ``OWN_US`` after the response
before it was sent then; another was sent at some time between the arrival and the response of the
one before. ``Sent`` is which time of these a loop takes.

Given by the log are when producers send, how long handlers take, and each follower's cycle
(``follower_cycles``). What follows are the FETCHes: one that finds nothing new is parked until an
append (``DelayedFetch``), at most max.wait. So a batch is acknowledged by a follower one or two
cycles after its append, and its producer gets its response when all followers of the ISR have it
(acks=all), or as many as make min.insync.replicas with the leader (KIP-926, "Proposed Changes").
"""

import heapq
from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple

import msgspec

from .follower_cycles import LOOKAHEAD_US, Cycles

#: A PRODUCE that comes so long after the response before it waited for none.
OWN_US = 20_000
#: A wait so long follows from the ISR and not from when FETCHes come: it ends as the replay of the
#: request alone does.
LONG_WAIT_US = 1_000_000
#: Where in the handler of a PRODUCE a parked FETCH gets its response: the median of 8 leaders'
#: logs, each between 0.65 and 0.75.
WOKEN_AT = 0.7
#: replica.fetch.wait.max.ms: how long a follower's FETCH is parked.
MAX_WAIT_US = 500_000

# Kinds of event; of two at one time the lower number comes first.
_NOTED, _HANDLED, _APPENDED, _RESPONDED, _OVERDUE, _ARRIVED, _LOOKED_FOR = range(7)


class Sent(IntEnum):
    """When a PRODUCE that did not come on its own was sent, within the time that the log allows."""

    EARLIEST = 0
    ESTIMATE = 1
    LATEST = 2


class Alone(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The response to a PRODUCE as it arrived, under one rule; as recorded where that is unknown.

    ``after_ack_us``: from the last acknowledgement to it, where consumers get theirs first
    (``consumers``).
    """

    latency_us: int
    error: int | None
    after_ack_us: int = 0


class Recorded(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A PRODUCE of the log. Times are microseconds, ``number`` its place in the leader's log.

    ``previous_received_us`` and ``previous_built_us`` are of its connection's previous PRODUCE.
    """

    number: int
    request_id: str
    client_id: str | None
    connection: str
    acks: int
    received_us: int
    dequeued_us: int
    built_us: int | None
    previous_received_us: int
    previous_built_us: int | None
    handling_us: int
    is_own: bool
    partitions: int


class Produce(Recorded, array_like=True, frozen=True, gc=False):
    """A PRODUCE and what is known of it as it arrived.

    ``groups``: of each partition the followers in its ISR, and how many of them acks=-2 waits for.
    ``is_appended``: the leader took it, and its ISR is known.
    """

    is_appended: bool
    groups: list[tuple[tuple[int, ...], int]]
    acks_all: Alone
    acks_min_isr: Alone
    reason: str | None

    def ready_us(self, sent: Sent) -> int:
        """When its producer sent it, whatever was before it in the socket."""
        if self.is_own or sent is Sent.LATEST:
            return self.received_us
        span_us = max(self.received_us - self.previous_received_us, 0)
        if self.previous_built_us is not None:
            span_us = min(span_us, max(self.previous_built_us - self.previous_received_us, 0))
        # Spread evenly and the same in every run: multiples of the golden ratio.
        share = 0.0 if sent is Sent.EARLIEST else self.number * 2_654_435_769 % 2**32 / 2**32
        return self.previous_received_us + int(span_us * share)

    @property
    def turnaround_us(self) -> int:
        """From the response before it until it arrived, if it waited for that."""
        if self.is_own or self.previous_built_us is None:
            return 0
        return max(self.received_us - self.previous_built_us, 0)


class Response(NamedTuple):
    """A PRODUCE in the other cluster: when it arrived and when its response was built."""

    arrived_us: int
    built_us: int
    error: int | None


class _Running(msgspec.Struct, array_like=True, gc=False):
    """A PRODUCE in the other cluster, and the groups of acknowledgements that it waits for."""

    arrived_us: int
    handled_us: int = -1
    groups: list[int] = []


class _Follower(msgspec.Struct, array_like=True):
    """A follower in the other cluster.

    ``parked_us``: since when its FETCH is parked, -1 if none is. ``is_behind``: something was
    appended since the last response, which carried everything up to ``carried``. ``unacked``:
    (append, group) that it has not acknowledged.
    """

    parked_us: int = -1
    is_behind: bool = False
    carried: int = 0
    unacked: list[tuple[int, int]] = []


class ClosedLoop(msgspec.Struct, array_like=True):
    """One leader whose producers react, under one rule and one reading of when they sent.

    ``events`` is a heap of (time, kind, number or follower). Of connections: ``queued`` are the
    PRODUCEs behind the one that is under way, absent if none is; ``free_us`` is when the last
    response was built, absent if that is too long ago to matter. ``groups`` are acknowledgements
    still missing and the PRODUCE that they are of.
    """

    waits_for_all: bool
    sent: Sent
    events: list[tuple[int, int, int]] = []
    produces: dict[int, Produce] = {}
    queued: dict[str, list[int]] = {}
    free_us: dict[str, int] = {}
    running: dict[int, _Running] = {}
    followers: dict[int, _Follower] = {}
    groups: dict[int, list[int]] = {}
    appends: int = 0
    last_group: int = 0

    def add_follower(self, replica_id: int, noted_us: int) -> None:
        self.followers[replica_id] = _Follower()
        heapq.heappush(self.events, (noted_us, _HANDLED, replica_id))

    def add(self, produce: Produce) -> None:
        """The next PRODUCE of the log; PRODUCEs of one connection come in their order."""
        self.produces[produce.number] = produce
        queued = self.queued.get(produce.connection)
        if queued is None:
            self.queued[produce.connection] = []
            self._send(produce)
        else:
            queued.append(produce.number)

    def advance(self, cycles: Mapping[int, Cycles], until_us: int) -> dict[int, Response]:
        """Everything that happens before a time: responses by number of the PRODUCE."""
        responses: dict[int, Response] = {}
        events = self.events
        while events and events[0][0] < until_us:
            at_us, kind, number = heapq.heappop(events)
            if kind == _NOTED:
                self._noted(number, at_us, responses)
            elif kind == _HANDLED:
                self._handled(number, at_us, cycles)
            elif kind == _APPENDED:
                self._appended(number, at_us, cycles, responses)
            elif kind == _ARRIVED:
                self._arrived(number, at_us)
            elif kind == _LOOKED_FOR:
                self._travel(number, at_us, cycles)
            elif number in self.running:
                if kind == _OVERDUE:
                    self._overdue(number, at_us)
                else:
                    alone = self._alone(self.produces[number])
                    self._respond(number, at_us, alone.error, responses)
        # Whatever is sent from now on arrives later than that by itself.
        free_us = self.free_us.items()
        self.free_us = {name: us for name, us in free_us if us + OWN_US >= until_us}
        return responses

    def _send(self, produce: Produce) -> None:
        ready_us = produce.ready_us(self.sent)
        free_us = self.free_us.get(produce.connection)
        if free_us is not None:
            ready_us = max(ready_us, free_us + produce.turnaround_us)
        heapq.heappush(self.events, (ready_us, _ARRIVED, produce.number))

    def _arrived(self, number: int, at_us: int) -> None:
        produce = self.produces[number]
        if produce.is_appended:
            self.running[number] = _Running(at_us, at_us + produce.handling_us)
            woken_us = at_us + int(produce.handling_us * WOKEN_AT)
            heapq.heappush(self.events, (woken_us, _APPENDED, number))
        else:
            self.running[number] = _Running(at_us)
            latency_us = self._alone(produce).latency_us
            heapq.heappush(self.events, (at_us + latency_us, _RESPONDED, number))

    def _alone(self, produce: Produce) -> Alone:
        return produce.acks_all if self.waits_for_all else produce.acks_min_isr

    def _overdue(self, number: int, at_us: int) -> None:
        """A long wait: respond as to the PRODUCE alone, now or when that is."""
        produce = self.produces[number]
        since_us = max(self.running[number].arrived_us, produce.received_us)
        later_us = max(since_us + self._alone(produce).latency_us, at_us)
        heapq.heappush(self.events, (later_us, _RESPONDED, number))

    def _respond(
        self, number: int, at_us: int, error: int | None, responses: dict[int, Response]
    ) -> None:
        running, produce = self.running.pop(number), self.produces.pop(number)
        for group in running.groups:
            del self.groups[group]
        built_us = max(at_us, running.handled_us)
        responses[number] = Response(running.arrived_us, built_us, error)
        connection = produce.connection
        self.free_us[connection] = built_us
        queued = self.queued[connection]
        if queued:
            self._send(self.produces[queued.pop(0)])
        else:
            del self.queued[connection]

    def _appended(
        self, number: int, at_us: int, cycles: Mapping[int, Cycles], responses: dict[int, Response]
    ) -> None:
        produce, running = self.produces[number], self.running[number]
        self.appends += 1
        waits = produce.acks not in (0, 1)
        for replicas, min_isr_followers in produce.groups:
            missing = len(replicas) if self.waits_for_all else min_isr_followers
            if waits and missing > 0:
                self.last_group += 1
                self.groups[self.last_group] = [missing, number]
                running.groups.append(self.last_group)
            for replica_id in replicas:
                follower = self.followers.get(replica_id)
                if follower is None:
                    continue
                if waits and missing > 0:
                    follower.unacked.append((self.appends, self.last_group))
                self._wake(replica_id, follower, at_us, cycles)
        if running.groups:
            heapq.heappush(self.events, (at_us + LONG_WAIT_US, _OVERDUE, number))
        else:
            self._respond(number, at_us, 0, responses)

    def _wake(
        self, replica_id: int, follower: _Follower, at_us: int, cycles: Mapping[int, Cycles]
    ) -> None:
        """Something was appended: a parked FETCH gets its response."""
        parked_us = follower.parked_us
        follower.is_behind = True
        if parked_us < 0:
            return
        cycle = cycles[replica_id].after(parked_us)
        round_us = MAX_WAIT_US + (0 if cycle is None else cycle.handled_us - parked_us)
        since_us = (at_us - parked_us) % round_us
        if since_us < MAX_WAIT_US:
            self._respond_to(replica_id, at_us, cycles)
        else:
            # It got an empty response after max.wait, and its next FETCH is on its way.
            follower.parked_us = -1
            heapq.heappush(self.events, (at_us + round_us - since_us, _HANDLED, replica_id))

    def _respond_to(self, replica_id: int, at_us: int, cycles: Mapping[int, Cycles]) -> None:
        """A response with everything appended so far, and when the follower is back."""
        follower = self.followers[replica_id]
        follower.parked_us, follower.is_behind, follower.carried = -1, False, self.appends
        self._travel(replica_id, at_us, cycles)

    def _travel(self, replica_id: int, at_us: int, cycles: Mapping[int, Cycles]) -> None:
        cycle = cycles[replica_id].after(at_us)
        if cycle is None:
            # Often enough to see the end of a long pause before it is over.
            later_us = at_us + LOOKAHEAD_US // 10
            heapq.heappush(self.events, (later_us, _LOOKED_FOR, replica_id))
            return
        heapq.heappush(self.events, (cycle.noted_us, _NOTED, replica_id))
        heapq.heappush(self.events, (cycle.handled_us, _HANDLED, replica_id))

    def _noted(self, replica_id: int, at_us: int, responses: dict[int, Response]) -> None:
        """A FETCH: the follower has all that the last response carried."""
        follower = self.followers[replica_id]
        acked = 0
        for append, group in follower.unacked:
            if append > follower.carried:
                break
            acked += 1
            self._ack(group, at_us, responses)
        del follower.unacked[:acked]

    def _handled(self, replica_id: int, at_us: int, cycles: Mapping[int, Cycles]) -> None:
        """Its handler is done: there is something to send, or it is parked."""
        follower = self.followers[replica_id]
        if follower.is_behind:
            self._respond_to(replica_id, at_us, cycles)
        else:
            follower.parked_us = at_us

    def _ack(self, group: int, at_us: int, responses: dict[int, Response]) -> None:
        missing = self.groups.get(group)
        if missing is None:
            return
        missing[0] -= 1
        if missing[0]:
            return
        del self.groups[group]
        running = self.running[missing[1]]
        running.groups.remove(group)
        if running.groups:
            return
        after_us = self._alone(self.produces[missing[1]]).after_ack_us
        if after_us:
            heapq.heappush(self.events, (at_us + after_us, _RESPONDED, missing[1]))
        else:
            self._respond(missing[1], at_us, 0, responses)

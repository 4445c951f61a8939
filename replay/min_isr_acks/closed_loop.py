"""The leader and its producers under another rule: what each PRODUCE would wait if all react.

A broker reads one request at a time of a connection: behind a response that comes late the next
PRODUCE waits in the socket, and all that one high watermark releases arrive together. Under another
rule they arrive when they were sent. A PRODUCE that came more than ``OWN_US`` after the response
before it came *on its own*: it was sent then. Any other was *held back*: it was sent at some time
between the sending of the PRODUCE before it and the response to that. ``SendTime`` says which time
of these a loop takes.

A loop takes from the log when producers send, how long handlers take, and each follower's distance
and work (``follower_cycles``). It computes when followers fetch: a FETCH that finds nothing new is
parked until an append (``DelayedFetch``), at most max.wait. So a batch is acknowledged by a
follower one or two cycles after its append.
"""

from bisect import bisect_right
from collections.abc import Mapping
from enum import StrEnum
from operator import itemgetter

import msgspec

from ..model.partition import REPLICA_FETCH_WAIT_MAX_US, Acks, offset_of_enough
from ..simulation import EventQueue
from .events import LeaderEvent
from .follower_cycles import LOOKAHEAD_US, Cycles

#: A PRODUCE that comes so long after the response before it waited for none.
OWN_US = 20_000
#: A wait this long follows from the ISR and not from when FETCHes come: it ends when it does in the
#: replay of the request alone.
LONG_WAIT_US = 1_000_000
#: Where between a PRODUCE's arrival and the end of its handler a parked FETCH gets its response: of
#: followers' FETCHes that got records while a single PRODUCE was handled, the FETCH's built_at less
#: the PRODUCE's received_at, over its handled_at less that. Medians of 13 leaders' logs of Kafka
#: 4.0 and 4.1 are 0.63 to 0.80, theirs is 0.71.
WOKEN_AT = 0.7

# Kinds of event; at one time the lower number comes first. A follower's FETCH is noted, a PRODUCE
# appended or responded to, waits get long, a follower in a pause is looked for again.
_NOTED, _APPENDED, _RESPONDED, _OVERDUE, _LOOKED_FOR = range(5)

#: Followers, and how many of them must have a batch.
Group = tuple[tuple[int, ...], int]


class SendTime(StrEnum):
    """When a PRODUCE that did not come on its own was sent, within the time that the log allows."""

    EARLIEST = "earliest"
    ESTIMATE = "estimate"
    LATEST = "latest"


class Waits(msgspec.Struct, array_like=True, gc=False):
    """The groups that a PRODUCE waits for under one kind of acks, one for each partition.

    ``latency_us`` and ``error`` are of the response to it as it arrived, as recorded where that is
    unknown. ``after_ack_us``: from the last acknowledgement to the response, where consumers get
    theirs first (``Consumers``).
    """

    latency_us: int = 0
    error: int | None = None
    after_ack_us: int = 0
    groups: list[Group] = []


class Produce(msgspec.Struct, array_like=True, gc=False):
    """A PRODUCE of the log, and what is known of it as it arrived.

    ``number`` is its place in the leader's log, ``previous`` and ``next`` (0: none) are those of
    its connection. ``handling_us``: how long its handler takes on its own, and held back.
    ``turnaround_us``: from the response before it until it arrived, if it was held back.
    ``is_appended``: the leader took it, and its ISR is known. ``append_us``: from its arrival to
    an append after the handler, else 0. ``left``: loops in which it has no response yet.
    """

    number: int
    event: LeaderEvent
    received_us: int
    sent_us: dict[SendTime, int]
    previous: int = 0
    is_own: bool = True
    turnaround_us: int = 0
    handling_us: tuple[int, int] = (0, 0)
    reason: str | None = None
    is_appended: bool = False
    append_us: int = 0
    followers: tuple[int, ...] = ()
    waits: dict[Acks, Waits] = {}
    next: int = 0
    left: int = len(Acks) * len(SendTime)
    is_emitted: bool = False

    @property
    def waits_for_replicas(self) -> bool:
        return self.event.acks not in (0, 1)


class Run(msgspec.Struct, array_like=True, gc=False):
    """A PRODUCE in one loop. ``missing``: groups that do not have it yet."""

    arrived_us: int
    handled_us: int
    is_held_back: bool
    missing: int = 0
    built_us: int | None = None
    error: int | None = None

    @property
    def wait_us(self) -> int | None:
        return None if self.built_us is None else self.built_us - self.arrived_us


class LoopFollower(msgspec.Struct, array_like=True, gc=False):
    """A follower in one loop: its cycle, and since when its FETCH is parked (None: it is not).

    ``is_behind``: something was appended since the last response, which carried everything up to
    the append ``carried``; it has what the one before carried, up to ``acked``.
    """

    noted_us: int
    handled_us: int
    begun_us: int = 0
    in_burst: bool = True
    parked_us: int | None = None
    is_behind: bool = False
    carried: int = 0
    acked: int = 0


class LoopState(msgspec.Struct, array_like=True):
    """All that a loop carries.

    ``events`` are of a PRODUCE's number or a follower. ``runs`` are those that were sent, by
    number. ``waiting``: by group, the appends that it does not have yet, and their PRODUCEs.
    ``due``: when waits get long, and the PRODUCEs. ``held_back_us``: when the last two PRODUCEs
    that were held back are handled: their burst lasts until the earlier one.
    """

    acks: Acks
    sent: SendTime
    events: EventQueue[int] = msgspec.field(default_factory=EventQueue)
    runs: dict[int, Run] = {}
    followers: dict[int, LoopFollower] = {}
    waiting: dict[Group, list[tuple[int, int]]] = {}
    due: list[tuple[int, int]] = []
    appends: int = 0
    held_back_us: tuple[int, int] = (-1, -1)


class ProducerLoop:
    """One leader whose producers react, under one kind of acks, with one time of sending.

    ``produces`` and ``cycles`` of the log are the same objects for all loops, and grow with it.
    """

    def __init__(
        self, produces: Mapping[int, Produce], cycles: Mapping[int, Cycles], state: LoopState
    ) -> None:
        self._produces, self._cycles, self._state = produces, cycles, state

    def add_follower(self, replica_id: int, noted_us: int) -> None:
        self._state.followers[replica_id] = LoopFollower(noted_us, noted_us)
        self._state.events.push(noted_us, _NOTED, replica_id)

    def add(self, produce: Produce) -> None:
        """Adds the next PRODUCE of the log; it is sent once its connection is free."""
        if produce.previous not in self._produces:
            self._send(produce, None)
        elif (free_us := self.built_us(produce.previous)) is not None:
            self._send(produce, free_us)

    def built_us(self, number: int) -> int | None:
        """Returns when a PRODUCE gets its response; None: not yet."""
        run = self._state.runs.get(number)
        return None if run is None else run.built_us

    def advance(self, until_us: int) -> None:
        """Handles all events before a time, also those that they cause up to then."""
        state, produces, acks = self._state, self._produces, self._state.acks
        followers = state.followers
        # Of a PRODUCE that was responded to and emitted nobody waits for the rest.
        for waiting in state.waiting.values():
            waiting[:] = [entry for entry in waiting if entry[1] in produces]
        for at_us, kind, number in state.events.until(until_us - 1):
            if kind == _NOTED:
                # A FETCH: the follower has all that the last response carried.
                follower = followers[number]
                if follower.noted_us != at_us:
                    continue  # A burst has delayed it.
                follower.acked = follower.carried
                for group, waiting in state.waiting.items():
                    if waiting and waiting[0][0] <= follower.acked and number in group[0]:
                        self._acknowledge(group, waiting, at_us)
                # There is something to send once its handler is done, or it is parked.
                if follower.is_behind:
                    self._respond_to(number, follower, follower.handled_us)
                else:
                    follower.parked_us = follower.handled_us
            elif kind == _APPENDED:
                self._append(produces[number], state.runs[number], at_us)
            elif kind == _RESPONDED:
                if number in produces and (run := state.runs[number]).built_us is None:
                    self._respond(number, run, at_us, produces[number].waits[acks].error)
            elif kind == _OVERDUE:
                self._overdue(at_us)
            else:
                self._travel(number, followers[number], at_us, in_burst=True)

    def _send(self, produce: Produce, free_us: int | None) -> None:
        """Lets it arrive when it was sent, but not before its connection is free."""
        state, at_us, is_held_back = self._state, produce.sent_us[self._state.sent], False
        if free_us is not None:
            free_again_us = free_us + produce.turnaround_us
            at_us = at_us if at_us > free_again_us else free_again_us
            is_held_back = at_us <= free_us + OWN_US
        run = state.runs[produce.number] = Run(at_us, at_us, is_held_back)
        if produce.is_appended:
            handling_us = produce.handling_us[is_held_back]
            run.handled_us += handling_us
            appended_us = at_us + (produce.append_us or int(handling_us * WOKEN_AT))
            state.events.push(appended_us, _APPENDED, produce.number)
        else:
            built_us = at_us + produce.waits[state.acks].latency_us
            state.events.push(built_us, _RESPONDED, produce.number)

    def _append(self, produce: Produce, run: Run, at_us: int) -> None:
        state = self._state
        state.appends += 1
        if run.is_held_back:
            state.held_back_us = (state.held_back_us[1], run.handled_us)
            self._delay(min(state.held_back_us), at_us)
        for replica_id in produce.followers:
            follower = state.followers.get(replica_id)
            if follower is None:
                continue
            if follower.parked_us is None:
                follower.is_behind = True
            else:
                self._wake(replica_id, follower, follower.parked_us, at_us)
        groups = produce.waits[state.acks].groups
        if not groups:
            self._respond(produce.number, run, at_us, 0)
            return
        run.missing = len(groups)
        for group in groups:
            state.waiting.setdefault(group, []).append((state.appends, produce.number))
        if not state.due:
            state.events.push(at_us + LONG_WAIT_US, _OVERDUE, 0)
        state.due.append((at_us + LONG_WAIT_US, produce.number))

    def _respond(self, number: int, run: Run, at_us: int, error: int | None) -> None:
        run.built_us, run.error = at_us if at_us > run.handled_us else run.handled_us, error
        produce = self._produces[number]
        produce.left -= 1
        if produce.next:
            self._send(self._produces[produce.next], run.built_us)

    def _overdue(self, at_us: int) -> None:
        """Ends long waits when they end in the replay of the PRODUCE alone, but not before now."""
        state, over = self._state, 0
        for due_us, number in state.due:
            produce = self._produces.get(number)
            if produce is not None and (run := state.runs[number]).built_us is None:
                if due_us > at_us:
                    state.events.push(due_us, _OVERDUE, 0)
                    break
                since_us = max(run.arrived_us, produce.received_us)
                later_us = max(since_us + produce.waits[state.acks].latency_us, at_us)
                state.events.push(later_us, _RESPONDED, number)
            over += 1
        del state.due[:over]

    def _delay(self, burst_us: int, at_us: int) -> None:
        """Draws the cycles of followers that are on their way anew, as in a burst."""
        for replica_id, follower in self._state.followers.items():
            is_on_its_way = not follower.in_burst and follower.parked_us is None
            if is_on_its_way and burst_us >= follower.begun_us:
                self._travel(replica_id, follower, at_us, in_burst=True)

    def _wake(self, replica_id: int, follower: LoopFollower, parked_us: int, at_us: int) -> None:
        """Responds to a parked FETCH, for something was appended."""
        follower.parked_us = None
        if at_us - parked_us >= REPLICA_FETCH_WAIT_MAX_US:
            drawn = self._cycles[replica_id].after(parked_us, in_burst=False)
            round_us = REPLICA_FETCH_WAIT_MAX_US + (0 if drawn is None else drawn[1] - parked_us)
            since_us = (at_us - parked_us) % round_us
            if since_us >= REPLICA_FETCH_WAIT_MAX_US:
                # It got an empty response after max.wait, and its next FETCH is on its way.
                follower.is_behind = follower.in_burst = True
                follower.noted_us = follower.handled_us = at_us + round_us - since_us
                self._state.events.push(follower.noted_us, _NOTED, replica_id)
                return
        self._respond_to(replica_id, follower, max(at_us, parked_us))

    def _respond_to(self, replica_id: int, follower: LoopFollower, at_us: int) -> None:
        """Responds with everything appended so far, and draws when the follower is back."""
        follower.is_behind, follower.carried, follower.begun_us = False, self._state.appends, at_us
        in_burst = min(self._state.held_back_us) >= at_us
        self._travel(replica_id, follower, at_us, in_burst=in_burst)

    def _travel(
        self, replica_id: int, follower: LoopFollower, at_us: int, *, in_burst: bool
    ) -> None:
        follower.in_burst = in_burst
        drawn = self._cycles[replica_id].after(follower.begun_us, in_burst=in_burst)
        if drawn is None:
            # Often enough to see the end of a long pause before it is over.
            follower.begun_us = at_us + LOOKAHEAD_US // 10
            self._state.events.push(follower.begun_us, _LOOKED_FOR, replica_id)
        else:
            follower.noted_us = max(drawn[0], at_us)
            follower.handled_us = follower.noted_us + drawn[1] - drawn[0]
            self._state.events.push(follower.noted_us, _NOTED, replica_id)

    def _acknowledge(self, group: Group, waiting: list[tuple[int, int]], at_us: int) -> None:
        """Responds to PRODUCEs that enough followers of a group have."""
        state, (replicas, needed) = self._state, group
        followers = state.followers
        acked = [followers[replica].acked for replica in replicas if replica in followers]
        reached = bisect_right(waiting, offset_of_enough(acked, needed), key=itemgetter(0))
        acknowledged, waiting[:reached] = waiting[:reached], []
        for _, number in acknowledged:
            run = state.runs[number]
            run.missing -= 1
            if run.missing or run.built_us is not None:
                continue
            if after_us := self._produces[number].waits[state.acks].after_ack_us:
                state.events.push(at_us + after_us, _RESPONDED, number)
            else:
                self._respond(number, run, at_us, 0)

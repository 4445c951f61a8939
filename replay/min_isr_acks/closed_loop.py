"""The leader and its producers under another rule: what each PRODUCE would wait if all react.

A broker reads one request at a time of a connection: behind a response that comes late the next
PRODUCE waits in the socket, and all that one high watermark releases arrive together. Under another
rule they arrive when they were sent. A PRODUCE that came more than ``OWN_US`` after the response
before it was sent then; another, held back, was sent at some time since the one before was sent and
before that got its response. ``Sent`` is which time of these a loop takes.

Given by the log are when producers send, how long handlers take, and each follower's distance and
work (``follower_cycles``). What follows are the FETCHes: one that finds nothing new is parked until
an append (``DelayedFetch``), at most max.wait. So a batch is acknowledged by a follower one or two
cycles after its append.
"""

from collections.abc import Mapping, Sequence
from enum import IntEnum
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

from .follower_cycles import LOOKAHEAD_US, Cycles
from .kip_926 import Partition, Requirement

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
_NOTED, _APPENDED, _RESPONDED, _OVERDUE, _LOOKED_FOR = range(5)

#: The leader in an ISR: no follower has this id.
_LEADER = -1
#: Followers, and how many of them must have a batch.
Group = tuple[tuple[int, ...], int]


class Sent(IntEnum):
    """When a PRODUCE that did not come on its own was sent, within the time that the log allows."""

    EARLIEST = 0
    ESTIMATE = 1
    LATEST = 2


#: Every loop: whether it waits for min.insync.replicas only, and when its producers sent.
LOOPS = [(is_min_isr, sent) for is_min_isr in (False, True) for sent in Sent]


class Alone(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The response to a PRODUCE as it arrived, under one rule; as recorded where that is unknown.

    ``after_ack_us``: from the last acknowledgement to it, where consumers get theirs first
    (``consumers``).
    """

    latency_us: int
    error: int | None
    after_ack_us: int = 0


class Run(msgspec.Struct, array_like=True, gc=False):
    """A PRODUCE in one loop (-1: not yet). ``missing``: groups that do not have it yet."""

    arrived_us: int = -1
    handled_us: int = -1
    is_held_back: bool = False
    missing: int = 0
    built_us: int = -1
    error: int | None = None


class Logged(NamedTuple):
    """A PRODUCE, or the FETCH of a follower, as the log has it; ``partitions``: how many."""

    at_us: int
    request_id: str
    received_us: int
    dequeued_us: int
    handled_us: int
    built_us: int | None
    replica_id: int | None
    client_id: str | None
    acks: int
    connection: str
    partitions: int | None


class Produce(msgspec.Struct, array_like=True, gc=False):
    """A PRODUCE of the log, what is known of it as it arrived, and its run in each loop.

    ``number`` is its place in the leader's log, ``previous`` and ``next`` (0: none) are those of
    its connection. ``sent_us`` is by ``Sent``, ``handling_us`` on its own and held back,
    ``turnaround_us`` from the response before it until it arrived, if it waited for that.
    ``is_appended``: the leader took it, and its ISR is known. ``append_us``: from its arrival to
    its append where that is after the handler, else 0. ``groups`` (places in the list of all) and
    ``alone`` are with acks=all and with acks=min.insync.replicas. ``left``: loops that it has no
    response in.
    """

    line: Logged
    number: int
    received_us: int
    sent_us: tuple[int, int, int]
    previous: int = 0
    is_own: bool = True
    turnaround_us: int = 0
    handling_us: tuple[int, int] = (0, 0)
    reason: str | None = None
    is_appended: bool = False
    append_us: int = 0
    followers: tuple[int, ...] = ()
    groups: tuple[list[int], list[int]] = ([], [])
    alone: tuple[Alone, Alone] = (Alone(0, None), Alone(0, None))
    next: int = 0
    left: int = len(LOOPS)
    is_emitted: bool = False
    runs: list[Run] = msgspec.field(default_factory=lambda: [Run() for _ in LOOPS])

    @property
    def waits(self) -> bool:
        return self.line.acks not in (0, 1)


class Follower(msgspec.Struct, array_like=True, gc=False):
    """A follower in one loop: its cycle, and since when its FETCH is parked (-1: it is not).

    ``is_behind``: something was appended since the last response, which carried everything up to
    the append ``carried``; it has what the one before carried, up to ``acked``.
    """

    noted_us: int
    handled_us: int
    begun_us: int = 0
    in_burst: bool = True
    parked_us: int = -1
    is_behind: bool = False
    carried: int = 0
    acked: int = 0


class LoopState(msgspec.Struct, array_like=True):
    """All that a loop carries beside the runs of PRODUCEs.

    ``events`` is a heap of (time, kind, number or follower). ``partitions``: one for each group;
    offsets are the numbers of appends, since a response carries all of them. ``due``: when waits
    get long, and the PRODUCEs. ``held_back_us``: until when the last PRODUCEs that were held back
    are handled.
    """

    events: list[tuple[int, int, int]] = []
    followers: dict[int, Follower] = {}
    partitions: dict[int, Partition] = {}
    due: list[tuple[int, int]] = []
    appends: int = 0
    held_back_us: tuple[int, int] = (-1, -1)


class ClosedLoop:
    """One leader whose producers react, under one rule and one reading of when they sent.

    ``produces``, ``cycles`` and ``groups`` are those of the log, and grow with it.
    """

    def __init__(
        self,
        place: int,
        produces: Mapping[int, Produce],
        cycles: Mapping[int, Cycles],
        groups: Sequence[Group],
        state: LoopState,
    ) -> None:
        self._place, self._produces, self._cycles, self._state = place, produces, cycles, state
        self._groups = groups
        self._rule, self._sent = LOOPS[place]

    def add_follower(self, replica_id: int, noted_us: int) -> None:
        self._state.followers[replica_id] = Follower(noted_us, noted_us)
        heappush(self._state.events, (noted_us, _NOTED, replica_id))

    def add(self, produce: Produce, previous: Produce | None) -> None:
        """The next PRODUCE of the log, and the one before on its connection."""
        if previous is None:
            self._send(produce, -1)
        elif (free_us := previous.runs[self._place].built_us) >= 0:
            self._send(produce, free_us)

    def advance(self, until_us: int) -> None:
        """Everything that happens before a time."""
        state, produces, place, rule = self._state, self._produces, self._place, self._rule
        events, followers, due = state.events, state.followers, state.due
        partitions = state.partitions
        while events and events[0][0] < until_us:
            at_us, kind, number = heappop(events)
            if kind == _NOTED:
                # A FETCH: the follower has all that the last response carried.
                follower = followers[number]
                if follower.noted_us != at_us:
                    continue  # A burst has delayed it.
                follower.acked = follower.carried
                for partition in partitions.values():
                    waiting = partition.requirements[0].waiting
                    if waiting and waiting[0][0] <= follower.acked and number in partition.in_sync:
                        partition.fetch(number, follower.acked + 1, at_us)
                        self._acknowledge(partition, at_us)
                # There is something to send once its handler is done, or it is parked.
                if follower.is_behind:
                    self._respond_to(number, follower, follower.handled_us)
                else:
                    follower.parked_us = follower.handled_us
            elif kind == _APPENDED:
                produce = produces[number]
                run = produce.runs[place]
                state.appends += 1
                if run.is_held_back:
                    state.held_back_us = (state.held_back_us[1], run.handled_us)
                    self._delay(min(state.held_back_us), at_us)
                for replica_id in produce.followers:
                    if replica_id not in followers:
                        continue
                    follower = followers[replica_id]
                    if follower.parked_us < 0:
                        follower.is_behind = True
                    else:
                        self._wake(replica_id, follower, at_us)
                groups = produce.groups[rule]
                if not groups:
                    self._respond(produce, run, at_us, 0)
                    continue
                run.missing = len(groups)
                for group in groups:
                    partition = partitions.get(group) or self._begin(group)
                    partition.append(number, state.appends, len(partition.isr or ()))
                if not due:
                    heappush(events, (at_us + LONG_WAIT_US, _OVERDUE, 0))
                due.append((at_us + LONG_WAIT_US, number))
            elif kind == _RESPONDED:
                if number in produces and (run := produces[number].runs[place]).built_us < 0:
                    self._respond(produces[number], run, at_us, produces[number].alone[rule].error)
            elif kind == _OVERDUE:
                self._overdue(at_us)
            else:
                self._travel(number, followers[number], at_us, in_burst=True)
        for partition in partitions.values():
            partition.forget(
                {one for _, one in partition.requirements[0].waiting} - produces.keys()
            )

    def _send(self, produce: Produce, free_us: int) -> None:
        """It arrives when it was sent, but not before its connection is free."""
        run, at_us = produce.runs[self._place], produce.sent_us[self._sent]
        if free_us >= 0:
            if at_us < free_us + produce.turnaround_us:
                at_us = free_us + produce.turnaround_us
            run.is_held_back = at_us <= free_us + OWN_US
        run.arrived_us = run.handled_us = at_us
        if produce.is_appended:
            handling_us = produce.handling_us[run.is_held_back]
            run.handled_us += handling_us
            appended_us = at_us + (produce.append_us or int(handling_us * WOKEN_AT))
            heappush(self._state.events, (appended_us, _APPENDED, produce.number))
        else:
            built_us = at_us + produce.alone[self._rule].latency_us
            heappush(self._state.events, (built_us, _RESPONDED, produce.number))

    def _respond(self, produce: Produce, run: Run, at_us: int, error: int | None) -> None:
        run.built_us = at_us if at_us > run.handled_us else run.handled_us
        run.error = error
        produce.left -= 1
        if produce.next:
            self._send(self._produces[produce.next], run.built_us)

    def _overdue(self, at_us: int) -> None:
        """Long waits: respond as to the PRODUCE alone, now or when that is."""
        state, over = self._state, 0
        for due_us, number in state.due:
            produce = self._produces.get(number)
            if produce is not None and (run := produce.runs[self._place]).built_us < 0:
                if due_us > at_us:
                    heappush(state.events, (due_us, _OVERDUE, 0))
                    break
                since_us = max(run.arrived_us, produce.received_us)
                later_us = max(since_us + produce.alone[self._rule].latency_us, at_us)
                heappush(state.events, (later_us, _RESPONDED, number))
            over += 1
        del state.due[:over]

    def _delay(self, burst_us: int, at_us: int) -> None:
        """A burst: the next FETCH of followers that are on their way comes as beside one."""
        for replica_id, follower in self._state.followers.items():
            if not follower.in_burst and follower.parked_us < 0 and burst_us >= follower.begun_us:
                self._travel(replica_id, follower, at_us, in_burst=True)

    def _wake(self, replica_id: int, follower: Follower, at_us: int) -> None:
        """Something was appended: a parked FETCH gets its response."""
        parked_us, follower.parked_us = follower.parked_us, -1
        if at_us - parked_us >= MAX_WAIT_US:
            drawn = self._cycles[replica_id].after(parked_us, in_burst=False)
            round_us = MAX_WAIT_US + (0 if drawn is None else drawn[1] - parked_us)
            since_us = (at_us - parked_us) % round_us
            if since_us >= MAX_WAIT_US:
                # It got an empty response after max.wait, and its next FETCH is on its way.
                follower.is_behind = follower.in_burst = True
                follower.noted_us = follower.handled_us = at_us + round_us - since_us
                heappush(self._state.events, (follower.noted_us, _NOTED, replica_id))
                return
        self._respond_to(replica_id, follower, max(at_us, parked_us))

    def _respond_to(self, replica_id: int, follower: Follower, at_us: int) -> None:
        """A response with everything appended so far, and when the follower is back."""
        follower.is_behind, follower.carried, follower.begun_us = False, self._state.appends, at_us
        in_burst = min(self._state.held_back_us) >= at_us
        self._travel(replica_id, follower, at_us, in_burst=in_burst)

    def _travel(self, replica_id: int, follower: Follower, at_us: int, *, in_burst: bool) -> None:
        follower.in_burst = in_burst
        drawn = self._cycles[replica_id].after(follower.begun_us, in_burst=in_burst)
        if drawn is None:
            # Often enough to see the end of a long pause before it is over.
            follower.begun_us = at_us + LOOKAHEAD_US // 10
            heappush(self._state.events, (follower.begun_us, _LOOKED_FOR, replica_id))
        else:
            follower.noted_us = max(drawn[0], at_us)
            follower.handled_us = follower.noted_us + drawn[1] - drawn[0]
            heappush(self._state.events, (follower.noted_us, _NOTED, replica_id))

    def _begin(self, group: int) -> Partition:
        replicas, needed = self._groups[group]
        requirement = Requirement(not self._rule, needed + 1)
        partition = self._state.partitions[group] = Partition(_LEADER, [requirement])
        partition.change_isr((_LEADER, *replicas))
        return partition

    def _acknowledge(self, partition: Partition, at_us: int) -> None:
        """Respond to whom enough followers have."""
        produces, place = self._produces, self._place
        for number, _ in partition.acknowledge(at_us, _nobody):
            if (produce := produces.get(number)) is None:
                continue
            run = produce.runs[place]
            run.missing -= 1
            if run.missing or run.built_us >= 0:
                continue
            if after_us := produce.alone[self._rule].after_ack_us:
                heappush(self._state.events, (at_us + after_us, _RESPONDED, number))
            else:
                self._respond(produce, run, at_us, 0)


def _nobody(_: int, __: int) -> bool:
    """Who is outside an ISR stays outside."""
    return False

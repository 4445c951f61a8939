"""Holes in logs: when an ISR or min.insync.replicas may be another one than the log has.

Where lines of the active controller are missing, the leader's own log still shows a good deal:

* A member of an ISR that goes on fetching under the same epoch was neither fenced nor restarted;
  of one that is silent (``PAUSE_US``), or comes back under another epoch, it is not known.
* Who is outside the ISR joins it by an ALTER_PARTITION, but only while it fetches.
* Every change is a record of the metadata log. An idle controller appends one each
  ``metadata.max.idle.interval.ms`` (``NoOpRecord``, KIP-835): where the leader's own offset there
  rose by no more than these over a hole, nothing was changed in it.

A controller is not the active one if the leader fetched the metadata log from another one
meanwhile. A config is logged by the broker that it was sent to, too: it is lost only where a node
that is no controller has a hole at the same time.
"""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from itertools import product
from operator import itemgetter
from typing import NamedTuple, Self

import msgspec

from ..log_gaps import LogGap
from .brokers import SCAN_SLACK_US, SCAN_US, SESSION_US, Response
from .events import Event
from .kip_926 import LAG_US_MAX

#: A FETCH or PRODUCE whose line is missing may have taken effect so long before it was written.
WRITTEN_US_MAX = 1_000_000
#: A node fetches the metadata log at least so often (a FETCH waits 500 ms).
METADATA_FETCH_US_MAX = 2_000_000
#: ``metadata.max.idle.interval.ms``, and how far two of its records may be off.
IDLE_US, IDLE_SLACK_US = 500_000, 60_000
#: So long a hole at most, the number of such records in it is certain.
COUNTED_US_MAX = 20_000_000
#: So long after a heartbeat the next may decide whether its broker is fenced.
HEARTBEAT_US = SESSION_US + SCAN_US + SCAN_SLACK_US
#: How often it is looked at who fetches.
TICK_US = 1_000_000
NOBODY = -1
#: A follower fetches at least so often (``replica.fetch.wait.max.ms`` is 500). A broker that stops
#: is taken out of ISRs so long before its last FETCH at most.
PAUSE_US, STOPPING_US = 2_000_000, 2_000_000


class What(IntEnum):
    """What may have happened while lines are missing: a config was altered, another node leads ...

    or of a follower: it was silent, so it was fenced or stopped; fetches again; fetches, so it has
    joined ISRs, or may join some, since it is not known when it was caught up.
    """

    CONFIGURED = 0
    ELECTED = 1
    ABSENT = 2
    RETURNED = 5
    JOINED = 3
    JOINING = 4


class Doubted(NamedTuple):
    """What may have happened before an event since a time. ``follower``: NOBODY if to nobody."""

    what: What
    follower: int
    since_us: int


class Heard(NamedTuple):
    """A node fetched the metadata log from a controller, without a pause between two times."""

    controller: int | None
    since_us: int
    until_us: int


class Seen(msgspec.Struct):
    """What one leader's log shows: each follower's last FETCH (time, epoch) and metadata offsets.

    ``absent``: followers that are silent. ``quiet``: gaps, by their begin, in which nothing was
    written to the metadata log.
    """

    at_us: int = -1
    fetched: dict[int, tuple[int, int]] = {}
    absent: set[int] = set()
    heard: list[Heard] = []
    last: Event | None = None
    quiet: list[int] = []

    def metadata_fetch(self, event: Event) -> None:
        """Take a FETCH of the metadata log by the node."""
        last, self.last = self.last, event
        if last is None or last.built_us is None:
            self.heard.append(Heard(event.replica_id, event.at_us, event.built_us or event.at_us))
            return
        pause_us, until_us = event.at_us - last.built_us, event.built_us or event.at_us
        run = self.heard[-1]
        if run.controller == event.replica_id and pause_us <= METADATA_FETCH_US_MAX:
            self.heard[-1] = run._replace(until_us=until_us)
        else:
            self.heard = [*self.heard[-3:], Heard(event.replica_id, event.at_us, until_us)]


@dataclass(frozen=True)
class Holes:
    """The gaps that touch one leader's outcomes. Times are microseconds."""

    own: Sequence[LogGap] = ()
    of_controllers: Sequence[LogGap] = ()
    of_others: Sequence[LogGap] = ()

    @cached_property
    def _marks(self) -> list[tuple[int, What]]:
        """When a config may have been altered, or another node lead, in order."""
        pairs = product(self.of_controllers, self.of_others)
        both = ((max(a.after_us, b.after_us), min(a.before_us, b.before_us)) for a, b in pairs)
        altered = ((begin_us, What.CONFIGURED) for begin_us, end_us in both if begin_us < end_us)
        bounds = (us for gap in (*self.own, *self.of_controllers) for us in gap[1:])
        return sorted([*altered, *((us, What.ELECTED) for us in bounds)])

    @classmethod
    def of(cls, node_id: int, gaps: Sequence[LogGap], voters: Sequence[int]) -> Self:
        """Of all of a cluster, as a node sees them; ``voters`` are its controllers."""
        own = [gap for gap in gaps if gap.node_id == node_id]
        controllers = [gap for gap in gaps if gap.node_id in voters]
        # If a voter leads partitions, voters are brokers too.
        others = [gap for gap in gaps if node_id in voters or gap.node_id not in voters]
        return cls(own, controllers, others)

    def of_active(
        self, since_us: int, until_us: int, seen: Seen, now_us: int | None = None
    ) -> bool:
        """Whether the active controller's log, seen up to ``now_us``, may have a gap in a span."""
        seen_us = until_us if now_us is None else now_us
        return any(
            gap.after_us <= until_us
            and gap.before_us >= since_us
            and gap.after_us not in seen.quiet
            and not _other_was_active(gap, since_us, seen_us, seen)
            for gap in self.of_controllers
        )

    def hide_after(self, at_us: int, seen: Seen, span_us: int = HEARTBEAT_US) -> bool:
        """Whether lines of the active controller may be missing so long after a time."""
        return self.of_active(at_us, at_us + span_us, seen, at_us)

    def before(self, at_us: int, seen: Seen) -> Iterator[Doubted]:
        """What may have happened since the event before, at a time."""
        since_us, seen.at_us = seen.at_us, at_us
        first, last = (bisect_right(self._marks, us, key=itemgetter(0)) for us in (since_us, at_us))
        for us, what in sorted(self._marks[first:last], key=itemgetter(1)):
            yield Doubted(what, NOBODY, us)
        for follower, (fetched_us, _) in seen.fetched.items() if self.of_controllers else ():
            if fetched_us + PAUSE_US <= at_us and follower not in seen.absent:
                seen.absent.add(follower)
                yield Doubted(What.ABSENT, follower, fetched_us)

    def before_fetch(self, follower: int, epoch: int, at_us: int, seen: Seen) -> Iterator[Doubted]:
        """What a follower's FETCH shows in a gap, soon after it, or after its absence."""
        before_us, before_epoch = seen.fetched.get(follower, (-1, NOBODY))
        seen.fetched[follower] = at_us, epoch
        if follower in seen.absent:
            seen.absent.remove(follower)
            yield Doubted(What.RETURNED, follower, before_us)
        elif self.of_controllers and epoch >= 0 <= before_epoch != epoch:
            yield Doubted(What.ABSENT, follower, before_us)
        for what, gaps, later_us in (
            (What.JOINED, self.of_controllers, TICK_US),
            (What.JOINING, self.own, LAG_US_MAX),
        ):
            is_in, was_in = (
                any(gap.after_us <= us <= gap.before_us + later_us for gap in gaps)
                for us in (at_us, before_us)
            )
            # The first of each second.
            if is_in and (not was_in or at_us // TICK_US > before_us // TICK_US):
                yield Doubted(what, follower, at_us - TICK_US)

    def quiet_since(self, responses: Sequence[Response], seen: Seen) -> bool:
        """Whether gaps turn out to be quiet: only idle records came over them."""
        steps = [
            one
            for one in responses
            if one.end > one.start >= 0 and one.at_us - one.built_us <= IDLE_SLACK_US
        ]
        if not steps or steps[-1] is not responses[-1]:
            return False
        now, found = steps[-1], False
        for gap in self.of_controllers:
            before = [step for step in steps if step.at_us <= gap.after_us]
            if len(before) < 2 or gap.after_us in seen.quiet:
                continue
            since, period_us = before[-1], before[-1].at_us - before[-2].at_us
            span_us = now.at_us - since.at_us
            is_over = gap.before_us <= now.at_us <= gap.before_us + METADATA_FETCH_US_MAX
            is_over &= span_us <= COUNTED_US_MAX
            is_idle = since.end == since.start + 1 and abs(period_us - IDLE_US) <= IDLE_SLACK_US
            if is_over and is_idle and now.end - since.end <= round(span_us / IDLE_US):
                seen.quiet.append(gap.after_us)
                found = True
        return found


def _other_was_active(gap: LogGap, since_us: int, until_us: int, seen: Seen) -> bool:
    until_us = min(gap.before_us, until_us)
    since_us = min(max(gap.after_us, since_us), until_us)
    return any(
        run.controller not in (None, gap.node_id)
        and run.since_us <= since_us
        and run.until_us >= until_us - METADATA_FETCH_US_MAX
        for run in seen.heard
    )


NO_HOLES = Holes()

"""Gaps in the logs: which of them the replay runs into, and when it is warm again.

A gap in the log of the controller that is active, or may have become so in it, ends the replay as
the end of the log does. Behind it another one begins, as where a log begins in the middle.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from itertools import chain
from operator import attrgetter
from typing import ClassVar

import msgspec

from ..log_gaps import ALWAYS_SINCE_US, Gaps, LogGap
from ..model.brokers import FENCED_AFTER_US
from .events import API_VERSIONS, FETCH, HEARTBEAT, VOTER_SILENCE_US, ClusterEvent
from .tables import LOG_GAP, NOT_HEARD_YET

LineKey = tuple[str, int, int]
Offsets = tuple[int, int, int]
#: Lines of one sender: their epochs stay or change for good, their offsets never fall.
line_key = attrgetter("kind", "node_id", "broker_id")
_epochs = attrgetter("broker_epoch", "leader_epoch", "last_fetched_epoch")
_offsets = attrgetter("offset", "high_watermark", "response_high_watermark")


def wrong_lines(
    last: Mapping[LineKey, ClusterEvent],
    lines: Iterable[ClusterEvent],
    later: Iterable[ClusterEvent],
) -> set[str]:
    """Returns request ids of lines that those before and after of the same sender contradict.

    ``last``: the last line of each sender before these; ``later``: the lines behind these.
    """
    by_sender: dict[LineKey, list[ClusterEvent]] = {}
    for row in filter(_is_judged, chain(lines, later)):
        by_sender.setdefault(line_key(row), []).append(row)
    wrong: set[str] = set()
    for sender, rows in by_sender.items():
        before = last.get(sender)
        if before is None or not _is_judged(before):
            # What a sender has first cannot be too low.
            before = rows[0]._replace(offset=-1, high_watermark=-1, response_high_watermark=-1)
        for place, after in enumerate(rows[1:]):
            wrong |= _contradicted(before, rows[place], after)
            before = rows[place]
    return wrong


def _contradicted(before: ClusterEvent, row: ClusterEvent, after: ClusterEvent) -> set[str]:
    """Returns the id of a line if those before and after agree, and it with neither."""
    # Another process begins with what it has on disk.
    is_restarted = row.correlation_id < before.correlation_id
    low = (-1, -1, -1) if is_restarted else _offsets(before)
    is_off = _epochs(row) != _epochs(before) or _falls(low, _offsets(row), _offsets(after))
    return {row.request_id} if is_off and _epochs(before) == _epochs(after) else set()


def _is_judged(row: ClusterEvent) -> bool:
    return row.error_code == 0 and row.kind in (HEARTBEAT, FETCH, API_VERSIONS)


def _falls(before: Offsets, own: Offsets, after: Offsets) -> bool:
    """Says whether one of a line's offsets lies outside of those before and after."""
    offsets = zip(before, own, after, strict=True)
    return any(low <= high and not low <= at <= high for low, at, high in offsets)


class Contact(StrEnum):
    """How far lines show the state of a broker, behind the place where the log begins."""

    #: It may be active or fenced.
    UNHEARD = "unheard"
    #: METADATA has it in an ISR, or it has sent one heartbeat. That may have been the first in its
    #: state, whose record resets the offset that the controller has of it.
    HEARD = "heard"
    #: Its last heartbeat shows whether it counts, and with which offset.
    CERTAIN = "certain"


#: What a heartbeat makes of its broker.
BEHIND_HEARTBEAT = {
    Contact.UNHEARD: Contact.HEARD,
    Contact.HEARD: Contact.CERTAIN,
    Contact.CERTAIN: Contact.CERTAIN,
}


class Beginning(msgspec.Struct, kw_only=True, tag=True):
    """How it becomes certain which brokers are active, where a log begins in the middle.

    That is once every broker that may be active is ``CERTAIN``, or when the session of those that
    send nothing is over. ``uncertain``: the reason of outcomes until then.
    """

    uncertain: ClassVar[str]
    contacts: dict[int, Contact] = {}

    def add_broker(self, row: ClusterEvent) -> None:
        """Adds a broker of METADATA's; one that is in no ISR may have been fenced."""
        self.contacts[row.broker_id] = Contact.UNHEARD if row.is_fenced else Contact.HEARD

    def _hear(self, broker_id: int) -> None:
        before = self.contacts.get(broker_id, Contact.UNHEARD)
        self.contacts[broker_id] = BEHIND_HEARTBEAT[before]

    @property
    def _are_all_certain(self) -> bool:
        return all(contact is Contact.CERTAIN for contact in self.contacts.values())


class LogStart(Beginning):
    """Warms up from the first line: METADATA names the brokers that there were, if a line has it.

    Without such a line a broker may be active and silent until the first session timeout is over.
    """

    uncertain = NOT_HEARD_YET
    warm_from_us: int | None = None

    def heartbeat(self, at: int, broker_id: int) -> int:
        """Counts a heartbeat; returns from when on it is certain, as far as is known by now."""
        warm_us = at + FENCED_AFTER_US if self.warm_from_us is None else self.warm_from_us
        if self.contacts:
            self._hear(broker_id)
            if self._are_all_certain:
                warm_us = min(warm_us, at)
        if at >= warm_us:
            self.contacts = {}
        self.warm_from_us = warm_us
        return warm_us

    def active_brokers(self, active: Iterable[int]) -> int:
        """Counts brokers that are active, and those that were when the log began."""
        heard = (b for b, contact in self.contacts.items() if contact is Contact.HEARD)
        return len({*active, *heard})


class BehindGap(Beginning):
    """Warms up behind a gap: awaits brokers that were ``active`` before it, and all that send."""

    uncertain = LOG_GAP
    ends_us: int
    active: list[int]

    def fetch(self, broker_id: int) -> None:
        """Adds a broker that sends FETCHes, so that its heartbeats are awaited, too."""
        self.contacts.setdefault(broker_id, Contact.UNHEARD)

    def heartbeat(self, at: int, broker_id: int) -> int | None:
        """Counts a heartbeat; returns its time if it was certain before it, else None.

        Each broker that is there sends a FETCH within ``VOTER_SILENCE_US``.
        """
        is_certain = self._are_all_certain and at > self.ends_us + VOTER_SILENCE_US
        self._hear(broker_id)
        return at if is_certain or at >= self.ends_us + FENCED_AFTER_US else None

    def active_brokers(self, active: Iterable[int]) -> int:
        """Counts brokers that are active, or as many as were before the gap."""
        return max(len([*active]), len(self.active))


class Leadership(StrEnum):
    """How sure it is which controller is active (changes: ``ActiveController.follow``)."""

    #: No controller has responded yet.
    UNSEEN = "unseen"
    #: It has responded, and no other one can have become active unseen.
    ACTIVE = "active"
    #: Since its last response another one may have become active in a gap of that one's log.
    SILENT = "silent"


class ActiveController(msgspec.Struct):
    """The active controller: since when, and when it last responded without error."""

    leadership: Leadership = Leadership.UNSEEN
    node_id: int = -1
    since_us: int = ALWAYS_SINCE_US
    last_us: int = ALWAYS_SINCE_US

    def follow(
        self, row: ClusterEvent, at: int, gaps: Gaps, voters: Iterable[int]
    ) -> LogGap | None:
        """Moves on by a line that happened at a time; returns the gap that the replay runs into.

        A gap in its own log is one, and so is a time in which a voter whose log has a gap may have
        been active: before another controller responds, or while all are silent.
        """
        responds = row.kind in (HEARTBEAT, FETCH) and row.error_code == 0
        gap = gaps.last(self.node_id, self.since_us, at)
        if gap is not None:
            gap = gap._replace(after_us=max(gap.after_us, self.last_us))
            self.since_us = gap.before_us
        elif responds and row.node_id != self.node_id:
            # Nobody was active before, if a replica begins with nothing.
            is_unseen = self.leadership is Leadership.UNSEEN
            is_first = is_unseen and row.kind == FETCH and row.offset == 0
            maybe_active = [row.node_id] if is_first else voters
            is_hidden = any(gaps.touch(voter, self.last_us, at) for voter in maybe_active)
            own_gap = gaps.last(row.node_id, self.last_us, at)
            self.node_id, self.since_us = row.node_id, max(at, own_gap.before_us if own_gap else at)
            gap = LogGap(row.node_id, self.last_us, self.since_us) if is_hidden else None
        elif self.leadership is Leadership.ACTIVE:
            heard_us = max(self.last_us, self.since_us)
            is_silent = at > heard_us + VOTER_SILENCE_US
            if is_silent and any(gaps.touch(voter, heard_us, at) for voter in voters):
                self.leadership = Leadership.SILENT
                gap = LogGap(self.node_id, self.last_us, at)
        if responds:
            self.leadership, self.last_us = Leadership.ACTIVE, max(self.last_us, at)
        return gap

"""Gaps in the logs: which of them the replay runs into, and when it is warm again.

A gap in the log of the controller that is active, or may have become so in it, ends the replay as
the end of the log does. Behind it another one begins, as where a log begins in the middle.
"""

from collections.abc import Iterable, Mapping
from itertools import chain
from operator import attrgetter

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


class Beginning(msgspec.Struct):
    """How it becomes certain which brokers are active, where a log begins in the middle.

    That is once no heartbeat is ``awaited`` of any broker that may be active, or when the session
    of those that send nothing is over. At the log's beginning METADATA names the brokers that there
    were, if a line has it. Behind a gap (which ``gap_ends_us``) those that were ``active`` before
    it are awaited, and all that send.
    """

    #: By broker: 2 where it may be active or fenced; 1 behind its first heartbeat, which may have
    #: been the first in its state, whose record resets the offset that the controller has of it,
    #: and where METADATA has it in an ISR; 0 where its last heartbeat shows whether it counts.
    awaited: dict[int, int] = {}
    gap_ends_us: int | None = None
    active: list[int] = []
    warm_from_us: int | None = None

    @property
    def uncertain(self) -> str:
        """Returns the reason of outcomes until it is certain."""
        return NOT_HEARD_YET if self.gap_ends_us is None else LOG_GAP

    def add_broker(self, row: ClusterEvent) -> None:
        """Adds a broker of METADATA's; one that is in no ISR may have been fenced."""
        self.awaited[row.broker_id] = 2 if row.is_fenced else 1

    def fetch(self, broker_id: int) -> None:
        """Adds a broker that sends FETCHes behind a gap, so that its heartbeats are awaited."""
        if self.gap_ends_us is not None:
            self.awaited.setdefault(broker_id, 2)

    def heartbeat(self, at: int, broker_id: int) -> int | None:
        """Counts a heartbeat; returns from when on it is certain, as far as is known by now."""
        was_certain = not any(self.awaited.values())
        if self.awaited or self.gap_ends_us is not None:
            self.awaited[broker_id] = max(0, self.awaited.get(broker_id, 2) - 1)
        if self.gap_ends_us is not None:
            # Each broker that is there sends a FETCH within ``VOTER_SILENCE_US``.
            is_certain = was_certain and at > self.gap_ends_us + VOTER_SILENCE_US
            return at if is_certain or at >= self.gap_ends_us + FENCED_AFTER_US else None
        if self.warm_from_us is None:
            self.warm_from_us = at + FENCED_AFTER_US
        if self.awaited and not any(self.awaited.values()):
            self.warm_from_us = min(self.warm_from_us, at)
        if at >= self.warm_from_us:
            self.awaited = {}
        return self.warm_from_us

    def active_brokers(self, active: Iterable[int]) -> int:
        """Counts brokers that are active, and those that were before the log or the gap."""
        if self.gap_ends_us is not None:
            return max(len([*active]), len(self.active))
        return len({*active, *(broker for broker, count in self.awaited.items() if count == 1)})


class ActiveController(msgspec.Struct):
    """The active controller (-1: none has responded yet), and when it last did without error.

    ``is_silent``: since then another one may have become active in a gap of that one's log.
    """

    node_id: int = -1
    is_silent: bool = False
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
        own_gap, gap = gaps.last_begun(self.node_id, at), None
        if own_gap is not None and own_gap.before_us > self.since_us:
            gap = own_gap._replace(after_us=max(own_gap.after_us, self.last_us))
            self.since_us = own_gap.before_us
        elif responds and row.node_id != self.node_id:
            # Nobody was active before, if a replica begins with nothing.
            is_first = self.node_id < 0 and row.kind == FETCH and row.offset == 0
            maybe_active = [row.node_id] if is_first else voters
            hiding = _gaps_between(gaps, maybe_active, self.last_us, at)
            ends_us = (gap.before_us for gap in hiding if gap.node_id == row.node_id)
            self.node_id, self.since_us = row.node_id, max((at, *ends_us))
            gap = LogGap(row.node_id, self.last_us, self.since_us) if hiding else None
        elif self.node_id >= 0 and not self.is_silent:
            heard_us = max(self.last_us, self.since_us)
            is_late = at > heard_us + VOTER_SILENCE_US
            if is_late and _gaps_between(gaps, voters, heard_us, at):
                self.is_silent = True
                gap = LogGap(self.node_id, self.last_us, at)
        if responds:
            self.is_silent, self.last_us = False, max(self.last_us, at)
        return gap


def _gaps_between(gaps: Gaps, voters: Iterable[int], since_us: int, until_us: int) -> list[LogGap]:
    """Returns the gaps in a span in which one of these may have been active unseen."""
    return [
        gap
        for voter in voters
        for gap in gaps.in_log(voter)
        if gap.after_us < until_us and since_us < gap.before_us
    ]

"""Holes in the logs: which of them the replay runs into, and what it knows behind one.

Behind one it is certain which brokers count sooner than where a log begins, since those that
counted are known, and who else runs FETCHes. A broker's second heartbeat settles what is held of
it: the first may be its first in its state.
"""

from collections.abc import Iterable, Mapping
from operator import attrgetter

import msgspec

from ..log_gaps import ALWAYS_SINCE_US, ALWAYS_UNTIL_US, LogGap, gaps_of, last_begun
from .events import API_VERSIONS, FETCH, HEARTBEAT, WRITE, Event
from .writes import VOTER_SILENCE_US

#: Heartbeats of a broker that settle what the controller holds of it.
SETTLING_HEARTBEATS = 2
Sender = tuple[str, int, int]
Offsets = tuple[int, int, int]
#: Who wrote a line, what stays, or changes for good, and what never falls in lines of one sender.
sender_of = attrgetter("kind", "node_id", "broker_id")
_epochs = attrgetter("broker_epoch", "leader_epoch", "last_fetched_epoch")
_offsets = attrgetter("offset", "high_watermark", "response_high_watermark")


def wrong_lines(
    last: Mapping[Sender, Event], lines: Iterable[Event], later: Iterable[Event]
) -> set[str]:
    """Request ids of lines that those before and after of the same sender contradict.

    ``last``: the last line of each sender before these; ``later``: the lines behind these.
    """
    of_sender: dict[Sender, list[Event]] = {}
    for row in filter(_is_judged, lines):
        if (sender := sender_of(row)) not in of_sender:
            before = last.get(sender)
            if before is None or not _is_judged(before):
                # Nothing is below what stands before the first.
                before = row._replace(offset=-1, high_watermark=-1, response_high_watermark=-1)
            of_sender[sender] = [before]
        of_sender[sender].append(row)
    wrong, open_ended = set(), dict(of_sender)
    for row in filter(_is_judged, later):
        if not open_ended:
            break
        open_ended.pop(sender_of(row), []).append(row)
    for rows in of_sender.values():
        epochs, offsets = (list(map(of, rows)) for of in (_epochs, _offsets))
        for at in range(1, len(rows) - 1):
            is_new = epochs[at] != epochs[at - 1]
            low = offsets[at - 1]
            if rows[at].correlation_id < rows[at - 1].correlation_id:
                low = (-1, -1, -1)  # of another process, which begins with what it has on disk
            if epochs[at - 1] == epochs[at + 1] and (is_new or _falls(low, *offsets[at : at + 2])):
                wrong.add(rows[at].request_id)
    return wrong


def _is_judged(row: Event) -> bool:
    return row.error_code == 0 and row.kind in (HEARTBEAT, FETCH, API_VERSIONS)


def _falls(before: Offsets, own: Offsets, after: Offsets) -> bool:
    """Of one of the offsets, a line's own lies outside of those before and after."""
    for low, at, high in zip(before, own, after, strict=True):
        if not low <= at <= high and low <= high:
            return True
    return False


class Active(msgspec.Struct):
    """The active controller: since when, and when it last responded without error.

    ``is_silent``: since then another may have become active unseen.
    """

    node_id: int = -1
    since_us: int = ALWAYS_SINCE_US
    last_us: int = ALWAYS_SINCE_US
    is_silent: bool = False


class Settling(msgspec.Struct):
    """Behind a hole that ends at a time: brokers to be heard, and the heartbeats of each since."""

    since_us: int
    expected: list[int]
    heard: dict[int, int] = {}

    def is_over(self, brokers: Iterable[int]) -> bool:
        return all(
            self.heard.get(broker_id, 0) >= SETTLING_HEARTBEATS
            for broker_id in {*self.expected, *brokers}
        )

    def heartbeat(self, broker_id: int) -> None:
        self.heard[broker_id] = self.heard.get(broker_id, 0) + 1


class Holes:
    """Those of each node's log; ``voters`` may be active controllers."""

    def __init__(self, gaps: Iterable[LogGap], voters: Iterable[int] = ()) -> None:
        known = tuple(gaps)
        self._of = {gap.node_id: gaps_of(gap.node_id, known) for gap in known}
        self._voters = {voter: self._of[voter] for voter in voters if voter in self._of}

    def entered(self, active: Active, happened: int, row: Event) -> LogGap | None:
        """The hole that the replay runs into with a line, if it does; keeps ``active``."""
        responds = row.kind in (HEARTBEAT, FETCH) and row.error_code == 0
        own = last_begun(self._of.get(active.node_id, ()), happened)
        hole, since = None, active.last_us
        if own is not None and own.before_us > active.since_us:
            hole, active.since_us = own._replace(after_us=max(own.after_us, since)), own.before_us
        elif responds and row.node_id != active.node_id:
            # Nobody was active before, if a replica begins with nothing.
            is_first = active.node_id < 0 and row.kind == FETCH and row.offset == 0
            ends_us = self._hidden_until(row.node_id, since, happened, only=is_first)
            if ends_us is not None:
                hole = LogGap(row.node_id, since, ends_us)
            active.node_id, active.since_us = row.node_id, ends_us or happened
        elif happened > max(since, active.since_us) + VOTER_SILENCE_US and not active.is_silent:
            known = max(since, active.since_us)
            active.is_silent = self._hidden_until(row.node_id, known, happened) is not None
            if active.is_silent and active.node_id >= 0:
                hole = LogGap(active.node_id, since, happened)
        if responds:
            active.last_us, active.is_silent = max(since, happened), False
        return hole

    def _hidden_until(
        self, node_id: int, since: int, until: int, *, only: bool = False
    ) -> int | None:
        """Until when a controller (``only``: this one) may have been active in a span unseen."""
        voters = {node_id: self._of.get(node_id, [])} if only else self._voters
        holes = [hole for each in voters.values() for hole in each]
        hidden = [hole for hole in holes if hole.after_us < until and since < hole.before_us]
        own = (hole.before_us for hole in hidden if hole.node_id == node_id)
        return max((until, *own)) if hidden else None

    def is_lost(self, row: Event) -> bool:
        """A controller's line is in a hole: it stands beside lines that are missing."""
        if row.kind not in (HEARTBEAT, FETCH, WRITE) or row.error_code != 0:
            return False
        hole = last_begun(self._of.get(row.node_id, ()), row.at_us)
        return hole is not None and row.at_us < hole.before_us

    def overlap(self, node_id: int, since_us: int, until_us: int | None) -> bool:
        """Lines of a node may be missing in a span."""
        until = ALWAYS_UNTIL_US if until_us is None else until_us
        return any(
            gap.after_us < until and since_us < gap.before_us for gap in self._of.get(node_id, ())
        )

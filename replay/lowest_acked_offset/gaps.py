"""Gaps in the logs: which of them the replay runs into, and when it is warm again.

A gap in the log of the controller that is active, or may have become so in it, ends the replay as
the end of the log does. Behind it another one begins, as where a log begins in the middle.
"""

from collections.abc import Iterable, Mapping
from operator import attrgetter

import msgspec

from ..log_gaps import ALWAYS_SINCE_US, ALWAYS_UNTIL_US, Gaps, LogGap
from ..model.brokers import FENCED_AFTER_US
from .events import API_VERSIONS, FETCH, HEARTBEAT, WRITE, Event
from .writes import VOTER_SILENCE_US

Sender = tuple[str, int, int]
Offsets = tuple[int, int, int]
#: Who wrote a line, what stays, or changes for good, and what never falls in lines of one sender.
sender_of = attrgetter("kind", "node_id", "broker_id")
_epochs = attrgetter("broker_epoch", "leader_epoch", "last_fetched_epoch")
_offsets = attrgetter("offset", "high_watermark", "response_high_watermark")


def wrong_lines(
    last: Mapping[Sender, Event], lines: Iterable[Event], later: Iterable[Event]
) -> set[str]:
    """Returns request ids of lines that those before and after of the same sender contradict.

    ``last``: the last line of each sender before these; ``later``: the lines behind these.
    """
    of_sender: dict[Sender, list[Event]] = {}
    for row in filter(_is_judged, lines):
        if (sender := sender_of(row)) not in of_sender:
            before = last.get(sender)
            if before is None or not _is_judged(before):
                # Nothing is below what is before the first.
                before = row._replace(offset=-1, high_watermark=-1, response_high_watermark=-1)
            of_sender[sender] = [before]
        of_sender[sender].append(row)
    wrong, open_ended = set(), dict(of_sender)
    for row in filter(_is_judged, later):
        if not open_ended:
            break
        open_ended.pop(sender_of(row), []).append(row)
    for rows in of_sender.values():
        for before, row, after in zip(rows, rows[1:], rows[2:], strict=False):
            # Another process begins with what it has on disk.
            is_restarted = row.correlation_id < before.correlation_id
            low = (-1, -1, -1) if is_restarted else _offsets(before)
            if _epochs(before) == _epochs(after) and (
                _epochs(row) != _epochs(before) or _falls(low, _offsets(row), _offsets(after))
            ):
                wrong.add(row.request_id)
    return wrong


def _is_judged(row: Event) -> bool:
    return row.error_code == 0 and row.kind in (HEARTBEAT, FETCH, API_VERSIONS)


def _falls(before: Offsets, own: Offsets, after: Offsets) -> bool:
    """Says whether one of a line's offsets lies outside of those before and after."""
    offsets = zip(before, own, after, strict=True)
    return any(low <= high and not low <= at <= high for low, at, high in offsets)


class WarmUp(msgspec.Struct):
    """How many heartbeats show which brokers are active, where a log begins in the middle.

    It is certain when each that may be active has sent as many as are ``missing``, else when the
    session of one that never does is over. A broker's second heartbeat shows what it is: the first
    may be its first in its state. Before the log (``since_us``: its first heartbeat) METADATA names
    them, if anything does (else ``missing`` is None); behind a gap (``since_us``: its end) they are
    those that were active before it (``active``), and whoever sends anything.
    """

    since_us: int | None = None
    missing: dict[int, int] | None = None
    is_gap: bool = False
    active: list[int] = []

    def hold(self, row: Event) -> None:
        """Takes a broker that there was before the log."""
        self.missing = {**(self.missing or {}), row.broker_id: 2 if row.is_fenced else 1}

    def heartbeat(self, at: int, broker_id: int, running: Iterable[int]) -> int | None:
        """Counts a heartbeat; returns from when on it is certain, as far as is known by now."""
        if self.since_us is None:
            self.since_us = at
        warm_us, missing = self.since_us + FENCED_AFTER_US, self.missing or {}
        if self.missing is not None:
            self.missing = {**missing, broker_id: missing.get(broker_id, 2) - 1}
        if self.is_gap:
            # This heartbeat does not count yet.
            is_over = max({**dict.fromkeys(running, 2), **missing}.values(), default=0) <= 0
            is_over = is_over and at > self.since_us + VOTER_SILENCE_US
            return at if is_over or at >= warm_us else None
        if self.missing is not None and max(self.missing.values()) <= 0 and at < warm_us:
            warm_us, self.since_us = at, at - FENCED_AFTER_US
        if at >= warm_us:
            self.missing = None
        return warm_us


class ActiveController(msgspec.Struct):
    """The active controller: since when, and when it last responded without error.

    ``is_silent``: since then another may have become active unseen.
    """

    node_id: int = -1
    since_us: int = ALWAYS_SINCE_US
    last_us: int = ALWAYS_SINCE_US
    is_silent: bool = False


class ClusterGaps:
    """What gaps hide of a cluster; ``voters`` may be active controllers."""

    def __init__(self, gaps: Gaps, voters: Iterable[int]) -> None:
        self._gaps, self._voters = gaps, [*voters]

    def entered(self, active: ActiveController, happened: int, row: Event) -> LogGap | None:
        """Returns the gap that the replay runs into with a line, if it does; keeps ``active``."""
        responds = row.kind in (HEARTBEAT, FETCH) and row.error_code == 0
        own = self._gaps.last_begun(active.node_id, happened)
        gap, since = None, active.last_us
        if own is not None and own.before_us > active.since_us:
            gap, active.since_us = own._replace(after_us=max(own.after_us, since)), own.before_us
        elif responds and row.node_id != active.node_id:
            # Nobody was active before, if a replica begins with nothing.
            is_first = active.node_id < 0 and row.kind == FETCH and row.offset == 0
            ends_us = self._hidden_until(row.node_id, since, happened, only=is_first)
            if ends_us is not None:
                gap = LogGap(row.node_id, since, ends_us)
            active.node_id, active.since_us = row.node_id, ends_us or happened
        elif happened > max(since, active.since_us) + VOTER_SILENCE_US and not active.is_silent:
            heard_us = max(since, active.since_us)
            active.is_silent = self._hidden_until(row.node_id, heard_us, happened) is not None
            if active.is_silent and active.node_id >= 0:
                gap = LogGap(active.node_id, since, happened)
        if responds:
            active.last_us, active.is_silent = max(since, happened), False
        return gap

    def _hidden_until(
        self, node_id: int, since: int, until: int, *, only: bool = False
    ) -> int | None:
        """Returns until when one (``only``: this one) may have been active in a span unseen."""
        hidden = [
            gap
            for voter in ([node_id] if only else self._voters)
            for gap in self._gaps.of(voter)
            if gap.after_us < until and since < gap.before_us
        ]
        own = (gap.before_us for gap in hidden if gap.node_id == node_id)
        return max((until, *own)) if hidden else None

    def is_lost(self, row: Event) -> bool:
        """Says whether a controller's line lies in a gap: lines beside it are missing."""
        if row.kind not in (HEARTBEAT, FETCH, WRITE) or row.error_code != 0:
            return False
        return self._gaps.touch(row.node_id, row.at_us, row.at_us)

    def overlap(self, node_id: int, since_us: int, until_us: int | None) -> bool:
        """Says whether lines of a node may be missing in a span."""
        until = ALWAYS_UNTIL_US if until_us is None else until_us
        return self._gaps.touch(node_id, since_us, until)

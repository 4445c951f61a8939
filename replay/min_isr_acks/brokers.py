"""Which brokers count, as one leader sees it: unfenced, stopping, fenced, and since when.

A controller that fences a broker or lets it stop takes it out of every ISR by itself, and only
heartbeats show it: a broker that wants to shut down is taken out after its first such heartbeat;
one that falls silent is fenced by the first scan after its session (``BrokerHeartbeatManager``,
``ReplicationControlManager.maybeFenceOneStaleBroker``). The leader acts on it when it has *applied*
the metadata records, with a high watermark above them. Its own FETCHes of the metadata log show it:

* what they brought: the append in the window of a scan that holds a record for the broker and one
  for each of its partitions is the fencing;
* which high watermark they carried, and that the leader sent its next FETCH: it has the response.

Where it can fail: two large appends in the window of one scan (``Doubt``: the first is taken, and
what hangs on it is unknown), a session timeout that is not Kafka's default, no controller's log
(then a change counts from when the controller responded, and a fencing is not seen at all).
"""

from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import msgspec

from .events import SILENCE, SILENCE_US, Event

#: broker.session.timeout.ms, and how often the controller looks (an eighth of it).
SESSION_US, SCAN_US = SILENCE_US, 1_125_000
#: Between the scan that is due and the response with its records: timers, fsync, Raft.
SCAN_SLACK_US = 600_000
#: Two derived times of one moment differ by up to this: stamps and threads.
COMMIT_SLACK_US = 5_000
#: Records of the smallest append that fences: the broker's and one partition's.
FENCING_RECORDS_MIN = 2
#: Responses remembered: a node fetches a few times a second, and a scan's window is two seconds.
RESPONSES_KEPT_US = 30_000_000


class Standing(StrEnum):
    UNFENCED = "unfenced"
    STOPPING = "stopping"
    FENCED = "fenced"


class Applied(NamedTuple):
    """From ``at_us`` on the leader knows of a broker's standing."""

    at_us: int
    broker_id: int
    standing: Standing


class Doubt(NamedTuple):
    """A broker was fenced somewhere between two times; the first was taken."""

    since_us: int
    until_us: int


class Response(NamedTuple):
    """A response with the metadata log: received, built, between which offsets, high watermark."""

    at_us: int
    built_us: int
    start: int
    end: int
    high_watermark: int


def _response_of(fetch: Event, at_us: int, end: int) -> Response:
    start, high_watermark = (
        -1 if offset is None else offset for offset in (fetch.fetch_offset, fetch.high_watermark)
    )
    return Response(at_us, fetch.built_us or 0, start, end, high_watermark)


class _Pending(msgspec.Struct):
    """A change that the leader has not applied yet.

    ``after_us`` is when the controller had committed it, or, for a fencing (``until_us`` set), the
    window of the scan. ``offset`` is the end of its records where that is known.
    """

    standing: Standing
    broker_id: int
    epoch: int
    after_us: int
    until_us: int | None = None
    offset: int | None = None


class Brokers(msgspec.Struct):
    """Brokers' standings as one node knows them. Fed in order of time."""

    standings: dict[int, Standing] = {}
    epochs: dict[int, int] = {}
    doubts: list[Doubt] = []
    #: What the controller made of a broker last, applied or not, and of which epoch.
    decided: dict[int, tuple[Standing, int]] = {}
    pending: list[_Pending] = []
    responses: list[Response] = []
    fetch: Event | None = None
    fencings: list[tuple[_Pending, int]] = []

    def is_active(self, broker_id: int) -> bool:
        """The controller may make it a leader: it was not decided otherwise, applied or not."""
        decided = self.decided.get(broker_id)
        return decided is None or decided[0] is Standing.UNFENCED

    def may_join(self, broker_id: int, epoch: int) -> bool:
        """Whether the controller would let a broker into an ISR (``isReplicaIsrEligible``).

        Unfenced, not stopping, and the epoch it fetches with is its. A broker of which no heartbeat
        is in the log fetches, so it is taken for unfenced.
        """
        standing = self.standings.get(broker_id, Standing.UNFENCED)
        known = self.epochs.get(broker_id)
        return standing is Standing.UNFENCED and (epoch < 0 or known is None or epoch == known)

    def heartbeat(self, event: Event) -> list[Applied]:
        """Take a heartbeat (``Kind.HEARTBEAT``); ``operation`` "silence": none follows for long."""
        assert event.replica_id is not None
        assert event.built_us is not None
        assert event.dequeued_us is not None
        broker, epoch = event.replica_id, event.replica_epoch or 0
        standing = Standing.FENCED if event.is_fenced else Standing.UNFENCED
        # A broker that stops at once is fenced in the response; out of the ISR it is either way.
        if event.want_shut_down:
            standing = Standing.STOPPING
        self._expect(standing, broker, epoch, event.built_us)
        if event.operation == SILENCE and standing is Standing.UNFENCED:
            due = event.dequeued_us + SESSION_US
            self.pending.append(
                _Pending(Standing.FENCED, broker, epoch, due, due + SCAN_US + SCAN_SLACK_US)
            )
        return [] if self.fetch else self._apply_unseen()

    def _expect(self, standing: Standing, broker: int, epoch: int, built_us: int) -> None:
        fenced = any(p.broker_id == broker and p.until_us is not None for p in self.pending)
        if self.decided.get(broker) == (standing, epoch) and not fenced:
            return
        self.decided[broker] = (standing, epoch)
        self.pending.append(_Pending(standing, broker, epoch, built_us))

    def _apply_unseen(self) -> list[Applied]:
        """No responses with the metadata log are known: a change counts from its response on."""
        known = [p for p in self.pending if p.until_us is None]
        self.pending = [p for p in self.pending if p.until_us is not None]
        return [self._take(p, p.after_us) for p in known]

    def miss(self, broker_id: int) -> None:
        """Lines are missing, and a broker is absent meanwhile: until it is heard of it is fenced.

        If it is not, it is in its ISRs; who leaves one by itself has not been caught up for long.
        """
        self.standings[broker_id] = Standing.FENCED
        self.decided.pop(broker_id, None)

    def metadata_fetch(self, event: Event, partitions_with: Callable[[int], int]) -> list[Applied]:
        """This node FETCHes the metadata log: it has received the previous response.

        ``partitions_with(broker)`` counts partitions with the broker in their ISR.
        """
        fetch, self.fetch = self.fetch, event
        if fetch is None or fetch.built_us is None or event.fetch_offset is None:
            return []
        response = _response_of(fetch, event.at_us, event.fetch_offset)
        before = self.responses[-1].built_us if self.responses else 0
        self._find_fencings(response, before, partitions_with)
        self.responses.append(response)
        self._forget(response.built_us)
        return self._apply(response, event.at_us)

    def close(self) -> list[Applied]:
        """The log is over: the last response was received, if no FETCH shows it."""
        fetch, self.fetch = self.fetch, None
        if fetch is None or fetch.built_us is None:
            return []
        return self._apply(_response_of(fetch, fetch.built_us, -1), fetch.built_us)

    def committed_after(self, after_us: int) -> bool:
        """The node has a response that shows a commit after a time (controller's)."""
        if not self.responses:
            return self.fetch is None
        return self._shows(self.responses[-1], after_us)

    def _shows(self, response: Response, after_us: int) -> bool:
        since = after_us - COMMIT_SLACK_US
        if response.built_us < since:
            return False
        known = [a.high_watermark for a in self.responses if a.built_us < since]
        return response.high_watermark > max(known, default=-1)

    def _find_fencings(
        self, response: Response, before_us: int, partitions_with: Callable[[int], int]
    ) -> None:
        def may_fence(broker: int) -> bool:
            least = max(FENCING_RECORDS_MIN, 1 + partitions_with(broker))
            return response.end - response.start >= least

        built_us = response.built_us
        self.fencings = [one for one in self.fencings if (one[0].until_us or 0) >= built_us]
        for pending, since_us in self.fencings:
            # A second append as large within the window: it may have been that one.
            if may_fence(pending.broker_id):
                self.doubts.append(Doubt(since_us, built_us))
        for pending in self.pending:
            if pending.until_us is None or pending.offset is not None:
                continue
            in_window = pending.after_us <= built_us <= pending.until_us
            # Who slept through the window learns of all at once.
            slept = before_us < pending.after_us <= built_us
            if (in_window or slept) and may_fence(pending.broker_id):
                pending.offset = response.end
                self.decided[pending.broker_id] = (Standing.FENCED, pending.epoch)

    def _apply(self, response: Response, at_us: int) -> list[Applied]:
        applied: list[Applied] = []
        kept: list[_Pending] = []
        for pending in self.pending:
            in_window = response.built_us <= (pending.until_us or 0)
            if pending.offset is not None:
                due = response.high_watermark >= pending.offset
            else:
                due = pending.until_us is None and self._shows(response, pending.after_us)
            if due:
                if in_window:
                    self.fencings.append((pending, response.built_us))
                applied.append(self._take(pending, at_us))
            elif pending.until_us is None or pending.offset is not None or in_window:
                kept.append(pending)
        self.pending = kept
        return applied

    def _take(self, pending: _Pending, at_us: int) -> Applied:
        self.standings[pending.broker_id] = pending.standing
        self.epochs[pending.broker_id] = pending.epoch
        return Applied(at_us, pending.broker_id, pending.standing)

    def _forget(self, built_us: int) -> None:
        if built_us - self.responses[0].built_us > 2 * RESPONSES_KEPT_US:
            self.responses = [
                a for a in self.responses if built_us - a.built_us < RESPONSES_KEPT_US
            ]

"""Outcome rows: of heartbeats, and of writes under each variant."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import pyarrow as pa

from ..kafka.messages import LOWEST_ACKNOWLEDGED_OFFSET_BYTES
from ..model.brokers import BrokerHeartbeatManager, LowestAcknowledged
from ..outcomes import Rows, Variant, Verdict
from ..simulation import Rising
from . import reasons
from .cadence import DEFAULT_INTERVAL_US
from .events import NO_ANSWER, Event
from .tables import TABLES
from .writes import Offsets, Sender

RULE = "lowest_acked_offset"
LOWEST_ACKED = "lowest_acked_offset"
FINEST_EVIDENCE = "finest_evidence"
#: What brokers had applied by ``applying``; its rows of metadata_write_visibility are named so too.
ESTIMATED = "estimated"
HEARTBEAT_INTERVAL = "broker_heartbeat_interval_ms"

#: What-if columns of what the recorded heartbeats give.
AS_RECORDED = Variant(LOWEST_ACKED).what_if(RULE)

#: A write is followed for this long after its response.
HORIZON_US = 60_000_000

#: A simulated heartbeat is timed by recorded ones up to two intervals away.
SIMULATED_ON_US = 2 * DEFAULT_INTERVAL_US

Row = dict[str, Any]
Judgement = tuple[Verdict, str | None]


class OutcomeRows:
    """Rows of the rule's tables, without the recording."""

    def __init__(self) -> None:
        self._tables = tables = [Rows(table.without("recording")) for table in TABLES]
        self.heartbeats, self.writes, self.visibility, self.applied, self.everywhere = tables

    def take(self) -> list[pa.RecordBatch]:
        return [table.take() for table in self._tables]


class Write(NamedTuple):
    """A metadata write, and where its last record lies, or why the log leaves that open."""

    row: Event
    offsets: Offsets | str

    @property
    def until_us(self) -> int:
        return self.row.at_us + HORIZON_US

    @property
    def high(self) -> int | None:
        """The highest offset that its last record can have, None where the log leaves it open."""
        return self.offsets.high if isinstance(self.offsets, Offsets) else None

    def reached(self, timeline: Rising | None) -> tuple[int | None, int | None]:
        """(when, by which node) a timeline reached the write; Nones if not by ``until_us``."""
        if timeline is not None and self.high is not None:
            reached = timeline.reached(self.high)
            if reached is not None and reached[0] <= self.until_us:
                return reached
        return None, None


class LogEnd(NamedTuple):
    """No line follows for as long as a write is followed, and why: the log ends, or has a hole."""

    at_us: int
    reason: str

    @property
    def is_hole(self) -> bool:
        return self.reason == reasons.LOG_GAP

    def is_before(self, variant: Variant, times: Iterable[int | None]) -> bool:
        """It is a hole, and one of these times (None: not seen yet) may lie behind it."""
        # A simulated heartbeat is timed by the recorded ones around it.
        rests = SIMULATED_ON_US if variant.parameter == HEARTBEAT_INTERVAL else 0
        return self.is_hole and any(at is None or at + rests > self.at_us for at in times)


class Fate(NamedTuple):
    """What became of a write under one variant. Times are microseconds; None: not seen."""

    applied_us: int | None = None
    last_broker: int | None = None
    known_us: int | None = None
    known_everywhere_us: int | None = None
    readable_us: int | None = None


def heartbeat_row(
    row: Event, carried: LowestAcknowledged | None, uncertain: str = reasons.LOG_GAP
) -> Row:
    """A heartbeat, and what its response carries; None: it is an error, or ``uncertain``."""
    verdict: Judgement = (Verdict.REPLAYED, None)
    if row.error_code == NO_ANSWER:
        verdict = (Verdict.UNKNOWN, reasons.NOT_ANSWERED)
    elif row.error_code != 0:
        verdict = (Verdict.NOT_APPLICABLE, reasons.NOT_ACTIVE)
    elif carried is None:
        verdict = (Verdict.UNKNOWN, uncertain)
    elif not carried.is_certain:
        verdict, carried = (Verdict.UNKNOWN, reasons.SILENT), None
    elif carried.raw is None:
        verdict = (Verdict.NOT_APPLICABLE, reasons.NOBODY_COUNTS)
    size = row.response_bytes
    return {
        **AS_RECORDED,
        "request_id": row.request_id,
        "controller_id": row.node_id,
        "broker_id": row.broker_id,
        "received_at": row.received_us,
        "built_at": row.at_us,
        "current_metadata_offset": row.offset,
        "is_fenced": row.is_fenced if row.error_code == 0 else None,
        "unfenced_brokers": carried and carried.active_brokers,
        "lowest_acknowledged_offset": carried and carried.offset,
        "lowest_acknowledged_offset_raw": carried and carried.raw,
        "response_bytes": size,
        "replayed_response_bytes": size and size + LOWEST_ACKNOWLEDGED_OFFSET_BYTES,
        "verdict": verdict[0],
        "reason": verdict[1],
    }


class FollowedWrite(NamedTuple):
    """A write under one variant, and what it is judged by.

    ``unlearned``: why it is not known when brokers learned in it; ``uncertain``: which brokers
    count.
    """

    write: Write
    sender: Sender
    variant: Variant
    manager: BrokerHeartbeatManager
    unlearned: str | None
    uncertain: str
    log_end: LogEnd | None

    def outcome(self) -> Row:
        row, offsets, fate = self.write.row, self.write.offsets, self._fate()
        received_us = self.sender.received_us
        hidden = self._hidden(fate)
        verdict, reason = self._judgement(fate)
        if hidden is not None and isinstance(offsets, Offsets):
            fate, verdict, reason = Fate(), Verdict.UNKNOWN, hidden
        return {
            **self.variant.what_if(RULE),
            "request_id": row.request_id,
            "controller_id": row.node_id,
            "api_name": row.api_name,
            "client_id": row.client_id,
            "via_broker": self.sender.via,
            "received_at": row.received_us if received_us is None else received_us,
            "responded_at": row.at_us,
            "offset_low": offsets.low if isinstance(offsets, Offsets) else None,
            "offset_high": self.write.high,
            "applied_everywhere_at": fate.applied_us,
            "last_broker_id": fate.last_broker,
            "known_at": fate.known_us,
            "known_everywhere_at": fate.known_everywhere_us,
            "stale_window_ms": _elapsed_ms(row.at_us, fate.applied_us),
            "read_after_write_ms": _elapsed_ms(received_us, fate.readable_us),
            "verdict": verdict,
            "reason": reason,
        }

    def _fate(self) -> Fate:
        write, manager, via = self.write, self.manager, self.sender.via
        applied, last_broker = write.reached(manager.applied_everywhere)
        if self.variant.name == ESTIMATED:
            # It is no protocol: nobody is informed, and who polls all brokers waits for no more.
            estimate = applied if self.unlearned is None else None
            return Fate(estimate, last_broker, readable_us=estimate)
        known, _ = write.reached(None if via is None else manager.acknowledged_by.get(via))
        everywhere, _ = write.reached(manager.acknowledged_everywhere)
        # Who forwarded it waits for its own knowledge, a client of the controller for everybody's.
        readable = everywhere if via is None else known
        return Fate(applied, last_broker, known, everywhere, readable)

    def _hidden(self, fate: Fate) -> str | None:
        """Why lines that are not in the log may have decided it; None if they did not."""
        if not self.manager.is_warm(self.write.row.at_us):
            return self.uncertain
        followed = [fate.applied_us]
        if self.variant.name != ESTIMATED:
            followed += [fate.known_everywhere_us, fate.readable_us]
        if self.variant.name == FINEST_EVIDENCE and self.unlearned is not None:
            return self.unlearned
        is_cut = self.log_end is not None and self.log_end.is_before(self.variant, followed)
        return reasons.LOG_GAP if is_cut else None

    def _judgement(self, fate: Fate) -> Judgement:
        if self.write.offsets == reasons.NOTHING_WRITTEN:
            return Verdict.NOT_APPLICABLE, reasons.NOTHING_WRITTEN
        if isinstance(self.write.offsets, str):
            return Verdict.UNKNOWN, self.write.offsets
        if fate.applied_us is not None and fate.readable_us is not None:
            if self.sender.received_us is None:
                return Verdict.UNKNOWN, reasons.NO_ARRIVAL
            return Verdict.REPLAYED, None
        if self.unlearned is not None:
            return Verdict.UNKNOWN, self.unlearned
        if fate.applied_us is not None and fate.known_everywhere_us is not None:
            return Verdict.NOT_APPLICABLE, reasons.LEFT
        return Verdict.UNKNOWN, too_late(self.write, self.log_end)


def too_late(write: Write, log_end: LogEnd | None) -> str:
    """Why what became of a write was not seen."""
    is_over = log_end is not None and log_end.at_us < write.until_us
    return log_end.reason if log_end is not None and is_over else reasons.HORIZON


def _elapsed_ms(since: int | None, until: int | None) -> float | None:
    """Milliseconds; 0 for what had happened before."""
    return None if since is None or until is None else max(0, until - since) / 1000

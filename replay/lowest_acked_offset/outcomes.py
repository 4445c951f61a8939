"""What became of metadata writes: under each variant, and at each broker by each evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kip_replay.replay.lowest_acked_offset.controller import HeartbeatManager
from kip_replay.replay.lowest_acked_offset.events import Event
from kip_replay.replay.lowest_acked_offset.evidence import (
    API_VERSIONS,
    EVIDENCE,
    FETCH_HIGH_WATERMARK,
    BrokerEvidence,
    Evidence,
)
from kip_replay.replay.lowest_acked_offset.reasons import (
    DENIED,
    HORIZON,
    LEFT,
    LOG_ENDS,
    NOT_HEARD_YET,
    NOT_LEARNED,
    NOTHING_WRITTEN,
)
from kip_replay.replay.lowest_acked_offset.rows import (
    LOWEST_ACKED,
    VISIBILITY_SCHEMA,
    WRITE_SCHEMA,
    Column,
    Judgement,
    judged,
    rows,
    where,
)
from kip_replay.replay.lowest_acked_offset.timelines import HIGHEST, Bools, Ints, Rising
from kip_replay.replay.lowest_acked_offset.writes import Offsets
from kip_replay.replay.outcomes import Variant, Verdict

#: A write is followed for this long after its answer.
HORIZON_US = 60_000_000


@dataclass
class Write:
    """A metadata write that waits for its horizon."""

    row: Event
    offsets: Offsets | str

    @property
    def until_us(self) -> int:
        """What happens later than this is not looked at."""
        return self.row.at_us + HORIZON_US


class Writes:
    """Some writes whose time has come, and who forwarded them; ``high`` etc. are arrays."""

    def __init__(
        self,
        writes: Sequence[Write],
        vias: Sequence[tuple[int | None, int]],
        log_end_us: int | None,
    ) -> None:
        self.events = [write.row for write in writes]
        self.size = len(writes)
        found = [w.offsets if isinstance(w.offsets, Offsets) else _NOWHERE for w in writes]
        self.low, self.high, self.committed = np.array(found, np.int64).reshape(-1, 3).T
        self.has_offsets = self.high != _NOWHERE.high
        self.reasons = [w.offsets if isinstance(w.offsets, str) else None for w in writes]
        self.via = [via for via, _ in vias]
        self.received = np.array([received for _, received in vias], np.int64)
        self.responded = np.array([event.at_us for event in self.events], np.int64)
        self.until = self.responded + HORIZON_US
        self.log_ends_first = self.until > (HIGHEST if log_end_us is None else log_end_us)

    def reached(self, timeline: Rising) -> tuple[Ints, Ints, Bools]:
        """When a timeline reached each write, by whom, and whether it did within the horizon."""
        at, node = timeline.all_reached(self.high)
        return at, node, self.has_offsets & (at <= self.until)


_NOWHERE = Offsets(-1, -1, -1)


class Fate(NamedTuple):
    """What became of writes under one variant: times, and whether it happened."""

    applied: Ints
    is_applied: Bools
    known: Ints
    is_known: Bools
    everywhere: Ints
    is_everywhere: Bools
    last_broker: Ints


def write_rows(
    writes: Writes, variant: Variant, manager: HeartbeatManager, *, is_learned: bool
) -> pa.RecordBatch:
    """Writes under one variant. ``is_learned``: the log tells when brokers learned in it."""
    fate = _fate(writes, manager)
    is_direct = np.array([via is None for via in writes.via], np.bool_)
    at = np.where(is_direct, fate.everywhere, fate.known)
    is_seen = np.where(is_direct, fate.is_everywhere, fate.is_known)
    stale = np.maximum(0, fate.applied - writes.responded) / 1000
    waits = np.maximum(0, at - writes.received) / 1000
    columns: dict[str, Column] = {
        "request_id": [event.request_id for event in writes.events],
        "controller_id": [event.node_id for event in writes.events],
        "api_name": [event.api_name for event in writes.events],
        "client_id": pa.array([event.client_id for event in writes.events], pa.string()),
        "via_broker": pa.array(writes.via, pa.int64()),
        "received_at": writes.received,
        "responded_at": writes.responded,
        "offset_low": where(writes.has_offsets, writes.low),
        "offset_high": where(writes.has_offsets, writes.high),
        "applied_everywhere_at": where(fate.is_applied, fate.applied),
        "last_broker_id": where(fate.is_applied, fate.last_broker),
        "known_at": where(fate.is_known, fate.known),
        "known_everywhere_at": where(fate.is_everywhere, fate.everywhere),
        "stale_window_ms": where(fate.is_applied, stale),
        "read_after_write_ms": where(is_seen, waits),
        **_judged(writes, manager, fate, is_direct, is_seen, is_learned),
    }
    return rows(WRITE_SCHEMA, variant, writes.size, columns)


def _fate(writes: Writes, manager: HeartbeatManager) -> Fate:
    applied, last_broker, is_applied = writes.reached(manager.applied_everywhere)
    everywhere, _, is_everywhere = writes.reached(manager.told_everywhere)
    known, is_known = np.zeros(writes.size, np.int64), np.zeros(writes.size, np.bool_)
    vias = np.array([-1 if via is None else via for via in writes.via], np.int64)
    for via in sorted({via for via in writes.via if via is not None}):
        mine = (vias == via) & (via in manager.told_by_broker)
        if mine.any():
            at, _, is_reached = writes.reached(manager.told_by_broker[via])
            known, is_known = np.where(mine, at, known), np.where(mine, is_reached, is_known)
    return Fate(applied, is_applied, known, is_known, everywhere, is_everywhere, last_broker)


def _judged(
    writes: Writes,
    manager: HeartbeatManager,
    fate: Fate,
    is_direct: Bools,
    is_seen: Bools,
    is_learned: bool,
) -> dict[str, Column]:
    certain = HIGHEST if manager.certain_from_us is None else manager.certain_from_us
    codes = np.select(
        (
            fate.is_applied & is_seen,
            np.full(writes.size, not is_learned),
            writes.until < certain,
            fate.is_applied & ~is_direct & fate.is_everywhere,
            writes.log_ends_first,
        ),
        range(5),
        5,
    )
    judgements: list[Judgement] = [
        (Verdict.REPLAYED, None),
        (Verdict.UNKNOWN, NOT_LEARNED),
        (Verdict.UNKNOWN, NOT_HEARD_YET),
        (Verdict.NOT_APPLICABLE, LEFT),
        (Verdict.UNKNOWN, LOG_ENDS),
        (Verdict.UNKNOWN, HORIZON),
    ]
    for reason in sorted({reason for reason in writes.reasons if reason is not None}):
        nothing = reason == NOTHING_WRITTEN
        codes[[said == reason for said in writes.reasons]] = len(judgements)
        judgements.append((Verdict.NOT_APPLICABLE if nothing else Verdict.UNKNOWN, reason))
    return judged(judgements, codes)


# --- each broker ---------------------------------------------------------------------------------


def visibility_rows(
    writes: Writes, manager: HeartbeatManager, evidence: Evidence
) -> list[pa.RecordBatch]:
    """When each broker that was there had applied writes, by each kind of evidence."""
    batches = []
    alive_since = writes.responded - manager.fenced_after_us
    for broker_id in sorted(manager.brokers):
        signs = evidence.of(broker_id)
        alive = writes.has_offsets & signs.heard_between(alive_since, writes.until)
        if alive.any():
            known = writes.reached(manager.told_of(broker_id))
            batches += [
                _signs(writes, broker_id, signs, kind, alive, where(known[2], known[0]))
                for kind in EVIDENCE
            ]
    return batches


def _signs(
    writes: Writes,
    broker_id: int,
    evidence: BrokerEvidence,
    kind: str,
    alive: Bools,
    known_at: pa.Array,
) -> pa.RecordBatch:
    signs = evidence.signs[kind]
    latest, _, has = writes.reached(signs.has)
    denied = np.zeros(writes.size, np.bool_)
    if kind == FETCH_HIGH_WATERMARK:
        # A heartbeat that arrives later shows that the broker lacked it.
        denied = has & (evidence.reports.lacked_until(writes.low) > latest)
    if kind == API_VERSIONS:
        # Clients connect when they like: that none did says nothing.
        alive = alive & has
    codes = np.select((has & ~denied, denied, writes.log_ends_first), (0, 1, 2), 3)
    has = has & ~denied
    earliest = np.maximum(writes.committed, signs.lacks.lacked_until(writes.low))
    earliest = np.minimum(np.where(has, np.minimum(earliest, latest), earliest), writes.until)
    mine = pa.array(np.flatnonzero(alive))
    size = len(mine)
    columns: dict[str, Column] = {
        "request_id": pa.array([event.request_id for event in writes.events]),
        "applied_at_earliest": pa.array(earliest),
        "applied_at_latest": where(has, latest),
        "known_at": known_at,
        **judged(_SIGNS, codes),
    }
    columns = {name: column.take(mine) for name, column in columns.items()}
    columns["broker_id"] = np.full(size, broker_id)
    columns["evidence"] = pa.repeat(kind, size)
    return rows(VISIBILITY_SCHEMA, Variant(LOWEST_ACKED), size, columns)


_SIGNS: Sequence[Judgement] = (
    (Verdict.REPLAYED, None),
    (Verdict.UNKNOWN, DENIED),
    (Verdict.UNKNOWN, LOG_ENDS),
    (Verdict.UNKNOWN, HORIZON),
)

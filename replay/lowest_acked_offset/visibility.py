"""Outcome rows of brokers: when each had applied a write, and every offset that it learned of."""

from bisect import bisect_right
from collections.abc import Iterator

from ..model.brokers import FENCED_AFTER_US
from ..outcomes import Variant, Verdict
from ..simulation import Rising
from .applying import Applying, Estimate
from .events import WRITE, Event
from .evidence import API_VERSIONS, EVIDENCE, FETCH_HIGH_WATERMARK, HEARTBEAT, BrokerEvidence
from .holes import Holes
from .outcomes import AS_RECORDED, ESTIMATED, RULE, LogEnd, Row, Write, too_late
from .reasons import DENIED, HORIZON, LOG_GAP, NO_RESPONSE, UNKNOWN_WORK
from .state import State
from .writes import Offsets

#: Columns that say nothing where an outcome rests on lines that are missing.
TIMES = ("applied_at_earliest", "applied_at_latest", "shown_at", "applied_at", "known_at")


def visibility_rows(
    write: Write, state: State, holes: Holes, log_end: LogEnd | None
) -> Iterator[Row]:
    """When each broker that was there had applied a write: an estimate, and what evidence shows."""
    offsets = write.offsets
    if not isinstance(offsets, Offsets):
        return
    alive_since = write.row.at_us - FENCED_AFTER_US
    own_fetch = (FETCH_HIGH_WATERMARK, write.row.node_id)
    for broker_id in sorted(state.recorded.brokers):
        signs = state.evidence_of(broker_id)
        if signs.is_seen_between(alive_since, write.until_us):
            known_us, _ = write.reached(state.recorded.acknowledged_by.get(broker_id))
            same = {"broker_id": broker_id, "known_at": known_us}
            has = signs.signs[HEARTBEAT].has
            rows = [_estimated(write, offsets, state.applying.get(broker_id), has)]
            rows += [
                _sign(write, offsets, signs, kind, log_end)
                for kind in EVIDENCE
                # Clients connect when they like, and the active controller's own broker sends
                # no FETCH: that none did shows nothing.
                if (kind != API_VERSIONS and (kind, broker_id) != own_fetch)
                or write.reached(signs.signs[kind].has)[0] is not None
            ]
            for row in rows:
                yield _unless_lost(row | same, write, state, holes, log_end)


def _unless_lost(row: Row, write: Write, state: State, holes: Holes, log_end: LogEnd | None) -> Row:
    evidence, latest, hidden = state.evidence_of(row["broker_id"]), row["applied_at_latest"], None
    if not state.recorded.is_warm(write.row.at_us):
        hidden = state.uncertain
    elif row["evidence"] == FETCH_HIGH_WATERMARK and evidence.is_unclaimed(write.high):
        hidden = UNKNOWN_WORK
    elif log_end is not None and log_end.is_hole:
        is_over = None not in (latest, row["known_at"], row.get("applied_at", latest))
        # What a FETCH shows the next heartbeat may deny.
        denied = row["evidence"] == FETCH_HIGH_WATERMARK
        if not is_over or (denied and latest > evidence.last_response_us):
            hidden = LOG_GAP
    if row["evidence"] == API_VERSIONS and holes.overlap(
        row["broker_id"], row["applied_at_earliest"], latest
    ):
        hidden = LOG_GAP
    if hidden is None or (row["verdict"] is Verdict.UNKNOWN and row.get("shown_at") is None):
        return row
    return row | dict.fromkeys(TIMES) | {"verdict": Verdict.UNKNOWN, "reason": hidden}


def _sign(
    write: Write, offsets: Offsets, evidence: BrokerEvidence, kind: str, log_end: LogEnd | None
) -> Row:
    signs, reason = evidence.signs[kind], None
    latest, _ = write.reached(signs.has)
    if latest is None:
        reason = too_late(write, log_end)
    elif kind == FETCH_HIGH_WATERMARK and evidence.reports.lacked_until(offsets.low) > latest:
        latest, reason = None, DENIED
    earliest = max(offsets.committed_us, signs.lacks.lacked_until(offsets.low))
    earliest = min(earliest, write.until_us if latest is None else latest)
    return _row(write, kind, (earliest, latest), reason)


def _estimated(write: Write, offsets: Offsets, broker: Applying | None, heartbeats: Rising) -> Row:
    """The estimate, between the response that carried the commit and the heartbeat that has it."""
    latest, _ = write.reached(heartbeats)
    estimate = None if broker is None else broker.of(offsets.high, latest)
    if estimate is None:
        estimate = Estimate(offsets.high, offsets.committed_us, reason=NO_RESPONSE)
    elif estimate.applied_us is not None and estimate.applied_us > write.until_us:
        estimate = estimate.unknown(HORIZON)
    earliest = estimate.learned_us if latest is None else min(estimate.learned_us, latest)
    times = {"shown_at": estimate.shown_us, "applied_at": estimate.applied_us}
    return _row(write, ESTIMATED, (earliest, latest), estimate.reason) | times


def _row(write: Write, evidence: str, bounds: tuple[int, int | None], reason: str | None) -> Row:
    return {
        **AS_RECORDED,
        "request_id": write.row.request_id,
        "evidence": evidence,
        "applied_at_earliest": bounds[0],
        "applied_at_latest": bounds[1],
        "verdict": Verdict.REPLAYED if reason is None else Verdict.UNKNOWN,
        "reason": reason,
    }


def applied_row(broker_id: int, estimate: Estimate) -> Row:
    """When a broker learned that everything up to an offset is committed, and applied it."""
    return {
        **AS_RECORDED,
        "broker_id": broker_id,
        "metadata_offset": estimate.offset,
        "learned_at": estimate.learned_us,
        "shown_at": estimate.shown_us,
        "applied_at": estimate.applied_us,
        "verdict": Verdict.REPLAYED if estimate.reason is None else Verdict.UNKNOWN,
        "reason": estimate.reason,
    }


def everywhere_rows(state: State) -> Iterator[Row]:
    """What all brokers that count show, step by step since the rows before."""
    steps, before = state.estimated.manager.applied_everywhere, state.shown_everywhere
    begin = bisect_right(steps.values, before.offset)
    for at, offset in zip(steps.at[begin:], steps.values[begin:], strict=True):
        found = [each for of in state.applying.values() if (each := of.of(offset, None))]
        learned_us = max(before.learned_us, min((e.learned_us for e in found), default=at))
        committed = state.committed.high_watermark.reached(before.offset + 2) or (learned_us, -1)
        is_aware = before.learned_us and all(each.hwm_aware for each in found)
        write = Write(Event(at, WRITE, "", -1), Offsets(offset, offset, at))
        reason = state.unlearned(write, Variant(ESTIMATED))
        yield {
            **Variant(ESTIMATED).what_if(RULE),
            "metadata_offset": offset,
            "committed_at": committed[0] if is_aware else None,
            "previous_learned_at": before.learned_us or None,
            "learned_at": learned_us,
            "shown_at": at if reason is None else None,
            "verdict": Verdict.REPLAYED if reason is None else Verdict.UNKNOWN,
            "reason": reason,
        }
        known_us = learned_us if reason is None else 0
        before = state.shown_everywhere = Estimate(offset, known_us)

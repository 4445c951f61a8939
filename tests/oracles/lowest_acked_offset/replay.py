"""The whole replay of lowest_acked_offset: one cluster's events in, outcomes out."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP
from kip_replay.replay.kafka.messages import LOWEST_ACKNOWLEDGED_OFFSET_BYTES
from kip_replay.replay.lowest_acked_offset.events import (
    API_VERSIONS,
    FETCH,
    HEARTBEAT,
    INPUT_SCHEMA,
    LEARNED,
    NO_ANSWER,
    WRITE,
    Event,
)
from kip_replay.replay.outcomes import RECORDED, Rows, Variant, Verdict
from kip_replay.replay.schema import (
    HEARTBEAT_OUTCOMES,
    METADATA_WRITE_OUTCOMES,
    METADATA_WRITE_VISIBILITY,
)
from oracles.lowest_acked_offset.controller import (
    SESSION_TIMEOUT_US,
    Carried,
    Heartbeat,
    HeartbeatManager,
)
from oracles.lowest_acked_offset.evidence import (
    CLAIM_WAIT_US,
    EVIDENCE,
    FETCH_HIGH_WATERMARK,
    Claim,
    Evidence,
)
from oracles.lowest_acked_offset.simulation import Recorded, Simulation
from oracles.lowest_acked_offset.writes import (
    NOT_ANSWERED,
    NOTHING_WRITTEN,
    STAMP_SLACK_US,
    CommittedOffsets,
    Forwarding,
    Offsets,
    is_forwarders_line,
    is_write,
)

RULE = "lowest_acked_offset"
LOWEST_ACKED = "lowest_acked_offset"
FINEST_EVIDENCE = "finest_evidence"
HEARTBEAT_INTERVAL = "broker_heartbeat_interval_ms"

#: Events are put into the order in which they happened this far behind the log: a line stands
#: where its answer was built, at most this long after it was taken up.
LOOKAHEAD_US = 30_000_000
#: A write is followed for this long after its answer.
HORIZON_US = 60_000_000
#: How often the replay moves on, in rows of the log.
STEP_ROWS = 32_768

NOT_ACTIVE = "the controller that was asked was not the active one, or refused"
NOT_HEARD_YET = "the log begins: a broker that has not been heard yet may be unfenced"
NOBODY_COUNTS = "no broker is unfenced"
LOG_ENDS = "the log ends before it"
HORIZON = "not within 60 s of the answer"
LEFT = "the broker that forwarded it stopped or was fenced before it was told"
NOT_LEARNED = "no learned high watermarks of this variant: replay hwm_parking first"
DENIED = "a later heartbeat shows that it had not applied what its FETCH knew"

#: Outputs of the replay: rows of these three tables, less what the caller knows.
HEARTBEAT_SCHEMA = HEARTBEAT_OUTCOMES.without("recording")
WRITE_SCHEMA = METADATA_WRITE_OUTCOMES.without("recording")
VISIBILITY_SCHEMA = METADATA_WRITE_VISIBILITY.without("recording")

#: Which learned times a simulated variant takes (``variant`` of high_watermark_lag).
LEARNED_OF = {LOWEST_ACKED: RECORDED, WITHOUT_KIP: WITHOUT_KIP, WITH_KIP: WITH_KIP}


class Outcomes(NamedTuple):
    """What a replay hands out: batches of the three schemas, in their order."""

    heartbeats: pa.RecordBatch
    writes: pa.RecordBatch
    visibility: pa.RecordBatch


@dataclass
class Write:
    """A metadata write that waits for its horizon."""

    row: Event
    offsets: Offsets | str

    @property
    def until_us(self) -> int:
        """What happens later than this is not looked at."""
        return self.row.at_us + HORIZON_US


class Fate(NamedTuple):
    """What became of a write under one variant. Times are microseconds, None: not seen."""

    applied_us: int | None
    last_broker: int | None
    known_us: int | None
    known_everywhere_us: int | None


class LowestAckedOffset:
    """The replay of one cluster: feed it ``Event`` rows of all its nodes.

    ``voters`` are the ids of all voters, ``intervals_ms`` the heartbeat intervals of the sweep
    (below the session timeout), ``recorded_interval_ms`` the one that the log was made with
    (measured if None). ``counts_stopping``: brokers in controlled shutdown hold the offset back,
    as the draft's "all unfenced brokers" can be read. Batches of ``INPUT_SCHEMA`` come in order of
    (at_us, kind, request_id); else ``ValueError``.
    """

    def __init__(
        self,
        voters: Iterable[int],
        intervals_ms: Iterable[int] = (),
        recorded_interval_ms: int | None = None,
        counts_stopping: bool = False,
        session_timeout_ms: int = SESSION_TIMEOUT_US // 1000,
        step_rows: int = STEP_ROWS,
    ) -> None:
        self._step_rows = step_rows
        self._fed = 0
        self._committed = CommittedOffsets(frozenset(voters))
        self._forwarding = Forwarding()
        self._evidence = Evidence()
        manager = partial(
            HeartbeatManager,
            counts_stopping=counts_stopping,
            session_timeout_us=session_timeout_ms * 1000,
        )
        self._recorded = manager()
        self._finest = manager(tells_applied=True)
        interval = None if recorded_interval_ms is None else recorded_interval_ms * 1000
        self._beats = Recorded(interval)
        self._simulations = {
            Variant(name, HEARTBEAT_INTERVAL, str(ms)): Simulation(
                self._beats, learned, ms * 1000, manager(applies_reports=False)
            )
            for ms in intervals_ms
            for name, learned in LEARNED_OF.items()
        }
        self._facts: list[tuple[int, str, str, Event]] = []
        self._finest_events: list[tuple[int, int, int, Claim | Heartbeat]] = []
        self._writes: list[Write] = []
        self._learned: set[str] = set()
        self._first_heartbeat_us: int | None = None
        self._count = 0
        self._front = (0, "", "")
        self._heartbeat_rows = Rows(HEARTBEAT_SCHEMA)
        self._write_rows = Rows(WRITE_SCHEMA)
        self._visibility_rows = Rows(VISIBILITY_SCHEMA)

    def feed(self, batch: pa.RecordBatch) -> Outcomes:
        """Take a piece of log and return the outcomes that nothing still to come can change."""
        columns = [batch.column(name).to_pylist() for name in INPUT_SCHEMA.names]
        for row in map(Event._make, zip(*columns, strict=True)):
            place = (row.at_us, row.kind, row.request_id)
            if place < self._front:
                raise ValueError("events must come in order of at_us, kind, request_id")
            # Moving on in steps of the log's rows, whatever the batches, makes the outcomes a
            # function of the log alone.
            if self._fed and self._fed % self._step_rows == 0:
                self._advance(row.at_us)
            self._fed += 1
            self._front = place
            self._take(row)
        return self._hand_out()

    def finish(self) -> Outcomes:
        """The log is over: return what is left."""
        end = self._front[0]
        while self._facts:
            self._happen(heapq.heappop(self._facts)[-1])
        for claim in self._evidence.expire(end + CLAIM_WAIT_US):
            self._claim(claim)
        self._recorded.advance(end)
        self._advance_views(end, end)
        self._settle(end, end)
        return self._hand_out()

    # --- events ----------------------------------------------------------------------------------

    def _take(self, row: Event) -> None:
        """Keep a line until it is its turn: when the request was worked off, not answered."""
        happened = row.at_us
        if row.kind == HEARTBEAT:
            self._forwarding.heartbeat(row)
            happened = row.handled_us
        elif row.kind == FETCH:
            happened = row.dequeued_us
        elif row.kind == WRITE:
            if is_forwarders_line(row, self._committed.voters):
                self._forwarding.line(row)
                return
            # So that every FETCH is in that may have been worked off before the answer.
            happened = row.at_us + STAMP_SLACK_US
        heapq.heappush(self._facts, (happened, row.kind, row.request_id, row))

    def _happen(self, row: Event) -> None:
        if row.kind == HEARTBEAT:
            self._heartbeat(row)
        elif row.kind == FETCH:
            self._fetch(row)
        elif row.kind == API_VERSIONS:
            if row.broker_id not in self._committed.voters:
                self._evidence.of(row.broker_id).api_versions(row)
        elif row.kind == LEARNED:
            self._learn(row)
        elif row.kind == WRITE and is_write(row):
            answered = row.error_code == 0
            offsets = self._committed.offsets(row) if answered else NOT_ANSWERED
            self._writes.append(Write(row, offsets))

    def _heartbeat(self, row: Event) -> None:
        if row.error_code != 0:
            self._write_heartbeat(row, None)
            return
        beat = Heartbeat(
            controller_id=row.node_id,
            broker_id=row.broker_id,
            broker_epoch=row.broker_epoch,
            handled_us=row.handled_us,
            built_us=row.at_us,
            offset=row.offset,
            is_fenced=row.is_fenced,
            want_shut_down=row.want_shut_down,
        )
        self._be_certain(beat.handled_us)
        self._write_heartbeat(row, self._recorded.heartbeat(beat))
        for claim in self._evidence.of(row.broker_id).heartbeat(row):
            self._claim(claim)
        self._count += 1
        heapq.heappush(self._finest_events, (beat.handled_us, 1, self._count, beat))
        is_steady, caught_up = self._beats.heartbeat(row.received_us, beat, row.want_fence)
        for simulation in self._simulations.values():
            simulation.heartbeat(row.received_us, beat, is_steady)
            for at in caught_up:
                simulation.progress(at, row.broker_id)

    def _be_certain(self, at: int) -> None:
        """From when on every broker that counts has been heard."""
        if self._recorded.certain_from_us == 0:
            return
        if self._first_heartbeat_us is None:
            self._first_heartbeat_us = at
        certain = self._first_heartbeat_us + self._recorded.fenced_after_us
        if self._committed.began_empty and at < certain:
            certain = 0
        for manager in self._managers().values():
            manager.certain_from_us = certain

    def _fetch(self, row: Event) -> None:
        self._committed.fetch(row)
        if row.error_code == 0 and not row.is_diverging:
            self._evidence.of(row.broker_id).fetch(row, self._committed.high_watermark)

    def _learn(self, row: Event) -> None:
        if row.broker_id in self._committed.voters and row.broker_id not in self._beats.cadences:
            return
        self._learned.add(row.variant)
        due = self._beats.learn(row.broker_id, row.variant, row.at_us, row.high_watermark)
        for simulation in self._simulations.values():
            if simulation.variant == row.variant:
                simulation.progress(due, row.broker_id)

    def _claim(self, claim: Claim) -> None:
        self._count += 1
        heapq.heappush(self._finest_events, (claim.at_us, 0, self._count, claim))

    # --- moving on -------------------------------------------------------------------------------

    def _managers(self) -> dict[Variant, HeartbeatManager]:
        simulated = {variant: s.manager for variant, s in self._simulations.items()}
        return {
            Variant(LOWEST_ACKED): self._recorded,
            Variant(FINEST_EVIDENCE): self._finest,
            **simulated,
        }

    def _advance(self, front: int) -> None:
        """The log is known up to ``front``."""
        until = front - LOOKAHEAD_US
        while self._facts and self._facts[0][0] <= until:
            self._happen(heapq.heappop(self._facts)[-1])
        self._recorded.advance(until)
        for claim in self._evidence.expire(until):
            self._claim(claim)
        # What a heartbeat denies or shows to be slow is known one heartbeat later.
        settled = until - CLAIM_WAIT_US
        self._advance_views(settled, None)
        self._settle(settled, None)
        before = settled - 2 * HORIZON_US
        for part in (self._committed, self._forwarding, self._evidence, self._beats):
            part.forget(before)
        for manager in self._managers().values():
            manager.forget(before)

    def _advance_views(self, until: int, log_end_us: int | None) -> None:
        while self._finest_events and self._finest_events[0][0] <= until:
            event = heapq.heappop(self._finest_events)[-1]
            if isinstance(event, Claim):
                self._finest.apply(*event)
            else:
                self._finest.heartbeat(event)
        self._finest.advance(until)
        for simulation in self._simulations.values():
            simulation.advance(until, log_end_us)

    def _settle(self, until: int, log_end_us: int | None) -> None:
        """Hand out the writes whose horizon has passed, or all once the log is over."""
        ready = [w for w in self._writes if log_end_us is not None or w.until_us <= until]
        self._writes = [w for w in self._writes if log_end_us is None and w.until_us > until]
        for write in ready:
            self._write(write, log_end_us)

    def _hand_out(self) -> Outcomes:
        rows = (self._heartbeat_rows, self._write_rows, self._visibility_rows)
        return Outcomes(*(table.take() for table in rows))

    # --- rows ------------------------------------------------------------------------------------

    def _write_heartbeat(self, row: Event, carried: Carried | None) -> None:
        verdict, reason = Verdict.REPLAYED, None
        if row.error_code == NO_ANSWER:
            verdict, reason = Verdict.UNKNOWN, NOT_ANSWERED
        elif row.error_code != 0:
            verdict, reason = Verdict.NOT_APPLICABLE, NOT_ACTIVE
        elif carried is None:
            verdict, reason = Verdict.UNKNOWN, NOT_HEARD_YET
        elif carried.raw is None:
            verdict, reason = Verdict.NOT_APPLICABLE, NOBODY_COUNTS
        told = row.response_bytes
        self._heartbeat_rows.add(
            **Variant(LOWEST_ACKED).what_if(RULE),
            request_id=row.request_id,
            controller_id=row.node_id,
            broker_id=row.broker_id,
            received_at=row.received_us,
            built_at=row.at_us,
            current_metadata_offset=row.offset,
            is_fenced=row.is_fenced if row.error_code == 0 else None,
            unfenced_brokers=None if carried is None else carried.unfenced_brokers,
            lowest_acknowledged_offset=None if carried is None else carried.clamped,
            lowest_acknowledged_offset_raw=None if carried is None else carried.raw,
            response_bytes=told,
            replayed_response_bytes=(
                None if told is None else told + LOWEST_ACKNOWLEDGED_OFFSET_BYTES
            ),
            verdict=verdict,
            reason=reason,
        )

    def _write(self, write: Write, log_end_us: int | None) -> None:
        via, received = self._forwarding.via(write.row)
        for variant, manager in self._managers().items():
            fate = self._fate(write, manager, via)
            verdict, reason = self._judge(write, variant, manager, via, fate, log_end_us)
            known = fate.known_everywhere_us if via is None else fate.known_us
            responded = write.row.at_us
            offsets = write.offsets if isinstance(write.offsets, Offsets) else None
            self._write_rows.add(
                **variant.what_if(RULE),
                request_id=write.row.request_id,
                controller_id=write.row.node_id,
                api_name=write.row.api_name,
                client_id=write.row.client_id,
                via_broker=via,
                received_at=received,
                responded_at=responded,
                offset_low=None if offsets is None else offsets.low,
                offset_high=None if offsets is None else offsets.high,
                applied_everywhere_at=fate.applied_us,
                last_broker_id=fate.last_broker,
                known_at=fate.known_us,
                known_everywhere_at=fate.known_everywhere_us,
                stale_window_ms=_elapsed_ms(responded, fate.applied_us),
                read_after_write_ms=_elapsed_ms(received, known),
                verdict=verdict,
                reason=reason,
            )
        self._write_visibility(write, log_end_us)

    def _fate(self, write: Write, manager: HeartbeatManager, via: int | None) -> Fate:
        if not isinstance(write.offsets, Offsets):
            return Fate(None, None, None, None)
        high, until = write.offsets.high, write.until_us
        applied = manager.applied_everywhere.reached(high)
        if applied is not None and applied[0] > until:
            applied = None
        everywhere = manager.told_everywhere.reached(high)
        told = manager.told_by_broker.get(-1 if via is None else via)
        known = None if told is None else told.reached(high)
        return Fate(
            applied[0] if applied else None,
            applied[1] if applied else None,
            known[0] if known and known[0] <= until else None,
            everywhere[0] if everywhere and everywhere[0] <= until else None,
        )

    def _judge(
        self,
        write: Write,
        variant: Variant,
        manager: HeartbeatManager,
        via: int | None,
        fate: Fate,
        log_end_us: int | None,
    ) -> tuple[Verdict, str | None]:
        if write.offsets == NOTHING_WRITTEN:
            return Verdict.NOT_APPLICABLE, NOTHING_WRITTEN
        if isinstance(write.offsets, str):
            return Verdict.UNKNOWN, write.offsets
        known = fate.known_everywhere_us if via is None else fate.known_us
        if fate.applied_us is not None and known is not None:
            return Verdict.REPLAYED, None
        if (
            variant.parameter == HEARTBEAT_INTERVAL
            and LEARNED_OF[variant.name] not in self._learned
        ):
            return Verdict.UNKNOWN, NOT_LEARNED
        certain = manager.certain_from_us
        if certain is None or write.until_us < certain:
            return Verdict.UNKNOWN, NOT_HEARD_YET
        if fate.applied_us is not None and via is not None and fate.known_everywhere_us is not None:
            return Verdict.NOT_APPLICABLE, LEFT
        if log_end_us is not None and log_end_us < write.until_us:
            return Verdict.UNKNOWN, LOG_ENDS
        return Verdict.UNKNOWN, HORIZON

    def _write_visibility(self, write: Write, log_end_us: int | None) -> None:
        if not isinstance(write.offsets, Offsets):
            return
        responded = write.row.at_us
        alive_since = responded - self._recorded.fenced_after_us
        for broker_id in sorted(self._recorded.brokers):
            evidence = self._evidence.of(broker_id)
            if evidence.heard_between(alive_since, write.until_us):
                told = self._recorded.told_by_broker.get(broker_id)
                known = None if told is None else told.reached(write.offsets.high)
                known_us = known[0] if known and known[0] <= write.until_us else None
                for kind in EVIDENCE:
                    self._write_sign(write, write.offsets, broker_id, kind, known_us, log_end_us)

    def _write_sign(
        self,
        write: Write,
        offsets: Offsets,
        broker_id: int,
        kind: str,
        known_us: int | None,
        log_end_us: int | None,
    ) -> None:
        evidence = self._evidence.of(broker_id)
        signs = evidence.signs[kind]
        has = signs.has.reached(offsets.high)
        latest = has[0] if has and has[0] <= write.until_us else None
        if kind == API_VERSIONS and latest is None:
            # Clients connect when they like: that none did says nothing.
            return
        verdict, reason = Verdict.REPLAYED, None
        if latest is None:
            ends = log_end_us is not None and log_end_us < write.until_us
            verdict, reason = Verdict.UNKNOWN, LOG_ENDS if ends else HORIZON
        elif kind == FETCH_HIGH_WATERMARK and evidence.denied(offsets.low, latest):
            verdict, reason, latest = Verdict.UNKNOWN, DENIED, None
        lacked = signs.lacked_until(offsets.low)
        earliest = max(offsets.committed_us, lacked or 0)
        if latest is not None:
            earliest = min(earliest, latest)
        self._visibility_rows.add(
            **Variant(LOWEST_ACKED).what_if(RULE),
            request_id=write.row.request_id,
            broker_id=broker_id,
            evidence=kind,
            applied_at_earliest=min(earliest, write.until_us),
            applied_at_latest=latest,
            known_at=known_us,
            verdict=verdict,
            reason=reason,
        )


def _elapsed_ms(since: int, until: int | None) -> float | None:
    """Milliseconds; 0 for what had happened before."""
    return None if until is None else max(0, until - since) / 1000


def replayed(replay: LowestAckedOffset, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcomes]:
    """Feed all batches, then finish: the outcomes as they come."""
    for batch in batches:
        yield replay.feed(batch)
    yield replay.finish()

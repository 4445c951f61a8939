"""Outcomes of heartbeats, of writes under each variant, and of what each broker had applied."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from ..kafka.messages import LOWEST_ACKNOWLEDGED_OFFSET_BYTES
from ..log_gaps import Gaps
from ..model.brokers import FENCED_AFTER_US, BrokerHeartbeatManager, LowestAcknowledged
from ..model.raft import NO_RESPONSE
from ..records import REQUEST_ID, Outcome, Variant, Verdict
from ..table import (
    At,
    Bool,
    Int,
    Long,
    Ms,
    RequiredInt,
    RequiredLong,
    RequiredText,
    Text,
    column,
    key,
)
from .applying import Broker, Estimate
from .events import (
    API_VERSIONS,
    ESTIMATED,
    HEARTBEAT,
    HEARTBEAT_INTERVAL,
    HORIZON_US,
    LOWEST_ACKED,
    NAME,
    ClusterEvent,
    Undecided,
)
from .evidence import EVIDENCE, FETCH_HIGH_WATERMARK, BrokerEvidence
from .simulation import SIMULATED_ON_US
from .state import ClusterState
from .writes import Arrival, Front, Offsets, Write

#: What the recorded heartbeats give.
AS_RECORDED = Variant(LOWEST_ACKED)


class HeartbeatOutcome(Outcome, name="heartbeat_outcomes", rule=NAME):
    """Every recorded BROKER_HEARTBEAT and what its response would have carried."""

    request_id: RequiredText = REQUEST_ID
    controller_id: RequiredInt = column("controller that responded")
    broker_id: Int = column("broker that sent it")
    received_at: At = column("arrival")
    built_at: At = column("the response was built")
    current_metadata_offset: Long = column("last offset the broker has applied, inclusive")
    is_fenced: Bool = column("the broker after this heartbeat")
    unfenced_brokers: Int = column("brokers that count, after this heartbeat")
    lowest_acknowledged_offset: Long = column("that the response would carry; never falls")
    lowest_acknowledged_offset_raw: Long = column("as the controller would compute it")
    response_bytes: Long = column("recorded, on the wire: frame, header, body")
    replayed_response_bytes: Long = column("with the new field")


class WriteOutcome(Outcome, name="metadata_write_outcomes", rule=NAME):
    """Every successful metadata write, when it was applied and who knew."""

    request_id: RequiredText = REQUEST_ID
    controller_id: Int = column("controller that wrote it")
    api_name: Text = column("requestApiKeyName")
    client_id: Text = column("clientId of the request, also where a broker forwarded it")
    via_broker: Int = column("broker that forwarded it; null: sent to the controller")
    received_at: At = column("arrival at the broker that forwarded it, else the controller")
    responded_at: At = column("the controller had built the response")
    offset_low: Long = column("its last record's offset is at least this")
    offset_high: Long = column("and at most this")
    applied_everywhere_at: At = column(
        "every broker that counts had applied it: the latest that the evidence leaves;"
        " with a heartbeat interval: as modelled from when brokers learned of commits;"
        " variant estimated: every broker shows it, by shown_at of applied_offsets",
    )
    last_broker_id: Int = column("broker that others waited for, maybe until it was fenced")
    known_at: At = column("via_broker receives a lowest acknowledged offset >= the write's")
    known_everywhere_at: At = column("every broker that counts by then received one")
    stale_window_ms: Ms = column("today: from the response until applied everywhere")
    read_after_write_ms: Ms = column(
        "under the rule: from the request until via_broker"
        " (else every broker) knows it applied everywhere;"
        " variant estimated: until it was, whether anybody knew or not;"
        " null where the log does not have the request at via_broker",
    )


class VisibilityOutcome(Outcome, name="metadata_write_visibility", rule=NAME):
    """When each broker had applied a metadata write, by kind of evidence."""

    request_id: RequiredText = REQUEST_ID
    broker_id: RequiredInt = key("broker that applies it")
    evidence: RequiredText = key(
        "heartbeat, api_versions or fetch_high_watermark; estimated: no evidence, but when it"
        " was, between the FETCH response that carried the commit and a heartbeat",
    )
    applied_at_earliest: At = column(
        "last sign that it had not applied it, at the soonest the write's commit; estimated:"
        " the FETCH response that carried the commit was built",
    )
    applied_at_latest: At = column(
        "first sign that it had; fetch_high_watermark: its heartbeat, as no FETCH shows that",
    )
    shown_at: At = column("estimated: from then on its METADATA responses show it")
    applied_at: At = column("estimated: it has applied it, as its heartbeats would carry")
    known_at: At = column("the broker receives a lowest acknowledged offset >= the write's")


class AppliedOffset(Outcome, name="applied_offsets", rule=NAME):
    """When a broker learned of commits, showed them and had applied them."""

    broker_id: RequiredInt = key("the broker")
    metadata_offset: RequiredLong = key("it learned that all up to this one is committed")
    learned_at: At = column("the FETCH response that carried that was built")
    shown_at: At = column("estimate: from then on its METADATA responses show it")
    applied_at: At = column("estimate: it has applied it, as its heartbeats would carry")


class ShownEverywhere(Outcome, name="shown_everywhere", rule=NAME):
    """When all brokers that count showed an offset, whoever wrote it."""

    metadata_offset: RequiredLong = key("they show all up to this one")
    committed_at: At = column("the first above the row before was; null without KIP-1166")
    previous_learned_at: At = column("learned_at of the row before; null: unknown")
    learned_at: At = column("the first FETCH response that carried that was built")
    shown_at: At = column("estimate: from then on METADATA responses of the last show it")


#: In the order of the batches that are emitted.
OUTCOMES: tuple[type[Outcome], ...] = (
    HeartbeatOutcome,
    WriteOutcome,
    VisibilityOutcome,
    AppliedOffset,
    ShownEverywhere,
)
#: Columns of ``VisibilityOutcome`` that are null where it rests on lines that are missing.
VISIBLE = ("applied_at_earliest", "applied_at_latest", "shown_at", "applied_at", "known_at")


def heartbeat_outcome(
    row: ClusterEvent, response: LowestAcknowledged | None, uncertain: str = Undecided.LOG_GAP
) -> HeartbeatOutcome:
    """Makes the outcome of a heartbeat; without ``response`` it is an error, or ``uncertain``."""
    size = row.response_bytes
    outcome = HeartbeatOutcome(
        variant=AS_RECORDED,
        request_id=row.request_id,
        controller_id=row.node_id,
        broker_id=row.broker_id,
        received_at=row.received_us,
        built_at=row.at_us,
        current_metadata_offset=row.offset,
        is_fenced=row.is_fenced if row.error_code == 0 else None,
        response_bytes=size,
        replayed_response_bytes=size and size + LOWEST_ACKNOWLEDGED_OFFSET_BYTES,
    )
    if row.error_code == NO_RESPONSE:
        outcome.make_unknown(Undecided.RESPONSE_MISSING)
    elif row.error_code != 0:
        outcome.verdict, outcome.reason = Verdict.NOT_APPLICABLE, Undecided.NOT_ACTIVE
    elif response is None:
        outcome.make_unknown(uncertain)
    elif not response.is_certain:
        outcome.make_unknown(Undecided.SILENT)
    else:
        outcome.unfenced_brokers = response.active_brokers
        outcome.lowest_acknowledged_offset = response.offset
        outcome.lowest_acknowledged_offset_raw = response.raw
        if response.raw is None:
            outcome.verdict, outcome.reason = Verdict.NOT_APPLICABLE, Undecided.NOBODY_COUNTS
    return outcome


class FollowedWrite(NamedTuple):
    """A write whose outcomes are final."""

    write: Write
    state: ClusterState
    gaps: Gaps
    front: Front

    def outcomes(self) -> Iterator[WriteOutcome]:
        """Makes its outcome under each variant."""
        row, offsets = self.write.row, self.write.offsets
        arrival = self.state.forwarding.arrival(row)
        received_us = row.received_us if arrival.received_us is None else arrival.received_us
        for variant, manager in self.state.managers():
            outcome = WriteOutcome(
                variant=variant,
                request_id=row.request_id,
                controller_id=row.node_id,
                api_name=row.api_name,
                client_id=row.client_id,
                via_broker=arrival.via,
                received_at=received_us,
                responded_at=row.at_us,
            )
            if isinstance(offsets, Offsets):
                outcome.offset_low, outcome.offset_high = offsets.low, offsets.high
                self._follow(outcome, arrival, manager)
            else:
                outcome.make_unknown(offsets)
                if offsets == Undecided.NOTHING_WRITTEN:
                    outcome.verdict = Verdict.NOT_APPLICABLE
            yield outcome

    def _follow(
        self, outcome: WriteOutcome, arrival: Arrival, manager: BrokerHeartbeatManager
    ) -> None:
        """Fills in when it was applied, and known, under a variant, or why that is unknown."""
        variant, via, responded_us = outcome.variant, arrival.via, self.write.row.at_us
        unlearned = self.state.unlearned(self.write, variant)
        applied, last_broker = self.write.reached(manager.applied.everywhere)
        if variant.name == ESTIMATED:
            # No protocol informs anybody: a client that polls all brokers reads it everywhere then.
            readable = applied = applied if unlearned is None else None
            known = known_everywhere = None
            followed = [applied]
        else:
            acknowledged = None if via is None else manager.acknowledged_by.get(via)
            known, _ = self.write.reached(acknowledged)
            known_everywhere, _ = self.write.reached(manager.acknowledged.everywhere)
            # A broker that forwarded it waits until it knows, a client of the controller for all.
            readable = known_everywhere if via is None else known
            followed = [applied, known_everywhere, readable]
        # A simulated heartbeat is timed by the recorded ones around it.
        rests_us = SIMULATED_ON_US if variant.parameter == HEARTBEAT_INTERVAL else 0
        if not manager.is_warm(responded_us):
            outcome.make_unknown(self.state.beginning.uncertain)
            return
        if self.front.hides(followed, rests_us):
            outcome.make_unknown(Undecided.LOG_GAP)
            return
        outcome.applied_everywhere_at, outcome.last_broker_id = applied, last_broker
        outcome.known_at, outcome.known_everywhere_at = known, known_everywhere
        outcome.stale_window_ms = _elapsed_ms(responded_us, applied)
        outcome.read_after_write_ms = _elapsed_ms(arrival.received_us, readable)
        if applied is not None and readable is not None:
            if arrival.received_us is None:
                outcome.make_unknown(Undecided.NO_ARRIVAL)
        elif unlearned is not None:
            outcome.make_unknown(unlearned)
        elif applied is not None and known_everywhere is not None:
            outcome.verdict, outcome.reason = Verdict.NOT_APPLICABLE, Undecided.LEFT
        else:
            outcome.make_unknown(self.front.too_late(self.write))

    def visibility(self) -> Iterator[VisibilityOutcome]:
        """Makes its outcomes at each broker that was there: an estimate, and one by evidence."""
        write, state, offsets = self.write, self.state, self.write.offsets
        if not isinstance(offsets, Offsets):
            return
        for broker_id in sorted(state.recorded.brokers):
            broker = state.broker(broker_id)
            if not broker.evidence.is_seen_between(
                write.row.at_us - FENCED_AFTER_US, write.until_us
            ):
                continue
            known_us, _ = write.reached(state.recorded.acknowledged_by.get(broker_id))
            evidence = broker.evidence
            for kind in (ESTIMATED, *EVIDENCE):
                bounds = evidence.bounds[API_VERSIONS if kind == API_VERSIONS else HEARTBEAT]
                latest, _ = write.reached(bounds.applied)
                # That no client connected shows nothing, nor that the active controller's own
                # broker sent no FETCH.
                is_own = (kind, broker_id) == (FETCH_HIGH_WATERMARK, write.row.node_id)
                if is_own or (latest is None and kind == API_VERSIONS):
                    continue
                outcome = VisibilityOutcome(
                    variant=AS_RECORDED,
                    request_id=write.row.request_id,
                    broker_id=broker_id,
                    evidence=kind,
                    applied_at_latest=latest,
                    known_at=known_us,
                )
                if kind == ESTIMATED:
                    self._estimate(outcome, offsets, broker)
                else:
                    self._bound(outcome, offsets, evidence)
                self._hide(outcome)
                yield outcome

    def _estimate(self, outcome: VisibilityOutcome, offsets: Offsets, broker: Broker) -> None:
        """Fills in the estimate, between the response with the commit and a heartbeat with it."""
        latest = outcome.applied_at_latest
        estimate = broker.estimate_of(offsets.high, latest)
        if estimate is None:
            estimate = Estimate(offsets.high, offsets.committed_us, reason=Undecided.NOT_CARRIED)
        elif estimate.applied_us is not None and estimate.applied_us > self.write.until_us:
            estimate = estimate.unknown(Undecided.HORIZON)
        outcome.applied_at_earliest = min(estimate.learned_us, latest or estimate.learned_us)
        outcome.shown_at, outcome.applied_at = estimate.shown_us, estimate.applied_us
        if estimate.reason is not None:
            outcome.make_unknown(estimate.reason)

    def _bound(
        self, outcome: VisibilityOutcome, offsets: Offsets, evidence: BrokerEvidence
    ) -> None:
        """Fills in until when evidence shows that the broker had not applied it."""
        if outcome.applied_at_latest is None:
            outcome.make_unknown(self.front.too_late(self.write))
        not_applied_us = evidence.bounds[outcome.evidence].not_applied.until_us(offsets.low)
        until_us = outcome.applied_at_latest or self.write.until_us
        outcome.applied_at_earliest = min(max(offsets.committed_us, not_applied_us), until_us)

    def _hide(self, outcome: VisibilityOutcome) -> None:
        """Makes an outcome unknown that lines which are not in the log may have decided."""
        kind, latest, hidden = outcome.evidence, outcome.applied_at_latest, None
        applied = outcome.applied_at if kind == ESTIMATED else latest
        if not self.state.recorded.is_warm(self.write.row.at_us):
            hidden = self.state.beginning.uncertain
        elif self.front.is_gap and None in (latest, applied, outcome.known_at):
            hidden = Undecided.LOG_GAP
        if kind == API_VERSIONS and latest is not None:
            since_us = outcome.applied_at_earliest or 0
            outcome.rest_on_lines(self.gaps, outcome.broker_id, since_us, latest, *VISIBLE)
        if hidden is not None and (
            outcome.verdict is not Verdict.UNKNOWN or outcome.shown_at is not None
        ):
            outcome.make_unknown(hidden, VISIBLE)


def _elapsed_ms(since: int | None, until: int | None) -> float | None:
    """Returns milliseconds; 0 for what had happened before."""
    return None if since is None or until is None else max(0, until - since) / 1000


def applied_offset(broker_id: int, estimate: Estimate) -> AppliedOffset:
    """Makes the outcome of what a broker learned to be committed up to an offset."""
    outcome = AppliedOffset(
        variant=AS_RECORDED,
        broker_id=broker_id,
        metadata_offset=estimate.offset,
        learned_at=estimate.learned_us,
        shown_at=estimate.shown_us,
        applied_at=estimate.applied_us,
    )
    if estimate.reason is not None:
        outcome.make_unknown(estimate.reason)
    return outcome


def shown_everywhere(state: ClusterState) -> Iterator[ShownEverywhere]:
    """Makes the outcomes of what all brokers that count show, step by step since the last one."""
    steps = state.estimated.manager.applied.everywhere
    begin = bisect_right(steps.values, state.shown_everywhere.offset)
    for at, offset in zip(steps.at[begin:], steps.values[begin:], strict=True):
        before, brokers = state.shown_everywhere, state.brokers.values()
        estimates = [e for broker in brokers if (e := broker.estimate_of(offset, None))]
        learned_us = max(before.learned_us, min((e.learned_us for e in estimates), default=at))
        # A high watermark is exclusive: this one is the first to commit more than ``before``.
        committed = state.committed.high_watermark.reached(before.offset + 2) or (learned_us, -1)
        is_aware = before.learned_us > 0 and all(e.hwm_aware for e in estimates)
        outcome = ShownEverywhere(
            variant=Variant(ESTIMATED),
            metadata_offset=offset,
            committed_at=committed[0] if is_aware else None,
            previous_learned_at=before.learned_us or None,
            learned_at=learned_us,
            shown_at=at,
        )
        reason = state.unestimated(offset, at + HORIZON_US)
        if reason is not None:
            outcome.make_unknown(reason, ["shown_at"])
        state.shown_everywhere = Estimate(offset, learned_us if reason is None else 0)
        yield outcome

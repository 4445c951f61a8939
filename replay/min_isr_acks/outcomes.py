"""Outcomes of min_isr_acks: partitions of PRODUCEs, and PRODUCEs of producers that react."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from ..records import NODE_ID, REQUEST_ID, Outcome, Record, Variant, Verdict
from ..table import At, Bool, Int, Ints, Long, Ms, RequiredInt, RequiredText, Text, column, key
from .produces import Append, LedPartition, OpenBatch, Request, UnderVariant
from .responses import ACKS_0, Latency, LeaderEvidence, ProduceResponse, Refusal, refusal

NAME = "min_isr_acks"
#: The rule's variant; its parameter is ``none`` (the config in force) or ``SWEPT``.
ACKS_MIN_INSYNC_REPLICAS = "acks_min_insync_replicas"
#: What summaries call the replay of acks=all; its columns are in the same rows.
ACKS_ALL = "acks_all"
#: The parameter that a sweep varies, as options and manifests name it, too.
SWEPT = "min_insync_replicas"

_SLOWEST = "the request's slowest partition"
_EARLIEST = "98 % bound: the least that the log allows"
_LATEST = "98 % bound: the most that the log allows"


def variants(min_insync_replicas: Sequence[int] = ()) -> list[Variant]:
    """Returns the rule with the config in force, then with each value for all topics."""
    swept = [Variant(ACKS_MIN_INSYNC_REPLICAS, SWEPT, value) for value in min_insync_replicas]
    return [Variant(ACKS_MIN_INSYNC_REPLICAS), *swept]


class RecordedBatch(Record):
    """A partition of a PRODUCE as recorded: the same under all variants."""

    request_id: RequiredText = REQUEST_ID
    node_id: RequiredInt = NODE_ID
    topic: RequiredText = key("topic name, else topic id")
    partition: RequiredInt = key("partition index")
    client_id: Text = column("clientId, null if the client sent none")
    acks: Int = column("as recorded: -1 all, 0, 1")
    is_transactional: Bool = column("has a transactionalId")
    is_idempotent: Bool = column("null where no transactionalId or INIT_PRODUCER_ID shows it")
    record_bytes: Long = column("records of this partition")
    received_at: At = column("arrival of the request")
    appended_at: At = column("the leader's log has the batch")
    built_at: At = column("the recorded response was built")
    base_offset: Long = column("first offset of the batch; null where the log can't tell")
    last_offset: Long = column("last offset of the batch; null where the log can't tell")
    isr: Ints = column("committed ISR at the append, ascending; null: not known")
    recorded_error: Int = column("Kafka's error code in the log; null without a response")
    partition_recorded_latency_ms: Ms = column("of a request with this partition only")
    request_recorded_latency_ms: Ms = column("arrival until the response was built")


class ProduceAckOutcome(Outcome, name="produce_ack_outcomes", rule=NAME, shares=(RecordedBatch,)):
    """Every partition of a PRODUCE, recorded, with acks=all and with acks=min.insync.replicas."""

    min_insync_replicas: Int = column("in force at the append")
    all_isr_acked_at: At = column("the high watermark passed it: acks=all gets its response")
    min_isr_acked_at: At = column("min.insync.replicas replicas had it")
    visible_at: At = column("consumers can see it: the high watermark passed it")
    acks_all_follower_id: Int = column("whose FETCH completes acks=all; null: nobody's")
    acks_all_fetch_id: Text = column("that FETCH's key in requests")
    min_isr_follower_id: Int = column("whose FETCH completes acks=-2; null: nobody's")
    min_isr_fetch_id: Text = column("that FETCH's key in requests")
    missing_followers: Ints = column("in the ISR at the append; acks=all came without")
    acks_all_error: Int = column("error code with acks=all; null: not known")
    min_isr_error: Int = column("error code with acks=min.insync.replicas; null: not known")
    partition_acks_all_latency_ms: Ms = column("arrival until the response with acks=all")
    partition_min_isr_latency_ms: Ms = column("arrival until the response with acks=-2")
    request_acks_all_latency_ms: Ms = column(_SLOWEST)
    request_acks_all_latency_earliest_ms: Ms = column(_EARLIEST)
    request_acks_all_latency_latest_ms: Ms = column(_LATEST)
    request_min_isr_latency_ms: Ms = column(_SLOWEST)
    request_min_isr_latency_earliest_ms: Ms = column(_EARLIEST)
    request_min_isr_latency_latest_ms: Ms = column(_LATEST)
    replicas_at_min_isr_ack: Int = column("replicas, leader included, that had it then")
    min_insync_replicas_at_ack: Int = column("min.insync.replicas in force at the early ack")
    exposure_ms: Ms = column("from the early ack until the whole ISR had it")


class ProduceClosedLoopOutcome(Outcome, name="produce_closed_loop_outcomes", rule=NAME):
    """Every PRODUCE that waited for all replicas, in a cluster whose producers react: where a
    response comes earlier, they send the PRODUCE that waited for it as soon as it was ready.
    """

    request_id: RequiredText = REQUEST_ID
    node_id: RequiredInt = NODE_ID
    client_id: Text = column("clientId, null if the client sent none")
    is_own: Bool = column("came more than 20 ms after its connection's previous response")
    recorded_received_at: At = column("arrival in the log")
    received_at: At = column("arrival in the other cluster, estimated")
    request_recorded_latency_ms: Ms = column("arrival until the response was built")
    latency_ms: Ms = column("in the other cluster: the estimate")
    latency_sent_earliest_ms: Ms = column("if all were sent as early as the log allows")
    latency_sent_latest_ms: Ms = column("if all were sent as late as the log allows")
    error_code: Int = column("Kafka's error code of the response; null: not known")


class Responses(NamedTuple):
    """A batch under one variant, its responses, and why one of them is unknown, if it is."""

    under: UnderVariant
    acks_all: ProduceResponse
    acks_min_isr: ProduceResponse

    @property
    def reason(self) -> str | None:
        return self.acks_all.reason or self.acks_min_isr.reason

    @property
    def latencies(self) -> list[Latency]:
        return [self.acks_all.latency, self.acks_min_isr.latency]


class Produced(NamedTuple):
    """A PRODUCE that nothing changes any more: its batches, and each one's responses by variant.

    ``slowest``: by variant, the latencies of the request under both acks, which are those of its
    slowest batch.
    """

    request: Request
    led: Sequence[LedPartition]
    batches: Sequence[OpenBatch]
    responses: list[list[Responses]]
    slowest: list[list[Latency]]

    @classmethod
    def by(
        cls,
        evidence: LeaderEvidence,
        request: Request,
        led: Sequence[LedPartition],
        batches: Sequence[OpenBatch],
    ) -> "Produced":
        responses = [_responses(request, batch, evidence) for batch in batches]
        slowest = [own.latencies for own in responses[0]]
        for others in responses[1:]:
            for latencies, own in zip(slowest, others, strict=True):
                latencies[:] = map(Latency.or_slower, latencies, own.latencies)
        return cls(request, led, batches, responses, slowest)


def _responses(request: Request, batch: OpenBatch, evidence: LeaderEvidence) -> list[Responses]:
    # Variants that the same object has acknowledged have their response in common.
    known: dict[tuple[int, Refusal | None], ProduceResponse] = {}
    responses: list[Responses] = []
    for under in batch.variants:
        if responses and under == responses[0].under:
            responses.append(responses[0])  # the config in force is one of those swept
            continue
        refused, of_acks = refusal(batch, under.min_isr), []
        for by in (under.acks_all, under.acks_min_isr):
            key = id(by), refused
            if key not in known:
                known[key] = evidence.respond(request, batch, by, refused)
            of_acks.append(known[key])
        responses.append(Responses(under, *of_acks))
    return responses


def ack_outcomes(
    produced: Produced, variants: Sequence[Variant], evidence: LeaderEvidence
) -> Iterator[tuple[RecordedBatch, list[tuple[ProduceAckOutcome, list[Variant]]]]]:
    """Yields each batch of a PRODUCE, and its outcomes, each with the variants that have it."""
    request, is_only = produced.request, len(produced.batches) == 1
    for batch, responses in zip(produced.batches, produced.responses, strict=True):
        recorded = _recorded(request, batch, evidence, is_only=is_only)
        outcomes: list[tuple[ProduceAckOutcome, list[Variant]]] = []
        for variant, own, slowest in zip(variants, responses, produced.slowest, strict=True):
            if outcomes and own is responses[0] and slowest == produced.slowest[0]:
                outcomes[0][1].append(variant)
                continue
            outcome = _outcome(request, variant, own, slowest)
            outcome.visible_at = evidence.visible_us(batch, own.acks_all.enough_us)
            outcomes.append((outcome, [variant]))
        yield recorded, outcomes


def _recorded(
    request: Request, batch: OpenBatch, evidence: LeaderEvidence, *, is_only: bool
) -> RecordedBatch:
    """Makes the columns of a batch as recorded; ``is_only``: its PRODUCE has no other."""
    event, (topic, partition) = request.event, batch.partition
    recorded_ms = _ms(event.received_us, event.built_us)
    return RecordedBatch(
        request_id=event.request_id,
        node_id=evidence.node_id,
        topic=topic,
        partition=partition,
        client_id=event.client_id,
        acks=event.acks,
        is_transactional=event.is_transactional,
        is_idempotent=event.is_idempotent,
        record_bytes=batch.record_bytes,
        received_at=event.received_us,
        appended_at=batch.appended_us if batch.is_appended and request.gets_response else None,
        built_at=event.built_us,
        base_offset=None if batch.append is Append.REFUSED else batch.base_offset,
        last_offset=evidence.last_offset(batch),
        isr=batch.isr,
        recorded_error=batch.error_code,
        partition_recorded_latency_ms=recorded_ms if is_only else None,
        request_recorded_latency_ms=recorded_ms,
    )


def _outcome(
    request: Request, variant: Variant, own: Responses, slowest: Sequence[Latency]
) -> ProduceAckOutcome:
    """Makes the outcome of a batch under one variant; ``slowest``: of its request."""
    under, full, early = own
    slowest_full, slowest_early = slowest
    outcome = ProduceAckOutcome(
        variant=variant,
        min_insync_replicas=under.min_isr,
        all_isr_acked_at=full.passed_us,
        min_isr_acked_at=early.passed_us,
        acks_all_follower_id=full.follower_id,
        acks_all_fetch_id=full.fetch_id,
        min_isr_follower_id=early.follower_id,
        min_isr_fetch_id=early.fetch_id,
        missing_followers=under.missing,
        acks_all_error=full.error,
        min_isr_error=early.error,
        partition_acks_all_latency_ms=full.latency.ms,
        partition_min_isr_latency_ms=early.latency.ms,
        request_acks_all_latency_ms=slowest_full.ms,
        request_acks_all_latency_earliest_ms=slowest_full.earliest_ms,
        request_acks_all_latency_latest_ms=slowest_full.latest_ms,
        request_min_isr_latency_ms=slowest_early.ms,
        request_min_isr_latency_earliest_ms=slowest_early.earliest_ms,
        request_min_isr_latency_latest_ms=slowest_early.latest_ms,
    )
    if not request.gets_response:
        outcome.verdict, outcome.reason = Verdict.NOT_APPLICABLE, ACKS_0
    elif own.reason:
        outcome.make_unknown(own.reason)
    if early.is_acknowledged:
        outcome.replicas_at_min_isr_ack = under.copies
        outcome.min_insync_replicas_at_ack = under.needed
        outcome.exposure_ms = _ms(early.passed_us, full.passed_us)
    return outcome


def _ms(since_us: int | None, until_us: int | None) -> float | None:
    return None if since_us is None or until_us is None else (until_us - since_us) / 1000

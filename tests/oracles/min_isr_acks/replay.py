"""The whole replay of min_isr_acks: one leader's log in, outcomes out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pyarrow as pa

from kip_replay.replay.min_isr_acks.brokers import Applied, Brokers, Standing
from kip_replay.replay.min_isr_acks.configs import MinIsrConfig
from kip_replay.replay.min_isr_acks.events import Event, Kind, Partition, events_of
from kip_replay.replay.min_isr_acks.tables import PRODUCE_ACK_OUTCOMES
from kip_replay.replay.outcomes import Rows, Variant, Verdict
from oracles.min_isr_acks.answers import (
    FENCED_WHEN,
    INVALID_REQUIRED_ACKS,
    LOG_ENDED,
    NONE,
    REQUEST_TIMED_OUT,
    Answer,
    acks_all,
    acks_min_isr,
    refused,
    visible_us,
)
from oracles.min_isr_acks.consumers import AFTER_ANSWER_US, Change, Consumers
from oracles.min_isr_acks.partition_log import APPLY_US_MAX, Batch, PartitionLeader, Span, moment

RULE = "min_isr_acks"
#: The rule's variant; its parameter is none (the config in force) or min_insync_replicas.
ACKS_MIN_INSYNC_REPLICAS = "acks_min_insync_replicas"
#: What summaries call the replay of acks=all; its columns stand in the same rows.
ACKS_ALL = "acks_all"
SWEPT = "min_insync_replicas"

#: acks of a PRODUCE that waits for the whole ISR (acks=all).
ALL_REPLICAS = -1
#: Outcomes are asked for in steps of the log's time, so that they depend on the log alone.
STEP_US = 1_000_000
#: A batch is left alone this long: lines a few milliseconds apart may be out of order.
SETTLE_US = 5_000_000
#: How long after its timeout a batch may still be followed, for its exposure and last offset.
FOLLOWED_US_MAX = 60_000_000
#: METADATA that contradicts what is known is believed if that is older.
STALE_US = 2_000_000

ACKS_SCHEMA = PRODUCE_ACK_OUTCOMES.without("recording")


def variants(min_insync_replicas: Sequence[int] = ()) -> list[Variant]:
    """The rule with the config in force, then with each value for all topics."""
    swept = [Variant(ACKS_MIN_INSYNC_REPLICAS, SWEPT, str(value)) for value in min_insync_replicas]
    return [Variant(ACKS_MIN_INSYNC_REPLICAS), *swept]


class Outcomes(NamedTuple):
    """What a replay hands out: rows of produce_ack_outcomes, all columns but the recording."""

    acks: pa.RecordBatch


@dataclass
class Waiting:
    """A PRODUCE of which not all partitions are settled."""

    event: Event
    batches: list[tuple[str, Partition, Batch, PartitionLeader]]
    answers: list[list[tuple[Answer, Answer]]] = field(default_factory=list)
    open: int = 0


class MinIsrAcks:
    """The replay of one node's log: feed it events of ``INPUT_SCHEMA``.

    ``default_min_isr`` is min.insync.replicas where the log says nothing (manifest), or None.
    Events come in order of (at_us, kind_order, request_id); anything else raises ``ValueError``.
    """

    def __init__(
        self, node_id: int, rules: Sequence[Variant], default_min_isr: int | None = None
    ) -> None:
        self._node_id = node_id
        self._variants = list(rules)
        self._configs = MinIsrConfig(default_min_isr)
        self._altered: list[Event] = []
        self._topic_names: dict[str, str] = {}
        self._partitions: dict[tuple[str, int], PartitionLeader] = {}
        self._brokers = Brokers(self._partitions_with)
        self._consumers = Consumers()
        self._last_fetch: dict[tuple[int, int], int] = {}
        self._waiting: list[Waiting] = []
        self._rows = Rows(ACKS_SCHEMA)
        self._front: tuple[int, int, str] = (-1, 0, "")

    def feed(self, batch: pa.RecordBatch) -> Outcomes:
        """Take a piece of log and return the outcomes that nothing still to come can change."""
        events = events_of(batch)
        for event in events:
            # Names of topics are true at all times, whenever they are told.
            if event.kind == Kind.TOPIC:
                self._topic_names[event.value or ""] = event.name or ""
        for event in events:
            if event.kind == Kind.TOPIC:
                continue
            front = (event.at_us, event.kind_order, event.request_id)
            if front < self._front:
                raise ValueError("events must come in order of at_us, kind_order, request_id")
            if event.at_us // STEP_US != self._front[0] // STEP_US:
                self._settle(event.at_us)
            self._front = front
            self._take(event)
        return Outcomes(self._rows.take())

    def finish(self) -> Outcomes:
        """The log is over: return what is left."""
        self._apply(self._brokers.close())
        self._settle(self._front[0], over=True)
        return Outcomes(self._rows.take())

    # --- events ----------------------------------------------------------------------------------

    def _take(self, event: Event) -> None:
        match event.kind:
            case Kind.PRODUCE:
                self._produce(event)
            case Kind.FETCH:
                self._fetch(event)
            case Kind.CONSUMER_FETCH:
                self._consumers.fetch(event, list(map(self._change, event.partitions or ())))
            case Kind.METADATA_FETCH:
                self._apply(self._brokers.metadata_fetch(event))
                self._apply_configs(event.at_us)
            case Kind.HEARTBEAT:
                self._apply(self._brokers.heartbeat(event))
            case Kind.CONFIG:
                self._altered.append(event)
                self._apply_configs(event.at_us)
            case _:
                for partition in event.partitions or ():
                    self._fact(event, partition, self._leader(partition)[1])

    def _key(self, partition: Partition) -> tuple[str, int]:
        name = partition.topic
        if name is None:
            topic_id = partition.topic_id or ""
            name = self._topic_names.get(topic_id, topic_id)
        # A fact may name a topic by its id where the name is meant.
        return self._topic_names.get(name, name), partition.partition

    def _change(self, partition: Partition) -> Change:
        return Change(self._key(partition), bool(partition.is_forgotten))

    def _leader(self, partition: Partition) -> tuple[str, PartitionLeader]:
        key = self._key(partition)
        leader = self._partitions.get(key)
        if leader is None:
            leader = PartitionLeader(self._node_id, self._brokers.may_join, self._min_isrs(key[0]))
            self._partitions[key] = leader
        return key[0], leader

    def _min_isrs(self, topic: str) -> list[int | None]:
        return [
            self._configs.of(topic) if v.parameter == "none" else int(v.parameter_value)
            for v in self._variants
        ]

    def _produce(self, event: Event) -> None:
        waiting = Waiting(event, [])
        for partition in event.partitions or ():
            name, leader = self._leader(partition)
            leader.places.has_markers |= bool(event.is_transactional)
            at = event.handled_us or event.at_us
            batch = leader.produce(
                at,
                partition.base_offset,
                self._fetched_last,
                begun_us=event.dequeued_us,
                record_bytes=partition.record_bytes,
                was_checked=event.acks == ALL_REPLICAS,
            )
            leader.evaluate(moment(at))
            waiting.batches.append((name, partition, batch, leader))
        self._waiting.append(waiting)

    def _fetched_last(self, replica_id: int, session_id: int) -> int:
        return self._last_fetch.get((replica_id, session_id), 0)

    def _fetch(self, event: Event) -> None:
        assert event.replica_id is not None
        assert event.dequeued_us is not None
        session = event.session_id or 0
        span = Span(event.at_us, event.dequeued_us, event.handled_us or event.at_us)
        last_us = max(span.at_us, span.latest_us - AFTER_ANSWER_US)
        self._last_fetch[event.replica_id, session] = event.at_us
        epoch = -1 if event.replica_epoch is None else event.replica_epoch
        for partition in event.partitions or ():
            if partition.is_refused:
                continue
            name, leader = self._leader(partition)
            if partition.fetch_offset is not None:
                leader.in_epoch(partition.leader_epoch)
                woken = self._consumers.is_parked((name, partition.partition), span.earliest_us)
                leader.fetch(
                    span,
                    event.replica_id,
                    partition.fetch_offset,
                    epoch,
                    session,
                    span._replace(at_us=last_us) if woken else None,
                )
            leader.sent(event.replica_id, partition.record_bytes or 0)

    def _apply_configs(self, at_us: int) -> None:
        """Take configs that were told, and those that were altered and are applied by now."""
        kept = []
        for event in self._altered:
            told = event.operation == "describe" or event.built_us is None
            if not told and not self._brokers.committed_after(event.built_us or 0):
                kept.append(event)
                continue
            topic = self._configs.take(event)
            for (name, _), leader in self._partitions.items():
                if topic in ("", name):
                    leader.min_isrs = self._min_isrs(name)
                    leader.evaluate(moment(at_us))
        self._altered = kept

    def _apply(self, changes: Iterable[Applied]) -> None:
        """Brokers were fenced, stopped or came back: every ISR may be another one."""
        for at_us, broker, standing in changes:
            for leader in self._partitions.values():
                if standing is Standing.UNFENCED:
                    continue
                if broker == self._node_id and leader.leads and self._has_heir(leader):
                    leader.lose(at_us)
                leader.remove(Span(at_us, at_us, at_us + APPLY_US_MAX), broker)

    def _has_heir(self, leader: PartitionLeader) -> bool:
        others = (leader.isr or frozenset()) - {self._node_id}
        return any(self._brokers.is_active(other) for other in others)

    def _partitions_with(self, broker: int) -> int:
        return sum(broker in (leader.isr or ()) for leader in self._partitions.values())

    def _fact(self, event: Event, told: Partition, leader: PartitionLeader) -> None:
        isr = None if told.isr is None else frozenset(told.isr)
        if told.replicas:
            leader.replicas = frozenset(told.replicas)
        if event.kind == Kind.ISR_ASKED:
            if isr is not None and leader.isr is not None:
                leader.join(isr - leader.isr)
        elif event.kind == Kind.ISR_ANSWERED:
            leader.commit_isr(moment(event.at_us), isr)
        elif isr and self._believes(event, told, leader):
            leader.commit_isr(moment(event.at_us), isr)
            if told.leader_id is not None:
                leader.told_leader(event.at_us, told.leader_id, told.leader_epoch or 0)

    def _believes(self, event: Event, told: Partition, leader: PartitionLeader) -> bool:
        """METADATA may be old: an ISR or a leader that it tells is not always today's."""
        if leader.isr is None:
            return True
        if event.replica_id is not None and not self._brokers.is_active(event.replica_id):
            return False
        old = told.leader_epoch is not None and told.leader_epoch < leader.leader_epoch
        return not old and event.at_us - leader.changed_us > STALE_US

    # --- outcomes --------------------------------------------------------------------------------

    def _settle(self, front_us: int, *, over: bool = False) -> None:
        """Write the requests that nothing still to come can change; all of them if it is over."""
        kept: list[Waiting] = []
        settled: dict[int, tuple[PartitionLeader, list[Batch]]] = {}
        for waiting in self._waiting:
            if not over and not self._is_settled(waiting, front_us):
                kept.append(waiting)
                continue
            self._write(waiting, front_us)
            for _, _, batch, leader in waiting.batches:
                settled.setdefault(id(leader), (leader, []))[1].append(batch)
        self._waiting = kept
        for leader, batches in settled.values():
            leader.settle(batches)

    def _is_settled(self, waiting: Waiting, front_us: int) -> bool:
        at = waiting.event.handled_us or waiting.event.at_us
        if front_us - at < SETTLE_US:
            return False
        timeout = waiting.event.timeout_us or 0
        if front_us - at > timeout + FOLLOWED_US_MAX:
            return True
        return all(self._is_decided(batch, front_us) for _, _, batch, _ in waiting.batches)

    def _is_decided(self, batch: Batch, front_us: int) -> bool:
        if not batch.levels or batch.lost_us is not None:
            return True
        if (batch.base_offset is not None and batch.base_offset < 0) or batch.isr is None:
            return True
        known = batch.ceiling if batch.base_offset is None else batch.next_base_offset
        if known is None:
            return False
        last = batch.floor if batch.base_offset is not None else known
        return all(
            k is None
            or len(batch.isr) < k
            or (levels.committed.answered(last, front_us) and levels.copied.passed(last))
            for k, levels in zip(batch.min_isrs, batch.levels, strict=True)
        )

    def _answers(self, waiting: Waiting, index: int, front_us: int) -> list[tuple[Answer, Answer]]:
        timeout = waiting.event.timeout_us or 0
        found = []
        for _, _, batch, _ in waiting.batches:
            early = refused(batch, index, batch.min_isrs[0])
            if early is not None:
                found.append((early, early))
                continue
            every = self._certain(batch, acks_all(batch, index, timeout), front_us)
            few = self._certain(batch, acks_min_isr(batch, index, timeout), front_us)
            found.append((every, few))
        return found

    def _certain(self, batch: Batch, answer: Answer, front_us: int) -> Answer:
        """Take back what the log's end or an unclear fencing leaves open."""
        if answer.span is None:
            return answer
        at = answer.span.at_us
        if answer.error == REQUEST_TIMED_OUT and at > front_us:
            return Answer(None, None, reason=LOG_ENDED)
        for doubt in self._brokers.doubts:
            waited = batch.appended_us < doubt.until_us and at >= doubt.since_us
            if waited and at <= doubt.until_us:
                return Answer(None, None, reason=FENCED_WHEN)
        return answer

    def _write(self, waiting: Waiting, front_us: int) -> None:
        for index, variant in enumerate(self._variants):
            answers = self._answers(waiting, index, front_us)
            slowest = [_slowest([pair[which] for pair in answers]) for which in (0, 1)]
            for place, pair in zip(waiting.batches, answers, strict=True):
                self._rows.add(
                    **variant.what_if(RULE),
                    **_request_columns(waiting, self._node_id),
                    **_partition_columns(place, index),
                    **_answer_columns(waiting.event, place[2], pair, slowest),
                    visible_at=visible_us(place[2], index),
                )


def _slowest(answers: list[Answer]) -> Span | None:
    """When a request would be answered: with its last partition; None if one is unknown."""
    spans = [answer.span for answer in answers if answer.span is not None]
    if len(spans) < len(answers) or not spans:
        return None
    return Span(*(max(bounds) for bounds in zip(*spans, strict=True)))


def _request_columns(waiting: Waiting, node_id: int) -> dict[str, object]:
    event = waiting.event
    recorded = None if event.built_us is None else _ms(moment(event.built_us), event)
    return {
        "request_id": event.request_id,
        "node_id": node_id,
        "client_id": event.client_id,
        "acks": event.acks,
        "is_transactional": event.is_transactional,
        "is_idempotent": event.is_idempotent,
        "received_at": event.received_us,
        "built_at": event.built_us,
        "todays_min_isr_error": INVALID_REQUIRED_ACKS,
        "request_recorded_latency_ms": recorded,
        "partition_recorded_latency_ms": recorded if len(waiting.batches) == 1 else None,
    }


def _partition_columns(
    place: tuple[str, Partition, Batch, PartitionLeader], index: int
) -> dict[str, object]:
    name, partition, batch, leader = place
    base = batch.base_offset
    if base is None and batch.ceiling == batch.floor:
        base = batch.floor
    following = batch.next_base_offset
    # Transaction markers and acks=0 lie between batches without a trace of their own.
    certain = (
        following is not None and not leader.places.has_markers and not batch.is_followed_blind
    )
    return {
        "topic": name,
        "partition": partition.partition,
        "record_bytes": partition.record_bytes,
        "base_offset": None if base is None or base < 0 else base,
        "last_offset": following - 1 if certain and following is not None else None,
        "appended_at": None if base is not None and base < 0 else batch.appended_us,
        "min_insync_replicas": batch.min_isrs[index],
        "isr": None if batch.isr is None else list(batch.isr),
        "recorded_error": partition.error_code,
    }


def _answer_columns(
    event: Event, batch: Batch, pair: tuple[Answer, Answer], slowest: list[Span | None]
) -> dict[str, object]:
    every, few = pair
    exposed = (
        (every.passed_us - few.passed_us) / 1000
        if every.passed_us is not None and few.error == NONE and few.passed_us is not None
        else None
    )
    copies = None
    if few.error == NONE and few.passing is not None:
        copies = 1 + sum(offset > batch.floor for offset in few.passing.offsets)
    reason = every.reason or few.reason
    return {
        "all_isr_acked_at": every.passed_us,
        "min_isr_acked_at": few.passed_us,
        "acks_all_error": every.error,
        "min_isr_error": few.error,
        "partition_acks_all_latency_ms": _ms(every.span, event),
        "partition_min_isr_latency_ms": _ms(few.span, event),
        **_bounded("request_acks_all_latency", slowest[0], event),
        **_bounded("request_min_isr_latency", slowest[1], event),
        "replicas_at_min_isr_ack": copies,
        "exposure_ms": exposed,
        "verdict": Verdict.UNKNOWN if reason else Verdict.REPLAYED,
        "reason": reason,
    }


def _bounded(name: str, span: Span | None, event: Event) -> dict[str, object]:
    at = ("", "_earliest", "_latest")
    bounds = (None,) * 3 if span is None else tuple(map(moment, span))
    return {f"{name}{which}_ms": _ms(b, event) for which, b in zip(at, bounds, strict=True)}


def _ms(span: Span | None, event: Event) -> float | None:
    if span is None or event.received_us is None:
        return None
    return (span.at_us - event.received_us) / 1000


def replayed(replay: MinIsrAcks, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcomes]:
    """Feed all batches, then finish: the outcomes as they come."""
    for batch in batches:
        yield replay.feed(batch)
    yield replay.finish()

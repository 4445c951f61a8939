"""Plays a history on ``Leader`` and checks every response."""

from kip_replay.replay.hwm_parking import NOT_SENT
from kip_replay.replay.hwm_parking.kip_1166 import Completion, Fetch, Leader, Replica, Response

from .grammar import (
    Appends,
    Completed,
    DrainsNoBatch,
    Event,
    Fetches,
    History,
    NotationError,
    Outcome,
    Passes,
    Resigns,
    RollsSegment,
    Scene,
    Step,
    parse,
)


def check(text: str) -> None:
    """Play a history under each of its rules; ``AssertionError`` where the leader disagrees."""
    history = parse(text)
    for position, hwm_aware in enumerate(history.scene.rules):
        _Player(history, hwm_aware).play(position)


def leader_of(scene: Scene, hwm_aware: bool) -> Leader:
    return Leader(
        hwm_aware=hwm_aware,
        leader_epoch=scene.epoch,
        voters=frozenset(scene.voters) - {scene.leader},
        voter_count=len(scene.voters),
        epoch_start_offset=scene.epoch_start_offset,
        log_end_offset=scene.log_end_offset,
        log_start_offset=scene.log_start_offset,
        epoch_ends=dict(scene.epoch_ends),
        snapshot=scene.snapshot,
        high_watermark=scene.high_watermark,
    )


class _Player:
    """One leader, the replicas after their responses, and how long the parked still wait."""

    def __init__(self, history: History, hwm_aware: bool) -> None:
        self._history = history
        self._rule = "with KIP-1166" if hwm_aware else "without KIP-1166"
        self._leader = leader_of(history.scene, hwm_aware)
        self._replicas: dict[int, Replica] = {}
        self._wait_ms: dict[int, int] = {}
        self._tokens = 0

    @property
    def _parked(self) -> list[Fetch]:
        return [response.fetch for response in self._leader.parked.values()]

    def play(self, position: int) -> None:
        for step in self._history.steps:
            responses = self._cause(step, step.event)
            for response in responses:
                replica = self._replicas[response.fetch.replica_id]
                replica.receive(response, self._leader)
            self._compare(step, step.outcomes[position], responses)

    def _cause(self, step: Step, event: Event) -> list[Response]:
        match event:
            case Fetches():
                return self._fetch(step, event)
            case Appends(log_end_offset):
                return self._leader.append(log_end_offset)
            case DrainsNoBatch():
                return self._leader.append(0)
            case Resigns():
                return self._leader.resign()
            case RollsSegment():
                self._leader.segment += 1
                return []
            case Passes(milliseconds):
                return self._pass(milliseconds)

    def _fetch(self, step: Step, event: Fetches) -> list[Response]:
        if any(f.replica_id == event.replica_id for f in self._parked):
            raise NotationError(f"line {step.number}: {event.replica_id} is parked already")
        epoch = event.last_fetched_epoch
        sent = Replica(
            event.fetch_offset,
            self._history.scene.epoch if epoch is None else epoch,
            event.high_watermark,
        )
        if event.is_next:
            self._compare_next(step, self._replicas.get(event.replica_id), sent)
        self._replicas[event.replica_id] = sent
        self._tokens += 1
        self._wait_ms[self._tokens] = event.max_wait_ms
        return self._leader.fetch(
            Fetch(
                event.replica_id,
                sent.fetch_offset,
                sent.last_fetched_epoch,
                sent.high_watermark,
                event.max_wait_ms * 1000,
                self._tokens,
            )
        )

    def _pass(self, milliseconds: int) -> list[Response]:
        responses: list[Response] = []
        for fetch in self._parked:
            self._wait_ms[fetch.token] -= milliseconds
            if self._wait_ms[fetch.token] <= 0:
                responses += self._leader.expire(fetch.token)
        return responses

    def _compare_next(self, step: Step, built: Replica | None, sent: Replica) -> None:
        if built is None:
            raise NotationError(f"line {step.number}: 'then fetches' follows an earlier FETCH")
        built_now = (built.fetch_offset, built.last_fetched_epoch, built.high_watermark)
        expected = (sent.fetch_offset, sent.last_fetched_epoch, sent.high_watermark)
        assert built_now == expected, self._disagree(
            step, _fetch_text(sent), f"it fetches {_fetch_text(built)}"
        )

    def _compare(self, step: Step, outcome: Outcome, responses: list[Response]) -> None:
        found = tuple(_completed(response) for response in responses)
        assert found == outcome.responses, self._disagree(
            step, _listed(outcome.responses), _listed(found)
        )
        if outcome.leader_high_watermark is not None:
            assert self._leader.high_watermark == outcome.leader_high_watermark, self._disagree(
                step,
                f"leader has high watermark {outcome.leader_high_watermark}",
                f"leader has high watermark {self._leader.high_watermark}",
            )

    def _disagree(self, step: Step, expected: str, found: str) -> str:
        return (
            f"line {step.number} {self._rule}: {step.text}\n"
            f"  the history has: {expected}\n  the rule has:    {found}"
        )


def _completed(response: Response) -> Completed:
    completion = response.completion
    has_records = completion is Completion.RECORDS
    has_high_watermark = has_records or completion in (
        Completion.TIMEOUT,
        Completion.HIGH_WATERMARK,
        Completion.DRAIN,
    )
    return Completed(
        response.fetch.replica_id,
        completion.value,
        response.parked,
        (response.fetch.fetch_offset, response.log_end_offset) if has_records else None,
        response.high_watermark if has_high_watermark else None,
    )


def _listed(responses: tuple[Completed, ...]) -> str:
    return "; ".join(map(str, responses)) or "nobody"


def _fetch_text(replica: Replica) -> str:
    sent = replica.high_watermark != NOT_SENT
    knowing = f" knowing {replica.high_watermark}" if sent else ""
    return f"{replica.fetch_offset} of epoch {replica.last_fetched_epoch}{knowing}"

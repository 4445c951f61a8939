"""How far each broker had applied the metadata log, by three kinds of evidence.

``heartbeat``
    BROKER_HEARTBEAT's ``currentMetadataOffset`` is ``MetadataLoader.lastAppliedOffset``: the last
    offset that all of the broker's publishers have run on. It is read when the request is built:
    after the answer to the one before, and (on busy machines by hundreds of milliseconds) before
    the request arrives. So what it has holds at the arrival, what it lacks only at that answer.
``api_versions``
    API_VERSIONS's ``finalizedFeaturesEpoch`` is the offset of the broker's metadata image: what
    its answers to METADATA and others show. It is read between dequeue and answer.
``fetch_high_watermark``
    A Raft FETCH v18 says which high watermark h its broker knows: that everything below h is
    committed. Before, the broker cannot have applied it. After, it does so as fast as its queue
    allows, which no line tells, so it is taken for applied ``APPLY_GRACE_US`` later and only if no
    heartbeat denies it. This is the one kind of evidence that is an assumption. An older FETCH says
    as much of the one before it: whatever the leader's high watermark was when that one was
    dequeued, its answer told at least that, up to the sender's own log end.

A broker can be slow: a topic of 192 partitions takes seconds to apply. So a FETCH's word is taken
back where the next heartbeat denies it (``Claims``), and is not taken at all while a heartbeat has
shown the broker to be later than the grace.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from kip_replay.replay.lowest_acked_offset.events import NOT_SENT, STAMP_SLACK_US
from kip_replay.replay.lowest_acked_offset.lines import Lines, by_node
from kip_replay.replay.lowest_acked_offset.timelines import Bools, Ints, Lacks, Rising, Signs

HEARTBEAT = "heartbeat"
API_VERSIONS = "api_versions"
FETCH_HIGH_WATERMARK = "fetch_high_watermark"
EVIDENCE = (HEARTBEAT, API_VERSIONS, FETCH_HIGH_WATERMARK)

#: A broker has this long to apply what it knows: over three times what METADATA answers showed.
APPLY_GRACE_US = 500_000
_NO_LINE = np.empty(0, np.int64)
#: Below every offset.
_NOTHING = -(2**62)
#: A FETCH's word stands if no heartbeat says anything for this long: longer than any interval.
CLAIM_WAIT_US = 15_000_000


class Claim(NamedTuple):
    """By all evidence a broker had applied an offset at a time (microseconds)."""

    at_us: int
    broker_id: int
    offset: int


class AllClaims(NamedTuple):
    """Claims as arrays, and the turn of the event that settled each."""

    at_us: Ints
    broker_id: Ints
    offset: Ints
    turn: Ints

    @classmethod
    def of(cls, claims: Iterable[Claim], turn: int) -> AllClaims:
        """Claims that one event settled."""
        rows = np.array(list(claims), np.int64).reshape(-1, 3)
        at, broker_id, offset = rows.T
        return cls(at, broker_id, offset, np.full(len(rows), turn))

    @classmethod
    def together(cls, parts: Iterable[AllClaims]) -> AllClaims:
        """Claims of several, one behind the other."""
        several = [cls.of((), 0), *parts]
        return cls(*(np.concatenate(columns) for columns in zip(*several, strict=True)))


class Said(NamedTuple):
    """What a broker said at some times, in order of turns."""

    at_us: Ints
    offset: Ints
    turn: Ints


@dataclass
class Claims:
    """What heartbeats say, and FETCHes as far as the next heartbeat does not deny it."""

    broker_id: int
    is_slow: bool = False
    waiting: list[tuple[int, int]] = field(default_factory=list)
    due: Rising = field(default_factory=Rising)
    last_due_us: int = 0

    def fetch(self, at: int, offset: int) -> None:
        """A FETCH says that the broker knows everything up to an offset to be committed."""
        self.last_due_us = max(at + APPLY_GRACE_US, self.last_due_us)
        self.due.add(self.last_due_us, offset)
        self.waiting.append((self.last_due_us, offset))

    def heartbeat(self, at: int, offset: int) -> Iterator[Claim]:
        """A heartbeat settles what has become due since the one before."""
        for due, word in self._settled(at):
            yield Claim(due, self.broker_id, min(word, offset))
        yield Claim(at, self.broker_id, offset)
        overdue = self.due.value(at)
        self.is_slow = overdue is not None and overdue > offset
        self.due.forget(at)

    def take(self, words: Said, beats: Said) -> AllClaims:
        """What FETCHes and heartbeats claim, in order of their turns: ``fetch``, ``heartbeat``."""
        due = np.maximum(np.maximum.accumulate(words.at_us + APPLY_GRACE_US), self.last_due_us)
        if self.is_slow or (np.diff(beats.at_us) < 0).any() or self._overdue(words, due, beats):
            return self._one_by_one(words, beats)
        waiting = np.array(self.waiting, np.int64).reshape(-1, 2)
        due = np.concatenate((waiting[:, 0], due))
        word = np.concatenate((waiting[:, 1], words.offset))
        turn = np.concatenate((np.full(len(waiting), -1), words.turn))
        # Each word is settled by the first heartbeat behind it that arrived once it was due.
        by = np.maximum(
            np.searchsorted(beats.at_us, due), np.searchsorted(beats.turn, turn, "right")
        )
        settled = by < len(beats.at_us)
        self.waiting = list(zip(due[~settled].tolist(), word[~settled].tolist(), strict=True))
        self.due.add_all(due[len(waiting) :], words.offset)
        if len(words.at_us):
            self.last_due_us = int(due[-1])
        if len(beats.at_us):
            self.due.forget(int(beats.at_us[-1]))
        by = by[settled]
        at = np.concatenate((due[settled], beats.at_us))
        offset = np.concatenate((np.minimum(word[settled], beats.offset[by]), beats.offset))
        turns = np.concatenate((beats.turn[by], beats.turn))
        return AllClaims(at, np.full(len(at), self.broker_id), offset, turns)

    def _overdue(self, words: Said, due: Ints, beats: Said) -> bool:
        """A heartbeat lacks what was due by then."""
        before = len(self.due.at)
        at = np.concatenate((self.due.at.numpy(), due))
        known = np.concatenate(([_NOTHING], self.due.values.numpy(), words.offset))
        said = before + np.searchsorted(words.turn, beats.turn)
        index = np.minimum(np.searchsorted(at, beats.at_us, "right"), said)
        return bool((np.maximum.accumulate(known)[index] > beats.offset).any())

    def _one_by_one(self, words: Said, beats: Said) -> AllClaims:
        claims = []
        turns = np.concatenate((words.turn, beats.turn))
        for place in np.argsort(turns, kind="stable").tolist():
            if place < len(words.turn):
                self.fetch(int(words.at_us[place]), int(words.offset[place]))
                continue
            place -= len(words.turn)
            beat = self.heartbeat(int(beats.at_us[place]), int(beats.offset[place]))
            claims.append(AllClaims.of(beat, int(beats.turn[place])))
        return AllClaims.together(claims)

    def expire(self, until: int, turn: int) -> AllClaims:
        """No heartbeat came in ``CLAIM_WAIT_US``: what was due by a time stands."""
        words = np.array(self._settled(until), np.int64).reshape(-1, 2)
        brokers, turns = (np.full(len(words), value) for value in (self.broker_id, turn))
        return AllClaims(words[:, 0], brokers, words[:, 1], turns)

    def _settled(self, until: int) -> list[tuple[int, int]]:
        count = bisect_right(self.waiting, until, key=itemgetter(0))
        settled, self.waiting = self.waiting[:count], self.waiting[count:]
        return [] if self.is_slow else settled


def _signs() -> dict[str, Signs]:
    return {kind: Signs() for kind in EVIDENCE}


@dataclass
class BrokerEvidence:
    """All signs of one broker."""

    claims: Claims
    signs: dict[str, Signs] = field(default_factory=_signs)
    reports: Lacks = field(default_factory=Lacks)
    first_heard_us: int | None = None
    first_turn: int = 0
    last_heard_us: int = 0
    last_fetch_us: int | None = None
    last_answer_us: int = 0

    def heartbeats(self, beats: Lines) -> Said:
        """Take heartbeats that were answered without error."""
        at, offset = beats["received_us"], beats["offset"]
        self._heard(at, beats.turn)
        answered = np.concatenate(([self.last_answer_us], beats["at_us"]))
        signs = self.signs[HEARTBEAT]
        signs.has.add_all(at, offset)
        signs.lacks.add_all(offset + 1, np.minimum(answered[:-1], at))
        self.reports.add_all(offset + 1, at)
        self.last_answer_us = int(answered[-1])
        return Said(at, offset, beats.turn)

    def api_versions(self, answers: Lines) -> None:
        """Take API_VERSIONS that the broker answered."""
        offset = answers["offset"]
        self.signs[API_VERSIONS].has.add_all(answers["at_us"], offset)
        self.signs[API_VERSIONS].lacks.add_all(offset + 1, answers["dequeued_us"])

    def fetches(self, fetches: Lines, high_watermark: Rising) -> Said:
        """Take Raft FETCHes that the leader answered, in order of dequeue."""
        at, taken, end = fetches["received_us"], fetches["dequeued_us"], fetches["offset"]
        self._heard(at, fetches.turn)
        sent = fetches["high_watermark"]
        unsent = sent == NOT_SENT
        known = np.minimum(end, sent)
        if unsent.any() and len(at):
            never = -STAMP_SLACK_US if self.last_fetch_us is None else self.last_fetch_us
            before = np.concatenate(([never], taken[:-1]))
            told = high_watermark.values_at(before - STAMP_SLACK_US, 0)
            known = np.where(unsent, np.minimum(end, told), known)
        # It learns more with the answer at the earliest.
        lacks_from = np.maximum(0, np.where(unsent, end, known))
        signs = self.signs[FETCH_HIGH_WATERMARK]
        signs.has.add_all(at + APPLY_GRACE_US, np.maximum(-1, known - 1))
        signs.lacks.add_all(lacks_from, fetches["at_us"])
        if len(at):
            self.last_fetch_us = int(taken[-1])
        says = known > 0
        return Said(at[says], known[says] - 1, fetches.turn[says])

    def heard_between(self, since: Ints, until: Ints) -> Bools:
        """The broker was there in spans: it sent something before the end and after the begin."""
        if self.first_heard_us is None:
            return np.zeros(len(since), np.bool_)
        return (self.first_heard_us <= until) & (self.last_heard_us >= since)

    def _heard(self, at: Ints, turn: Ints) -> None:
        if not len(at):
            return
        if self.first_heard_us is None or turn[0] < self.first_turn:
            self.first_heard_us, self.first_turn = int(at[0]), int(turn[0])
        self.last_heard_us = max(self.last_heard_us, int(at.max()))

    def forget(self, before: int) -> None:
        """Drop what was over before a time."""
        self.reports.forget(before)
        for signs in self.signs.values():
            signs.forget(before)


@dataclass
class Evidence:
    """The signs of all brokers."""

    brokers: dict[int, BrokerEvidence] = field(default_factory=dict)

    def of(self, broker_id: int) -> BrokerEvidence:
        """The signs of one broker."""
        if broker_id not in self.brokers:
            self.brokers[broker_id] = BrokerEvidence(Claims(broker_id))
        return self.brokers[broker_id]

    def take(
        self, beats: Lines, fetches: Lines, answers: Lines, high_watermark: Rising
    ) -> AllClaims:
        """Heartbeats, FETCHes and API_VERSIONS, each in their order. -> what is claimed by them."""
        said = [dict(by_node(lines["broker_id"])) for lines in (beats, fetches, answers)]
        claims = []
        for broker_id in sorted(set().union(*said)):
            evidence = self.of(broker_id)
            beat, fetch, answer = (
                lines.take(mine.get(broker_id, _NO_LINE))
                for lines, mine in zip((beats, fetches, answers), said, strict=True)
            )
            if len(answer):
                evidence.api_versions(answer)
            words = evidence.fetches(fetch, high_watermark)
            claims.append(evidence.claims.take(words, evidence.heartbeats(beat)))
        return AllClaims.together(claims)

    def expire(self, until: int, turn: int) -> AllClaims:
        """What FETCHes said and no heartbeat settled before the step that ends with ``turn``."""
        return AllClaims.together(e.claims.expire(until, turn) for e in self.brokers.values())

    def forget(self, before: int) -> None:
        """Drop what was over before a time."""
        for evidence in self.brokers.values():
            evidence.forget(before)

"""lowest_acked_offset in arrays gives the rows of its oracle, whatever happens, cut anywhere."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from notation.heartbeats import (
    VOTERS,
    Replayed,
    beat,
    born_empty,
    create_topic,
    in_order,
    learned,
    pieces_of,
    raft_fetch,
    replay_of,
)
from oracles import lowest_acked_offset as oracle

from kip_replay.replay.lowest_acked_offset import LowestAckedOffset
from kip_replay.replay.lowest_acked_offset.events import API_VERSIONS, NOT_SENT, Event

pytestmark = pytest.mark.property

BROKERS = (11, 12, 13)
#: A small step, so that a short history has several.
STEP_ROWS = 150

# --- histories -----------------------------------------------------------------------------------


class History:
    """A cluster in which everything that the rule follows happens now and then.

    Stamps are whole milliseconds, so that many things happen at the same time. What happens is
    drawn by ``random``, from a seed that hypothesis draws: a history has thousands of choices.
    """

    def __init__(self, seed: int, seconds: int, *, is_rough: bool) -> None:
        self.random = random.Random(seed)
        self.is_rough = is_rough
        self.end_ms = seconds * 1000
        self.events = born_empty() if self.once_in(2) else []
        #: (when an offset was committed, the high watermark then)
        self.commits = [(10, 10)]
        self.leader_changes_ms = self.random.randint(0, 3 * self.end_ms)

    def once_in(self, times: int) -> bool:
        return self.random.randrange(times) == 0

    def rarely(self, times: int) -> bool:
        return self.is_rough and self.once_in(times)

    def controller(self, ms: int) -> int:
        return 2 if ms < self.leader_changes_ms else 1

    def in_order(self) -> list[Event]:
        self._log()
        for broker in BROKERS:
            self._fetches(broker)
            self._heartbeats(broker)
        return in_order({(e.at_us, e.kind, e.request_id): e for e in self.events}.values())

    def _log(self) -> None:
        """Writes and NoOps, and what the voters fetch of them."""
        ms, end = 500, 10
        while ms < self.end_ms:
            controller = self.controller(ms)
            epoch = 3 - controller
            if self.once_in(6):
                partitions = self.random.randint(1, 3)
                self.events.append(self._write(ms, partitions, end))
                end += partitions
            end += 1
            for voter in {1, 2, 3} - {controller}:
                more = {"leader_epoch": epoch, "last_fetched_epoch": epoch, "node_id": controller}
                at = ms + self.random.randint(1, 20)
                self.events.append(raft_fetch(voter, at, at + 400, end, **more))
            self.commits.append((ms + 20, end))
            ms += 500

    def _write(self, ms: int, partitions: int, number: int) -> Event:
        host = self.random.choice(BROKERS)
        return create_topic(
            ms - self.random.randint(0, 5),
            ms + self.random.randint(21, 90),
            partitions=partitions,
            correlation_id=number,
            node_id=self.controller(ms),
            is_forwarded=not self.once_in(4),
            error_code=-2 if self.rarely(10) else 0,
            connection=f"10.0.0.2:9093-10.0.1.{host}:50000-1-2",
        )

    def _fetches(self, broker: int) -> None:
        """It learns of commits, in three variants, and its next FETCH says so."""
        for ms, high_watermark in self.commits:
            at = ms + self.random.choice((3, 5, 5, 30, 90))
            for variant, later in (("recorded", 0), ("without_kip_1166", 250)):
                self.events.append(learned(broker, at + later, high_watermark, variant))
            told = NOT_SENT if self.once_in(3) else high_watermark
            more = {"high_watermark": told, "node_id": self.controller(ms)}
            if self.rarely(20):
                more["is_diverging"] = True
            self.events.append(raft_fetch(broker, at + 1, at + 400, high_watermark, **more))
            if self.once_in(9):
                self.events.append(self._api_versions(broker, at + 40, high_watermark - 1))

    def _api_versions(self, broker: int, ms: int, offset: int) -> Event:
        return Event(
            (ms + 1) * 1000,
            API_VERSIONS,
            f"versions {broker} {ms}",
            broker,
            dequeued_us=ms * 1000,
            error_code=0,
            broker_id=broker,
            offset=offset,
        )

    def _heartbeats(self, broker: int) -> None:
        """It runs, is fenced, stops, comes back, is away, is refused, and can be slow."""
        ms, epoch, slow_until = self.random.randint(600, 2_900), 5, 0
        while ms < self.end_ms:
            more: dict[str, Any] = {"broker_epoch": epoch, "node_id": self.controller(ms)}
            if self.rarely(60):
                ms += self.random.randint(3_000, 25_000)
            if self.rarely(60):
                epoch += 1
                more |= {"broker_epoch": epoch, "is_fenced": True, "want_fence": True}
            if self.rarely(60):
                more["want_shut_down"] = True
            if self.rarely(60):
                more["is_fenced"] = True
            if self.rarely(60):
                more["error_code"] = self.random.choice((6, -2))
            if self.rarely(60):
                slow_until = ms + 7_000
            handled = ms + self.random.choice((1, 1, 4, 300 if self.rarely(9) else 1))
            had = [hw for at, hw in self.commits if at + 12 < (min(ms, slow_until - 7_000) or ms)]
            known = had if ms < slow_until else [hw for at, hw in self.commits if at + 12 < ms]
            offset = (known or [10])[-1] - 1
            built = handled + self.random.choice((0, 1, 1, 5))
            self.events.append(
                beat(broker, ms, offset, built_ms=built, handled_us=handled * 1000, **more)
            )
            ms = built + self.random.choice((2_000, 2_001, 2_003))


@st.composite
def histories(draw: st.DrawFn) -> list[Event]:
    """Calm ones, in which nothing but offsets changes, and rough ones."""
    seed, seconds = draw(st.integers(0, 2**32)), draw(st.integers(3, 220))
    return History(seed, seconds, is_rough=draw(st.booleans())).in_order()


# --- the same rows -------------------------------------------------------------------------------

SETTINGS: list[dict[str, Any]] = [
    {},
    {"intervals_ms": (100, 2_000), "recorded_interval_ms": 2_000, "step_rows": STEP_ROWS},
    {"intervals_ms": (500,), "counts_stopping": True, "step_rows": STEP_ROWS},
]


def in_any_order(rows: Replayed) -> list[list[str]]:
    return [sorted(map(repr, table)) for table in rows]


def rows_of_oracle(events: Sequence[Event], **how: Any) -> list[list[str]]:
    start: Any = lambda: oracle.LowestAckedOffset(VOTERS, **how)  # noqa: E731
    return in_any_order(replay_of([events], start))


def rows_of_pieces(pieces: Iterable[Sequence[Event]], **how: Any) -> list[list[str]]:
    return in_any_order(replay_of(pieces, lambda: LowestAckedOffset(VOTERS, **how)))


@given(histories(), st.sampled_from(SETTINGS), st.lists(st.integers(0, 4_000), max_size=4))
@settings(max_examples=40, deadline=None)
def test_rows_are_the_oracles(events: list[Event], how: dict[str, Any], cuts: list[int]) -> None:
    cuts = [min(cut, len(events)) for cut in cuts]
    assert rows_of_pieces(pieces_of(events, cuts), **how) == rows_of_oracle(events, **how)


class InPieces:
    """A replay that is saved after every batch, and goes on as another one."""

    def __init__(self, **how: Any) -> None:
        self._how = how
        self._saved: bytes | None = None

    def _replay(self) -> LowestAckedOffset:
        return LowestAckedOffset(VOTERS, saved=self._saved, **self._how)

    def feed(self, batch: Any) -> Any:
        replay = self._replay()
        outcomes = replay.feed(batch)
        self._saved = replay.saved()
        return outcomes

    def finish(self) -> Any:
        return self._replay().finish()


@given(histories(), st.sampled_from(SETTINGS), st.lists(st.integers(0, 4_000), max_size=5))
@settings(max_examples=20, deadline=None)
def test_saved_state_goes_on_as_if_nothing_had_been(
    events: list[Event], how: dict[str, Any], cuts: list[int]
) -> None:
    cuts = [min(cut, len(events)) for cut in cuts]
    start: Any = lambda: InPieces(**how)  # noqa: E731
    in_pieces = in_any_order(replay_of(pieces_of(events, cuts), start))
    assert in_pieces == rows_of_pieces([events], **how)

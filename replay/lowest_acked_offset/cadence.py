"""The recorded heartbeats: when they came and how they were handled, and who learned what.

This is what all simulations share. A heartbeat is steady if its broker runs and ran before: those
come at the interval. What else comes (a broker starts, unfences, shuts down) comes when it must,
whatever the interval, and simulations keep it as it is.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kip_replay.replay.lowest_acked_offset.controller import Heartbeat
from kip_replay.replay.lowest_acked_offset.lines import Lines, by_node, stretches
from kip_replay.replay.lowest_acked_offset.progress import ApplyDelay, Measured, Progress
from kip_replay.replay.lowest_acked_offset.timelines import Bools, Ints, Longs, Samples
from kip_replay.replay.outcomes import RECORDED

#: broker.heartbeat.interval.ms, Kafka's default; for a log that shows no steady heartbeat.
DEFAULT_INTERVAL_US = 2_000_000
#: A steady broker whose next heartbeat is later than the interval by more than this is away.
AWAY_SLACK_US = 1_000_000
_NO_LINE = np.empty(0, np.int64)


def heartbeat_of(beats: Lines, place: int) -> Heartbeat:
    """One of some recorded heartbeats."""
    return Heartbeat(
        controller_id=int(beats["node_id"][place]),
        broker_id=int(beats["broker_id"][place]),
        broker_epoch=int(beats["broker_epoch"][place]),
        handled_us=int(beats["handled_us"][place]),
        built_us=int(beats["at_us"][place]),
        offset=int(beats["offset"][place]),
        is_fenced=bool(beats.flags("is_fenced")[place]),
        want_shut_down=bool(beats.flags("want_shut_down")[place]),
    )


@dataclass
class Cadence:
    """The recorded heartbeats of one broker: when they came, how they were handled."""

    received: Longs = field(default_factory=Longs)
    built: Longs = field(default_factory=Longs)
    gaps: Samples = field(default_factory=Samples)
    handling: Samples = field(default_factory=Samples)
    building: Samples = field(default_factory=Samples)
    last: Heartbeat | None = None
    last_runs: bool = False

    def take(self, beats: Lines) -> tuple[Bools, Ints]:
        """Take its heartbeats. -> (which are steady, the gaps before those that are)."""
        received, at, epoch = beats["received_us"], beats["at_us"], beats["broker_epoch"]
        leaves = beats.flags("is_fenced") | beats.flags("want_shut_down")
        runs = ~(leaves | beats.flags("want_fence"))
        last = self.last
        epochs = np.concatenate(([0 if last is None else last.broker_epoch], epoch))
        left = np.concatenate(
            ([last is None or last.is_fenced or last.want_shut_down], leaves)
        ).astype(np.bool_)
        steady = runs & ~left[:-1] & (epochs[:-1] == epoch)
        built = np.maximum(at, received)
        before = np.concatenate(([self.built[-1] if self.built else 0], built))[:-1]
        ran = np.concatenate(([self.last_runs], runs))[:-1]
        gap = received - before
        self.gaps.add_all(before[runs & ran], gap[runs & ran])
        self.handling.add_all(received, beats["handled_us"] - received)
        self.building.add_all(received, at - received)
        self.received.extend_by(received)
        self.built.extend_by(built)
        self.last, self.last_runs = heartbeat_of(beats, -1), bool(runs[-1])
        return steady, gap[steady & ran]

    def pace(self, interval_us: int) -> Pace:
        """What its simulated heartbeats need, at the recorded interval."""
        gaps = self.gaps.values.numpy()
        is_steady = (interval_us // 2 < gaps) & (gaps <= interval_us + AWAY_SLACK_US)
        return Pace(
            received=self.received.tolist(),
            built=self.built.tolist(),
            handling_us=self.handling.values.tolist(),
            building_us=self.building.values.tolist(),
            handled_until=self.handling.nearest_until(),
            late_us=[*np.where(is_steady, gaps - interval_us, 0).tolist(), 0],
            late_until=self.gaps.nearest_until(),
            patience_us=interval_us + AWAY_SLACK_US,
        )

    def forget(self, before: int) -> None:
        """Drop what was over before a time, all but the last heartbeat."""
        keep = max(0, bisect_right(self.received, before) - 1)
        del self.received[:keep], self.built[:keep]
        for samples in (self.gaps, self.handling, self.building):
            samples.forget(before)


class Pace(NamedTuple):
    """A broker's recorded heartbeats as its simulated ones need them: plain lists, to walk along.

    ``handling_us`` and ``building_us`` hold for heartbeats received before ``handled_until``,
    ``late_us`` (how much later than the interval the next one comes) for those that are built
    before ``late_until``. A broker that is silent for longer than ``patience_us`` is away.
    """

    received: list[int]
    built: list[int]
    handling_us: list[int]
    building_us: list[int]
    handled_until: list[int]
    late_us: list[int]
    late_until: list[int]
    patience_us: int


class Steps(NamedTuple):
    """When brokers may have applied more: at a time, which broker, in order of turns."""

    at: Ints
    broker: Ints
    turn: Ints


class Known(NamedTuple):
    """What the simulations are told of a step of the log."""

    #: Which of the heartbeats are steady.
    steady: Bools
    #: By variant of what was learned.
    learned: dict[str, Steps]
    #: Slow brokers have caught up.
    caught_up: Steps


@dataclass
class Recorded:
    """What all simulations share: the recorded heartbeats and the brokers' progress."""

    interval_us: int | None = None
    cadences: dict[int, Cadence] = field(default_factory=dict)
    progress: dict[int, Progress] = field(default_factory=dict)
    delay: ApplyDelay = field(default_factory=ApplyDelay)
    controllers: list[tuple[int, int]] = field(default_factory=list)
    first_gaps: list[int] = field(default_factory=list)

    def take(self, beats: Lines, learned: Lines, voters: frozenset[int]) -> Known:
        """Take heartbeats and what replicas learned, each in order of turns."""
        for begin, _ in stretches(beats["node_id"]):
            controller = int(beats["node_id"][begin])
            if not self.controllers or self.controllers[-1][1] != controller:
                self.controllers.append((int(beats["handled_us"][begin]), controller))
        steady = np.zeros(len(beats), np.bool_)
        since = dict.fromkeys(self.cadences, -1)
        by_broker = dict(by_node(beats["broker_id"]))
        for broker_id, mine in by_broker.items():
            since.setdefault(broker_id, int(beats.turn[mine[0]]))
            cadence = self.cadences.setdefault(broker_id, Cadence())
            steady[mine], gaps = cadence.take(beats.take(mine))
            if self.interval_us is None:
                self.first_gaps += gaps.tolist()
        # A voter is no broker, unless it sends heartbeats.
        replica = learned["broker_id"]
        silent = np.isin(replica, [v for v in voters if v not in since])
        for voter in voters & since.keys():
            silent |= (replica == voter) & (learned.turn < since[voter])
        learned = learned.take(~silent)
        return Known(steady, *self._learn(beats, by_broker, learned))

    def _learn(
        self, beats: Lines, by_broker: dict[int, Ints], learned: Lines
    ) -> tuple[dict[str, Steps], Steps]:
        variants = learned.arrow("variant").to_numpy(zero_copy_only=False)
        recorded = learned.take(variants == RECORDED)
        by_replica = dict(by_node(recorded["broker_id"]))
        measures, caught_up = [], [Steps(_NO_LINE, _NO_LINE, _NO_LINE)]
        for broker_id in sorted(by_broker.keys() | by_replica.keys()):
            news = recorded.take(by_replica.get(broker_id, _NO_LINE))
            own = beats.take(by_broker.get(broker_id, _NO_LINE))
            measured, caught = self.of(broker_id).take(
                own["received_us"],
                own["offset"],
                own.turn,
                (news["at_us"], news["high_watermark"] - 1, news.turn),
            )
            measures.append(measured)
            at, turn = np.array(caught, np.int64).reshape(-1, 2).T
            caught_up.append(Steps(at, np.full(len(at), broker_id), turn))
        measured = Measured.together(measures)
        delays = np.concatenate(([self.delay.us], self.delay.take(measured)))
        due = learned["at_us"] + delays[np.searchsorted(measured.turn, learned.turn)]
        steps = {}
        for variant in sorted(set(variants.tolist())):
            mine = np.flatnonzero(variants == variant)
            replica, offset = learned["broker_id"][mine], learned["high_watermark"][mine] - 1
            for broker_id, places in by_node(replica):
                timeline = self.of(broker_id).due_of(variant)
                timeline.add_all(due[mine][places], offset[places])
            steps[variant] = Steps(due[mine], replica, learned.turn[mine])
        return steps, Steps(*(np.concatenate(columns) for columns in zip(*caught_up, strict=True)))

    def of(self, broker_id: int) -> Progress:
        """The progress of one broker."""
        return self.progress.setdefault(broker_id, Progress())

    def settle_interval(self) -> int:
        """The interval of the log: as told, else the median gap, cut to 10 ms."""
        if self.interval_us is None:
            gaps = sorted(self.first_gaps)
            median = gaps[len(gaps) // 2] if gaps else DEFAULT_INTERVAL_US
            self.interval_us = median // 10_000 * 10_000
            self.first_gaps = []
        return self.interval_us

    def paces(self) -> dict[int, Pace]:
        """Of all brokers."""
        return {
            broker_id: cadence.pace(self.settle_interval())
            for broker_id, cadence in self.cadences.items()
        }

    def controllers_at(self, at: Ints) -> Ints:
        """Which controller answers at some times."""
        since, ids = np.array(self.controllers, np.int64).T
        controllers: Ints = ids[np.maximum(0, np.searchsorted(since, at, "right") - 1)]
        return controllers

    def forget(self, before: int) -> None:
        """Drop what was over before a time."""
        for cadence in self.cadences.values():
            cadence.forget(before)
        for progress in self.progress.values():
            progress.forget(before)
        keep = max(0, bisect_right(self.controllers, (before, 2**31)) - 1)
        del self.controllers[:keep]

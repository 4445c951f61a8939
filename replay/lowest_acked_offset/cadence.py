"""When recorded heartbeats came and how they were handled: what all simulations share.

A heartbeat is steady if its broker runs and ran before: those come at the interval. What else
comes (a broker starts, unfences, shuts down) comes when it must, whatever the interval.
"""

from bisect import bisect_right

import msgspec

from ..hwm_parking.timelines import Samples
from .brokers import Heartbeat
from .events import Event
from .progress import ApplyDelay, Progress

#: broker.heartbeat.interval.ms, Kafka's default; for a log that has no steady heartbeat.
DEFAULT_INTERVAL_US = 2_000_000
#: A steady broker whose next heartbeat is later than the interval by more than this is away.
AWAY_SLACK_US = 1_000_000


class Cadence(msgspec.Struct):
    """The recorded heartbeats of one broker.

    ``gaps`` from a response of a running broker to its next heartbeat; ``handling`` and
    ``building`` from an arrival on.
    """

    received: list[int] = []
    built: list[int] = []
    gaps: Samples[int] = msgspec.field(default_factory=Samples)
    handling: Samples[int] = msgspec.field(default_factory=Samples)
    building: Samples[int] = msgspec.field(default_factory=Samples)
    last: Heartbeat | None = None
    last_runs: bool = False

    def take(self, received: int, beat: Heartbeat, want_fence: bool) -> tuple[bool, int | None]:
        """Take a heartbeat. -> (whether it is steady, then the gap before it, if it is one)."""
        leaves = beat.is_fenced or beat.want_shut_down
        runs = not (leaves or want_fence)
        before = self.last
        steady = (
            runs
            and before is not None
            and before.broker_epoch == beat.broker_epoch
            and not (before.is_fenced or before.want_shut_down)
        )
        gap = received - self.built[-1] if self.built and runs and self.last_runs else None
        if gap is not None:
            self.gaps.add(self.built[-1], gap)
        self.received.append(received)
        self.built.append(max(beat.built_us, received))
        self.handling.add(received, beat.handled_us - received)
        self.building.add(received, beat.built_us - received)
        self.last, self.last_runs = beat, runs
        return steady, gap if steady else None

    def forget(self, before: int) -> None:
        """Drop what was over before a time, all but the last heartbeat."""
        keep = max(0, bisect_right(self.received, before) - 1)
        del self.received[:keep], self.built[:keep]
        for samples in (self.gaps, self.handling, self.building):
            samples.forget(before)


class Recorded(msgspec.Struct):
    """What all simulations share: the recorded heartbeats and the brokers' progress.

    ``steps``: when a broker may have applied more, in which variant (None: in all); in order of
    events.
    """

    interval_us: int | None = None
    cadences: dict[int, Cadence] = {}
    progress: dict[int, Progress] = {}
    delay: ApplyDelay = msgspec.field(default_factory=ApplyDelay)
    #: (since when, which controller is active)
    controllers: list[tuple[int, int]] = []
    first_gaps: list[int] = []
    steps: list[tuple[int, int, str | None]] = []

    def heartbeat(self, received: int, beat: Heartbeat, want_fence: bool) -> bool:
        """Take a heartbeat. -> whether it is steady."""
        if not self.controllers or self.controllers[-1][1] != beat.controller_id:
            self.controllers.append((beat.handled_us, beat.controller_id))
        cadence = self.cadences.setdefault(beat.broker_id, Cadence())
        steady, gap = cadence.take(received, beat, want_fence)
        if gap is not None and self.interval_us is None:
            self.first_gaps.append(gap)
        for at in self.of(beat.broker_id).heartbeat(received, beat.offset, self.delay):
            self.steps.append((at, beat.broker_id, None))
        return steady

    def learn(self, row: Event) -> None:
        due = row.at_us + self.delay.us
        self.of(row.broker_id).learn(row.variant, row.at_us, due, row.high_watermark)
        self.steps.append((due, row.broker_id, row.variant))

    def of(self, broker_id: int) -> Progress:
        return self.progress.setdefault(broker_id, Progress())

    def steps_until(self, until: int) -> list[tuple[int, int, str | None]]:
        """Take out the steps up to a time, in order of time."""
        self.steps.sort(key=lambda step: step[0])
        count = bisect_right(self.steps, until, key=lambda step: step[0])
        taken, self.steps = self.steps[:count], self.steps[count:]
        return taken

    def settle_interval(self) -> int:
        """The interval of the log: as given, else the median gap, cut to 10 ms."""
        if self.interval_us is None:
            gaps = sorted(self.first_gaps)
            median = gaps[len(gaps) // 2] if gaps else DEFAULT_INTERVAL_US
            self.interval_us = median // 10_000 * 10_000
            self.first_gaps = []
        return self.interval_us

    def controller_at(self, at: int) -> int:
        index = bisect_right(self.controllers, (at, 2**31))
        return self.controllers[max(0, index - 1)][1]

    def forget(self, before: int) -> None:
        for cadence in self.cadences.values():
            cadence.forget(before)
        for progress in self.progress.values():
            progress.forget(before)
        keep = max(0, bisect_right(self.controllers, (before, 2**31)) - 1)
        del self.controllers[:keep]

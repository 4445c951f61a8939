"""Histories of heartbeats that read like the draft KIP and like Kafka's own tests."""

from copy import deepcopy
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from notation.heartbeats import check, us

from kip_replay.replay.model.brokers import (
    SESSION_TIMEOUT_US,
    BrokerHeartbeatManager,
    Heartbeat,
    LowestAcknowledged,
)

BROKERS = (11, 12, 13)

HISTORIES = {
    "unfencing": """
        A unfences with 7 -> lowest 7
        B unfences with 7 -> lowest 7, raw -1
        A heartbeats 7    -> lowest 7, raw -1
        B heartbeats 7    -> lowest 7
    """,
    "example of the draft": """
        # "Read-after-write visibility": A writes 10 while B is at 8. The draft's controller knows 8
        # from B's FETCH. Existing heartbeats show 7: what B had when it last sent one.
        A, B run with 7
        B fetches 8
        A fetches 10
        A heartbeats 10 -> lowest 7
        B fetches 10
        B heartbeats 10 -> lowest 10
    """,
    "BrokerHeartbeatManagerTest.testCalculateNextBrokerState: lowestActiveOffset": """
        # 1 (here A) holds 98 as the lowest; who is fenced (D) or shutting down (E) does not count;
        # when A is fenced, B's 99 is the lowest.
        A unfences with 98
        A heartbeats 98
        B unfences with 99
        B heartbeats 99
        D registers
        C unfences with 99
        C heartbeats 99  -> lowest 98
        E unfences with 97
        # Its shutdown offset is that of records which follow the response: it counts once more.
        E stops with 97  -> lowest 98, raw 97
        5 s pass
        B heartbeats 99
        C heartbeats 99
        5.15 s pass
        B heartbeats 99  -> lowest 99
    """,
    "a lagging broker that unfences pulls raw down, and the other not": """
        # What never falls is then above what that broker has: the draft does not see it.
        A, B run with 7
        A heartbeats 100
        B heartbeats 101   -> lowest 100
        C unfences with 50 -> lowest 100, raw 50
        C heartbeats 50    -> lowest 100, raw 50
        C heartbeats 102   -> lowest 100
    """,
    "activate: a new controller has every offset at -1 until its broker's next heartbeat": """
        A, B run with 7
        controller 2 takes over
        A heartbeats 9  -> lowest 7, raw -1
        B heartbeats 9  -> lowest 9
    """,
    "a silent broker holds the offset until its session and a scan are over": """
        # 9 s, scanned every 1.125 s. B's last heartbeat comes just before the first 5 s pass.
        A, B run with 7
        5 s pass
        A heartbeats 20  -> lowest 7
        5 s pass
        A heartbeats 21  -> lowest 7
        0.1 s pass
        A heartbeats 22  -> lowest 22
        B heartbeats 22  -> lowest 22  # it unfences, so its registration changes
        A heartbeats 23  -> lowest 22, raw -1
    """,
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_history(history: str) -> None:
    check(history)


def test_response_to_a_former_process_of_a_broker_is_lost() -> None:
    manager = BrokerHeartbeatManager(warm_from_us=0)
    for epoch, is_fenced, handled_ms, built_ms in (
        *((5, False, 1000, 1500), (6, True, 1100, 1101)),
        (6, False, 1600, 1700),
    ):
        times = us(handled_ms), us(built_ms)
        manager.heartbeat(Heartbeat(2, 11, epoch, *times, 20, is_fenced, want_shut_down=False))
    # What was built at 1.5 s was for the process that had stopped by then.
    assert manager.acknowledged.offsets == {11: -1}
    manager.advance(us(1700))
    assert manager.acknowledged.offsets == {11: 20}


@pytest.mark.parametrize(("silent_s", "is_certain"), [(8.9, True), (9.5, False)])
def test_a_broker_that_comes_back_may_have_been_fenced(silent_s: float, is_certain: bool) -> None:
    manager = BrokerHeartbeatManager(warm_from_us=0)

    def heartbeat(second: float, broker_id: int, offset: int) -> bool:
        at = us(1000 * second)
        response = manager.heartbeat(Heartbeat(1, broker_id, 5, at, at, offset, False, False))
        assert response is not None
        return response.is_certain

    for broker_id in (11, 12, 11, 12):
        assert heartbeat(1, broker_id, 20)
    heartbeat(1 + silent_s, 11, 20)
    assert heartbeat(1 + silent_s, 12, 20) == is_certain
    heartbeat(1 + silent_s + 2, 12, 20)
    assert heartbeat(1 + silent_s + 2, 11, 20)  # its offset is one again


@dataclass
class World:
    """A naive account of every broker: whether it is fenced, whether it is in controlled shutdown,
    and what it has reported; and the highest offset that a response has carried."""

    state: dict[int, tuple[bool, bool]] = field(
        default_factory=lambda: dict.fromkeys(BROKERS, (True, False))
    )
    raw: dict[int, int] = field(default_factory=lambda: dict.fromkeys(BROKERS, -1))
    lowest: int = -1

    def respond(self, broker: int, applied: int, now: tuple[bool, bool]) -> LowestAcknowledged:
        before, self.state[broker], self.raw[broker] = self.state[broker], now, applied
        counted = [b for b, state in self.state.items() if state == (False, False)]
        if now == (False, True) and not before[1]:
            counted.append(broker)
        raw = min((self.raw[b] for b in counted), default=None)
        if before != now:
            self.raw[broker] = -1
        if raw is None:
            return LowestAcknowledged(None, None, 0)
        self.lowest = max(raw, self.lowest)
        return LowestAcknowledged(raw, self.lowest, len(counted))


class ManagerMachine(RuleBasedStateMachine):
    """A heartbeat manager and all that may be so."""

    def __init__(self) -> None:
        super().__init__()
        self.manager = BrokerHeartbeatManager(warm_from_us=0)
        self.at = 0
        self.controller = self.active = 1
        self.applied = dict.fromkeys(BROKERS, 0)
        self.epochs = dict.fromkeys(BROKERS, 0)
        self.seen: dict[int, int] = {}
        #: What may be so: in the first no broker was fenced before it must have been.
        self.worlds = [World()]
        self.was_certain = True
        self.carried: list[int] = []

    @rule(
        broker=st.sampled_from(BROKERS),
        ahead=st.integers(0, 5),
        is_fenced=st.booleans(),
        stops=st.booleans(),
        restarted=st.sampled_from([False, False, False, True]),
    )
    def heartbeats(
        self, broker: int, ahead: int, is_fenced: bool, stops: bool, restarted: bool
    ) -> None:
        self.at += 1_000
        self.applied[broker] += ahead
        if restarted:
            self.epochs[broker] += 1
            for world in self.worlds:
                world.state[broker] = (True, False)
        self.fence_silent()
        now, self.seen[broker] = (is_fenced, stops and not is_fenced), self.at
        if now == (False, True) and not self.worlds[0].state[broker][0]:
            # Who is fenced and wants to shut down stays fenced: it was not.
            self.worlds = [world for world in self.worlds if not world.state[broker][0]]
        responses = [world.respond(broker, self.applied[broker], now) for world in self.worlds]
        identity = (self.controller, broker, self.epochs[broker], self.at, self.at + 500)
        carried = self.manager.heartbeat(
            Heartbeat(*identity, self.applied[broker], is_fenced, stops)
        )
        assert carried is not None
        assert carried._replace(is_certain=True) == responses[0]
        if responses[0].offset is not None:
            self.carried.append(responses[0].offset)
        is_one = len({(response.raw, response.offset) for response in responses}) == 1
        # Certain only if it is the same whoever was fenced, and then, unless it has not been.
        assert is_one if carried.is_certain else not (is_one and self.was_certain)
        if carried.raw is not None:
            self.was_certain = carried.is_certain

    @rule(seconds=st.integers(1, 12))
    def time_passes(self, seconds: int) -> None:
        self.at += seconds * 1_000_000
        self.manager.advance(self.at)

    @rule()
    def another_controller(self) -> None:
        self.controller = 3 - self.controller

    def fence_silent(self) -> None:
        """By the controller that was active until now: with a new one all sessions begin anew."""
        is_new = self.controller != self.active
        for broker, at in self.seen.items():
            if self.at - at >= 10_125_000 and not is_new:
                for world in self.worlds:
                    world.state[broker] = (True, False)
            elif self.at - at >= SESSION_TIMEOUT_US:
                others = deepcopy(self.worlds)
                for world in others:
                    world.state[broker] = (True, False)
                self.worlds += [world for world in others if world not in self.worlds]
            if is_new:
                for world in self.worlds:
                    world.raw[broker] = -1
                if not self.worlds[0].state[broker][0]:
                    self.seen[broker] = self.at
        self.active = self.controller

    @invariant()
    def no_broker_knows_what_no_response_carried(self) -> None:
        for timeline in self.manager.acknowledged_by.values():
            assert set(timeline.values) <= set(self.carried)
        for everywhere in (self.manager.applied.everywhere, self.manager.acknowledged.everywhere):
            assert all(offset >= 0 for offset in everywhere.values)


TestManager = pytest.mark.property(ManagerMachine.TestCase)
#: What may be so after a failover, few histories show.
ManagerMachine.TestCase.settings = settings(
    stateful_step_count=30, max_examples=3 * settings.default.max_examples
)

"""What a replay of lowest_acked_offset carries from one piece of log to the next."""

from __future__ import annotations

from dataclasses import dataclass, field

from kip_replay.replay.lowest_acked_offset.cadence import Recorded
from kip_replay.replay.lowest_acked_offset.controller import HeartbeatManager
from kip_replay.replay.lowest_acked_offset.evidence import Evidence
from kip_replay.replay.lowest_acked_offset.outcomes import Write
from kip_replay.replay.lowest_acked_offset.simulation import Schedule, Simulation
from kip_replay.replay.lowest_acked_offset.writes import CommittedOffsets, Forwarding


@dataclass
class State:
    """All that a replay carries from one piece of log to the next, but for lines that wait."""

    committed: CommittedOffsets
    recorded: HeartbeatManager
    finest: HeartbeatManager
    beats: Recorded
    schedules: list[Schedule]
    #: By schedule, in the order of ``LEARNED_OF``.
    simulations: list[list[Simulation]]
    forwarding: Forwarding = field(default_factory=Forwarding)
    evidence: Evidence = field(default_factory=Evidence)
    writes: list[Write] = field(default_factory=list)
    #: Variants of which the log tells when brokers learned.
    learned: set[str] = field(default_factory=set)
    first_heartbeat_us: int | None = None
    fed: int = 0
    front: tuple[int, str, str] = (0, "", "")

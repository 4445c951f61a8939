"""What a replay of lowest_acked_offset carries from one increment of the log to the next."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from .brokers import Heartbeat
from .cadence import Recorded
from .controller import HeartbeatManager
from .events import Event
from .evidence import Evidence
from .outcomes import Write
from .simulation import Simulation
from .writes import CommittedOffsets, Forwarding

#: Of the saved form; another one is refused.
VERSION = 2


class Settings(NamedTuple):
    """What a replay was started with: its saved state makes sense with no other."""

    voters: tuple[int, ...]
    intervals_ms: tuple[int, ...]
    recorded_interval_ms: int | None
    counts_stopping: bool
    session_timeout_ms: int
    step_rows: int


class FinestEvent(NamedTuple):
    """What the controller sees of the finest evidence: a heartbeat, or else a claim.

    The first three fields order them: at one time claims come first, then who came first.
    """

    at_us: int
    is_beat: bool
    number: int
    broker_id: int
    offset: int
    beat: Heartbeat | None = None


@dataclass
class State:
    """All that a replay carries."""

    committed: CommittedOffsets
    recorded: HeartbeatManager
    finest: HeartbeatManager
    beats: Recorded
    #: One for each interval.
    simulations: list[Simulation]
    forwarding: Forwarding = field(default_factory=Forwarding)
    evidence: Evidence = field(default_factory=Evidence)
    #: Lines that wait for their turn, and when the rule has each happen.
    pending: list[tuple[int, Event]] = field(default_factory=list)
    #: A heap of what comes later than where ``finest`` is, and how many there were.
    finest_events: list[FinestEvent] = field(default_factory=list)
    finest_count: int = 0
    writes: list[Write] = field(default_factory=list)
    #: Variants of which the log has when brokers learned.
    learned: set[str] = field(default_factory=set)
    first_heartbeat_us: int | None = None
    fed: int = 0
    front: tuple[int, str, str] = (0, "", "")


def encode(settings: Settings, state: State) -> bytes:
    """The state as compressed MessagePack."""
    return zlib.compress(msgspec.msgpack.encode((VERSION, settings, state)), 1)


def decode(saved: bytes, settings: Settings) -> State:
    """What ``encode`` made; ``ValueError`` for another version, other settings or other bytes."""
    try:
        version, *rest = msgspec.msgpack.decode(zlib.decompress(saved), type=list[msgspec.Raw])
        found = msgspec.msgpack.decode(version, type=int)
        if found != VERSION:
            raise ValueError(
                f"the saved state of lowest_acked_offset has version {found}, and this code reads"
                f" version {VERSION}: replay the recording from its beginning"
            )
        of = msgspec.msgpack.decode(rest[0], type=Settings)
        if of != settings:
            raise ValueError(
                f"the state of lowest_acked_offset was saved with {of}, not {settings}:"
                " replay the recording from its beginning"
            )
        return msgspec.msgpack.decode(rest[1], type=State)
    except (zlib.error, msgspec.DecodeError) as error:
        raise ValueError(f"this is no saved state of lowest_acked_offset: {error}") from error

"""What a replay carries from one increment to the next, and as bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from kip_replay.replay.min_isr_acks.appends import Appends
from kip_replay.replay.min_isr_acks.brokers import Brokers
from kip_replay.replay.min_isr_acks.configs import MinIsrConfig
from kip_replay.replay.min_isr_acks.consumers import Consumers
from kip_replay.replay.min_isr_acks.events import Event
from kip_replay.replay.min_isr_acks.holes import Seen
from kip_replay.replay.min_isr_acks.leaderships import Leaderships
from kip_replay.replay.min_isr_acks.topics import Topics
from kip_replay.replay.min_isr_acks.window import Window
from kip_replay.replay.outcomes import Variant

#: Of what ``saved`` returns: another one is another layout or meaning.
STATE_VERSION = 5


@dataclass
class State:
    """All that a replay carries.

    ``front``: the last event; ``order``: how many there were. ``altered``: configs that the leader
    may not have applied yet.
    """

    node_id: int
    variants: list[Variant]
    configs: MinIsrConfig
    leaderships: Leaderships
    window: Window
    version: int = STATE_VERSION
    front: Event = field(default_factory=lambda: Event(-1, 0, "", ""))
    order: int = 0
    altered: list[Event] = field(default_factory=list)
    topics: Topics = field(default_factory=Topics)
    brokers: Brokers = field(default_factory=Brokers)
    consumers: Consumers = field(default_factory=Consumers)
    appends: Appends = field(default_factory=Appends)
    seen: Seen = field(default_factory=Seen)


def started(node_id: int, variants: list[Variant], default_min_isr: int | None) -> State:
    """Nothing is known yet."""
    window = Window(np.empty((0, 1 + 2 * len(variants)), np.int64))
    configs = MinIsrConfig(default_min_isr)
    return State(node_id, variants, configs, Leaderships(node_id), window)


def saved(state: State) -> bytes:
    """The state as MessagePack."""
    return msgspec.msgpack.encode(state, enc_hook=_plain)


def resumed(data: bytes, node_id: int, variants: list[Variant]) -> State:
    """What was saved; raises ``ValueError`` if it is of another version, node or sweep."""
    plain: dict[str, Any] = msgspec.msgpack.decode(data)
    again = "replay the recording from its beginning"
    if plain.get("version") != STATE_VERSION:
        raise ValueError(
            f"the saved state of min_isr_acks is of version {plain.get('version')}, this code"
            f" reads version {STATE_VERSION}: {again}"
        )
    if [plain["node_id"], plain["variants"]] != [node_id, [list(one) for one in variants]]:
        raise ValueError(
            "the saved state of min_isr_acks is of another node or of other values of"
            f" min.insync.replicas: {again}"
        )
    return msgspec.msgpack.decode(data, type=State, dec_hook=_whole)


def _plain(value: Any) -> Any:
    if isinstance(value, pa.RecordBatch):
        with pa.BufferOutputStream() as sink:
            with pa.ipc.new_stream(sink, value.schema) as writer:
                writer.write_batch(value)
            return [sink.getvalue().to_pybytes()]
    return [list(value.shape), value.astype("<i8").tobytes()]


def _whole(kind: Any, plain: Any) -> Any:
    if kind is pa.RecordBatch:
        return pa.ipc.open_stream(plain[0]).read_next_batch()
    shape, data = plain
    return np.frombuffer(data, "<i8").reshape(shape).copy()

"""What a replay carries from one increment to the next, and as bytes."""

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from ..outcomes import Variant
from .appends import Appends
from .brokers import Brokers
from .configs import MinIsrConfig
from .consumers import Consumers
from .events import Event
from .holes import Seen
from .leaderships import Leaderships
from .topics import Topics
from .window import Window


class State(msgspec.Struct):
    """All that a replay carries.

    ``front``: the last event; ``order``: how many there were. ``altered``: configs that the leader
    may not have applied yet.
    """

    node_id: int
    variants: list[Variant]
    configs: MinIsrConfig
    leaderships: Leaderships
    window: Window
    front: Event = msgspec.field(default_factory=lambda: Event(-1, 0, "", ""))
    order: int = 0
    altered: list[Event] = []
    topics: Topics = msgspec.field(default_factory=Topics)
    brokers: Brokers = msgspec.field(default_factory=Brokers)
    consumers: Consumers = msgspec.field(default_factory=Consumers)
    appends: Appends = msgspec.field(default_factory=Appends)
    seen: Seen = msgspec.field(default_factory=Seen)


def started(node_id: int, variants: list[Variant], default_min_isr: int | None) -> State:
    window = Window(np.empty((0, 1 + 2 * len(variants)), np.int64))
    configs = MinIsrConfig(default_min_isr)
    return State(node_id, variants, configs, Leaderships(node_id), window)


def saved(state: State) -> bytes:
    return msgspec.msgpack.encode(state, enc_hook=_plain)


def resumed(data: bytes) -> State:
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

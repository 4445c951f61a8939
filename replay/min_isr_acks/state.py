"""What a replay carries from one increment to the next, and as bytes."""

from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from ..outcomes import Variant
from .appends import Appends
from .brokers import Brokers
from .consumers import Consumers
from .events import Event
from .holes import Seen
from .leadership import Leaderships
from .levels import Fetches, Standings, View, begins, merged, view_of
from .log import FOLDED, NOWHERE, Array, Log, by_partition
from .topics import MinIsrConfig, Topics

#: Columns of a PRODUCE that its outcomes carry, or follow from.
REQUEST_COLUMNS = [
    *("request_id", "client_id", "acks", "is_transactional", "is_idempotent"),
    *("received_us", "built_us", "timeout_us"),
]


class Window(msgspec.Struct):
    """Rows since the oldest batch that is not settled, FETCHes by session, brokers' standings.

    Everything is worked out anew from the rows whenever as many have come as there were, so that
    outcomes depend on the log alone. What lies before a partition's oldest open batch is folded: of
    each follower its last FETCH, and how far the levels had risen.

    ``reached``: by partition the term, then a column per variant and level.
    """

    reached: Array
    requests: list[pa.RecordBatch] = []
    log: Log = msgspec.field(
        default_factory=lambda: Log(*np.empty((len(Log._fields), 0), np.int64))
    )
    more: list[Log] = []
    fetches: list[Fetches] = []
    standings: list[Standings] = []

    @property
    def is_due(self) -> bool:
        """As many rows have come as there were: working all out anew costs no more than that."""
        return sum(len(one.order) for one in self.more) >= len(self.log.order)

    def grow(self, partitions: int) -> None:
        more = partitions - len(self.reached)
        self.reached = np.append(self.reached, np.full((more, self.reached.shape[1]), NOWHERE), 0)

    def view(self, leaderships: Leaderships) -> View:
        self.log, self.more = log, _ = by_partition(self.log, *self.more), []
        self.requests = [pa.concat_batches(self.requests)]
        self.fetches = [merged(self.fetches)]
        return view_of(log, leaderships, self.fetches[0], self.standings, self.reached)

    def fold(self, view: View, settled: Array) -> None:
        """Leave out what is settled: rows of PRODUCEs, and whatever only they needed."""
        log, stands = view.log, view.stands
        log.request[settled] = NOWHERE
        is_open = log.request != NOWHERE
        requests, log.request[is_open] = np.unique(log.request[is_open], return_inverse=True)
        self.requests = [self.requests[0].take(pa.array(requests))]
        n, places = len(log.order), np.arange(len(log.order))
        first = np.flatnonzero(begins(log))
        ends = np.append(first[1:], n)
        opens = np.minimum(np.minimum.reduceat(np.where(is_open, places, n), first), ends)
        last = opens[opens > first] - 1
        partitions = log.partition[last]
        self.reached[partitions, 0] = view.conditions.term[last]
        for i, level in enumerate(level for both in view.levels for level in both):
            self.reached[partitions, 1 + i] = level.offset[last]
        fetch = stands.fetch[last]
        is_kept = fetch != NOWHERE
        folded = log.at(fetch[is_kept])
        folded.kind[:] = FOLDED
        folded.caught_up_us[:] = view.caught_up_us[last][is_kept]
        folded.log_end[:] = np.repeat(log.log_end[last], is_kept.sum(axis=1))
        kept = log.at(places >= np.repeat(opens, ends - first))
        self.log = by_partition(folded, kept)
        since = int(kept.order.min(initial=log.order.max()))
        self.fetches = [self.fetches[0].since(since, self.log.session)]
        later = [i for i, (order, _) in enumerate(self.standings) if order > since]
        self.standings = self.standings[max(0, (later or [len(self.standings)])[0] - 1) :]


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

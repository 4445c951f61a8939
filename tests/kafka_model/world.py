"""A broker with clients at random, logged with and without sessions.

What each client wants at each FETCH, and what the broker has of each partition then, is drawn once
(``moments``). From that, the log without sessions is written as it is, and Kafka's own code
(``fetch_sessions``) says what would have gone over the wire with N slots.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from .fetch_sessions import Context, FetchManager, FetchSessionHandler, Key, Request, Response
from .log import failed, requested, returned, unweighed, weighed
from .recorded import RecordedFetch, RequestedPartition, ReturnedPartition

UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER, NOT_AUTHORIZED, UNKNOWN_TOPIC_ID = 3, 6, 29, 100


class Moment(NamedTuple):
    """One FETCH of a client: what it wants, in its order, and what the broker has to say."""

    at_ms: float
    lasts_ms: float
    client: int
    replica_id: int
    wanted: list[RequestedPartition]
    state: dict[Key, ReturnedPartition]
    not_read: frozenset[Key]
    throttled: bool
    is_goodbye: bool = False


def topic_id(name: str, generation: int) -> str:
    return f"{name}.{generation}".ljust(22, "_")


@dataclass
class _Client:
    """A client's partitions: in the order in which it lists them."""

    number: int
    replica_id: int
    wanted: dict[Key, RequestedPartition] = field(default_factory=dict)
    state: dict[Key, ReturnedPartition] = field(default_factory=dict)
    free_ms: float = 0.0


class World:
    """Draws what happens. ``names`` are those of all topic ids it ever uses."""

    def __init__(self, random: Random, clients: int, steps: int) -> None:
        self._random = random
        self.names: dict[str, str] = {}
        self._clients = [
            _Client(n, 12 + n if random.random() < 0.5 else -1) for n in range(clients)
        ]
        self._generation = 0
        self.moments = sorted(self._draw(steps), key=lambda moment: moment.at_ms)

    def _draw(self, steps: int) -> Iterator[Moment]:
        for client in self._clients:
            client.free_ms = self._random.uniform(0, 1000)
            for _ in range(self._random.randint(1, 5)):
                self._add(client)
        for _ in range(steps):
            client = self._random.choice(self._clients)
            yield self._moment(client)
        for client in self._clients:
            if client.replica_id < 0:
                at = client.free_ms + 1
                yield Moment(at, 1, client.number, -1, [], {}, frozenset(), False, True)

    def _moment(self, client: _Client) -> Moment:
        random = self._random
        if random.random() < 0.2:
            self._add(client)
        if random.random() < 0.15 and len(client.wanted) > 1:
            self._drop(client, random.choice(list(client.wanted)))
        if random.random() < 0.1:
            self._recreate(client, random.choice(list(client.wanted)))
        before = dict(client.state)
        for key in client.wanted:
            client.state[key] = self._tell(key, client.state.get(key))
        throttled = client.replica_id < 0 and random.random() < 0.1
        wait = random.choice([1, 30, 5_000, 70_000])
        at = client.free_ms + wait
        lasts = random.choice([0.5, 40, 400])
        client.free_ms = at + lasts
        moment = Moment(
            at,
            lasts,
            client.number,
            client.replica_id,
            list(client.wanted.values()),
            dict(client.state),
            frozenset(key for key in client.wanted if _is_not_read(client.state[key])),
            throttled,
        )
        if throttled:
            client.state = before
        else:
            self._digest(client)
        return moment

    def _add(self, client: _Client) -> None:
        name, partition = self._random.choice("abc"), self._random.randrange(4)
        here = {(self.names[key[0]], key[1]): key for key in client.wanted}
        generation = next((k[0] for (n, _), k in here.items() if n == name), None)
        topic = generation or topic_id(name, 0)
        self.names[topic] = name
        if (name, partition) not in here:
            client.wanted[topic, partition] = requested(topic, partition, self._random.randrange(3))

    def _drop(self, client: _Client, key: Key) -> None:
        del client.wanted[key]
        client.state.pop(key, None)

    def _recreate(self, client: _Client, key: Key) -> None:
        """All partitions of a topic that the client has are another topic's of the same name."""
        self._generation += 1
        name = self.names[key[0]]
        topic = topic_id(name, self._generation)
        self.names[topic] = name
        renewed = {}
        for old, before in client.wanted.items():
            if old[0] == key[0]:
                client.state.pop(old, None)
                renewed[topic, old[1]] = before._replace(topic_id=topic, fetch_offset=0)
            else:
                renewed[old] = before
        client.wanted = renewed

    def _tell(self, key: Key, before: ReturnedPartition | None) -> ReturnedPartition:
        random = self._random
        if before is not None and before.error_code and random.random() < 0.5:
            return before
        if random.random() < 0.1:
            codes = (UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER, NOT_AUTHORIZED, UNKNOWN_TOPIC_ID)
            found = failed(*key, random.choice(codes))
            may_be_read = found.error_code == UNKNOWN_TOPIC_OR_PARTITION and random.random() < 0.5
            is_read = found.error_code == NOT_LEADER or may_be_read
            return found._replace(aborted_transactions=None) if is_read else found
        known = 0 if before is None else max(before.high_watermark, 0)
        high_watermark = known + random.choice([0, 0, 0, 1])
        records = random.choice([0, 0, 0, 100, 70_000])
        start = 0 if before is None else max(before.log_start_offset, 0)
        of = {"record_bytes": records, "log_start_offset": start + (random.random() < 0.05)}
        of["aborted_transactions"] = random.choice([0, 0, 1]) if records else 0
        of["preferred_read_replica"] = 12 if random.random() < 0.03 else -1
        of["diverging_epoch"] = 1 if random.random() < 0.03 else None
        partition = returned(*key, high_watermark, **of)
        diverges = partition.diverging_epoch is not None
        return partition._replace(diverging_end_offset=3) if diverges else partition

    def _digest(self, client: _Client) -> None:
        """The client has the answer: it asks for the next records."""
        for key, before in client.wanted.items():
            if client.state[key].record_bytes:
                client.wanted[key] = before._replace(
                    fetch_offset=before.fetch_offset + 1, last_fetched_epoch=0
                )
        if self._random.random() < 0.5:
            moved = self._random.choice(list(client.wanted))
            client.wanted[moved] = client.wanted.pop(moved)


def _is_not_read(returned: ReturnedPartition) -> bool:
    """What has an error without being read has a list of aborted transactions."""
    return returned.error_code != 0 and returned.aborted_transactions is not None


# --- logs ----------------------------------------------------------------------------------------


def log_of(moments: Sequence[Moment], names: dict[str, str], slots: int) -> list[RecordedFetch]:
    """The log that a broker with so many slots writes; 0 slots: every FETCH is full.

    A FETCH that a session error answers and its retry have the same time: ``request_id`` ends in
    the attempt. Sessions are created when answers are built, so that has to happen in order.
    """
    broker = FetchManager(slots)
    handlers: dict[int, FetchSessionHandler] = {}
    rows: list[RecordedFetch] = []
    due: list[tuple[float, int, Moment, Context, int]] = []

    def finish_until(now: float) -> None:
        while due and min(due, key=_when)[0] <= now:
            built, _, moment, context, attempt = due.pop(due.index(min(due, key=_when)))
            read, is_follower = moment.state.__getitem__, moment.replica_id >= 0
            how = (moment.not_read, is_follower, int(built), moment.throttled)
            response = broker.respond(context, read, *how)
            handlers[moment.client].handle(response, moment.throttled)
            rows.append(_row(moment, context.request, response, attempt))

    for moment in moments:
        finish_until(moment.at_ms)
        handler = handlers.setdefault(moment.client, FetchSessionHandler(names))
        if moment.is_goodbye:
            handler.close()
        context = broker.new_context(handler.build(moment.wanted), int(moment.at_ms))
        attempt = 0
        if context.kind == "error":
            refused = broker.respond(context, moment.state.__getitem__, (), False, 0)
            handler.handle(refused)
            rows.append(_row(moment, context.request, refused, attempt))
            context = broker.new_context(handler.build(moment.wanted), int(moment.at_ms))
            attempt = 1
        due.append((moment.at_ms + moment.lasts_ms, moment.client, moment, context, attempt))
    finish_until(float("inf"))
    return weighed(sorted(rows, key=lambda row: (row.dequeued_us, row.request_id)))


def _when(item: tuple[float, int, Moment, Context, int]) -> tuple[float, int]:
    return item[0], item[1]


def _row(moment: Moment, request: Request, response: Response, attempt: int) -> RecordedFetch:
    line = {"lasts_ms": moment.lasts_ms, "throttle_ms": 5.0 if moment.throttled else 0.0}
    who = {"replica_id": moment.replica_id, "connection": f"connection {moment.client:02d}"}
    request_id = f"{moment.at_ms:014.3f} {moment.client:02d} {attempt}"
    return unweighed(moment.at_ms, request, response, request_id=request_id, **line, **who)

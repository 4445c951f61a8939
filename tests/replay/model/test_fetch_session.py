"""Fetch sessions: as Kafka's own code with maps, and its FetchSessionTest for the cache."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka_model.fetch_sessions import FetchManager, FetchSessionHandler, Key, Request, Response
from kafka_model.log import batch_of, requested, returned, unweighed
from kafka_model.world import Moment, World

from kip_replay.replay.incremental_fetch.partitions import Partitions
from kip_replay.replay.incremental_fetch.recorded import Batch
from kip_replay.replay.kafka.messages.encoding import Ints
from kip_replay.replay.model.cached_partitions import CachedPartitions, PartitionOrder, Slots
from kip_replay.replay.model.fetch_session import (
    SHARDS,
    FetchSession,
    FetchSessionCache,
    is_returned,
    update,
)

# --- partitions: one client, its FETCHes by Kafka's code and by the model -------------------------


class Client:
    """One client and its broker, by Kafka's code and by the model."""

    def __init__(self, names: dict[str, str]) -> None:
        self.handler, self.broker = FetchSessionHandler(names), FetchManager(80_000)
        self.numbering = Partitions()
        self.numbering.add_names(names)
        self.cached = CachedPartitions(self.numbering)
        self.session: FetchSession | None = None

    def fetch(self, moment: Moment) -> None:
        request = self.handler.build(moment.wanted)
        context = self.broker.new_context(request, 0)
        read, how = moment.state.__getitem__, (moment.not_read, False, 0, moment.throttled)
        response = self.broker.respond(context, read, *how)
        self.handler.handle(response, moment.throttled)

        states = [read(partition.key) for partition in moment.wanted]
        full = unweighed(0, Request(0, 0, moment.wanted, []), Response(0, 0, states))
        requested, _, returned = Batch(batch_of([full]), self.numbering).lists
        changes = update(self.cached, requested, requested.rows[0], None, by_id=True)
        if self.session is not None:
            assert self.session.epoch == request.epoch
            entries, forgotten = self.session.request(changes, self.cached)
            assert [states[at].key for at in entries.at] == [p.key for p in request.partitions]
            assert self.keys(forgotten) == request.forgotten
        if moment.throttled:
            return
        whole = self.cached.respond(returned, returned.rows[0], has_errors=True)
        if self.session is None:
            numbers = requested.partitions
            last = np.isin(numbers, returned.partitions[returned.not_read])
            self.session = FetchSession(
                True,
                PartitionOrder.of(self.cached.slots_of(numbers)),
                PartitionOrder.of(self.cached.slots_of(np.append(numbers[~last], numbers[last]))),
            )
            return
        entries = self.session.response(whole, is_returned(whole))
        assert [states[at].key for at in entries.at] == [p.key for p in response.partitions]
        self.session.rotate(Slots(entries.slots[returned.has_records[entries.at]]))
        if self.cached.end > 2 * self.cached.size:
            kept = self.cached.renumber()
            self.session.client.renumber(kept)
            self.session.broker.renumber(kept)

    def keys(self, numbers: Ints) -> list[Key]:
        topics, indexes = self.numbering.topic_of[numbers], self.numbering.index_of[numbers]
        return [(self.numbering.topics[t], i) for t, i in zip(topics, indexes, strict=True)]


@pytest.mark.property
@given(st.integers(0, 2**32 - 1))
def test_lists_are_those_of_kafkas_code_in_its_order(seed: int) -> None:
    world = World(Random(seed), clients=2, steps=60)
    clients: dict[int, Client] = {}
    for moment in world.moments:
        if not moment.is_goodbye:
            clients.setdefault(moment.client, Client(world.names)).fetch(moment)


TOPICS = {name.ljust(22, "_"): name for name in "ab"}
A, B, X, Y = (name.ljust(22, "_") for name in "abxy")


def moment(*keys: Key, **returns: int) -> Moment:
    wanted = [requested(*key) for key in keys]
    state = {key: returned(*key, **({"high_watermark": 5} | returns)) for key in keys}
    return Moment(0, 0, 0, 12, wanted, state, frozenset(), throttled=False)


@pytest.mark.parametrize(
    "history",
    [
        [moment((A, 0), (B, 0), (A, 1), (B, 1)), moment((B, 1))],
        [moment((A, 0)), moment((A, 0), error_code=6), moment((A, 0))],
        [moment((A, 0), log_start_offset=4), moment((A, 0), log_start_offset=3)],
        [moment((A, 0)), moment((A, 0), high_watermark=4)],
        [moment((A, 0)), moment((A, 0), last_stable_offset=3)],
        [moment((A, 0), (X, 0)), moment((A, 0), (Y, 0), error_code=6)],
    ],
    ids=[
        "what is forgotten goes topic by topic",
        "after an error any high watermark is a change",
        "a log start offset that goes back is one",
        "a high watermark that goes back is one",
        "a last stable offset is none",
        "topics without a known name do not replace one another",
    ],
)
def test_lists_of_a_history(history: list[Moment]) -> None:
    client = Client(TOPICS)
    for at in history:
        client.fetch(at)


# --- the cache: slots, shards, eviction -----------------------------------------------------------

#: When a shard is made; the times of histories count from here.
START_MS = 1_700_000_000_000

#: One shard: slots, and who comes when with how many partitions. ``follower...`` is privileged; who
#: holds a slot uses it, and ``|`` parts what happens to others from what happens to the newcomer.
HISTORIES = {
    "testSessionCache: the least recently used goes, once it is idle for more than 120 s": """
        2 slots
        first 10 at 0       -> created, a slot was free
        second 20 at 0      -> created, a slot was free
        second 20 at 120000
        third 99 at 120000  -> refused, cache full
        fourth 1 at 120001  -> first evicted, idle | created, a slot was made free
        second 20 at 120002
    """,
    "testPrivilegedSessionHandling: a follower throws out a consumer, not a follower": """
        2 slots
        follower 1 at 0         -> created, a slot was free
        consumer 100 at 0       -> created, a slot was free
        consumer_2 1000 at 0    -> refused, cache full
        follower_2 1 at 0       -> consumer evicted, not privileged | created, a slot was made free
        follower_3 9 at 0       -> refused, cache full
        consumer_3 1 at 120001  -> follower evicted, idle | created, a slot was made free
    """,
    "an old session goes for whoever is worth more: more partitions; the same loses": """
        1 slots
        old 10 at 0            -> created, a slot was free
        old 10 at 120001
        smaller 9 at 120001    -> refused, cache full
        as_large 10 at 120001  -> refused, cache full
        larger 11 at 120001    -> old evicted, smaller | created, a slot was made free
    """,
    "a session becomes old only when it is used": """
        1 slots
        young 1 at 0        -> created, a slot was free
        young 1 at 1
        larger 11 at 120001 -> refused, cache full
    """,
    "and not by being used within 120 s": """
        1 slots
        young 1 at 0        -> created, a slot was free
        young 1 at 120000
        larger 11 at 240000 -> refused, cache full
    """,
}


@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_shard(history: str) -> None:
    first, *steps = history.strip().splitlines()
    cache, ids = FetchSessionCache(int(first.split()[0]) * SHARDS), dict[str, int | None]()
    for step in steps:
        what, _, expected = step.partition("->")
        name, size, _, ms = what.split()
        now_ms = START_MS + int(ms)
        session = cache.find(ids.get(name))
        if session is not None:
            session.touch(int(size), now_ms)
            continue
        ids[name], happened = cache.maybe_create(
            name, name.startswith("follower"), int(size), now_ms
        )
        # The other shards take the next ones in turn.
        for _ in range(SHARDS - 1):
            cache.maybe_create("elsewhere", True, 1, now_ms)
        found = [f"{o.session.session_key} {o.event.value}, {o.reason.value}" for o in happened]
        assert " | ".join(found).replace(f"{name} ", "") == expected.strip()


@pytest.mark.parametrize("slots", [0, 1, 7])
def test_fewer_slots_than_shards_are_none(slots: int) -> None:
    session, (refused,) = FetchSessionCache(slots).maybe_create("a", True, 5, 0)
    assert session is None
    assert (refused.event, refused.reason) == ("refused", "no slots")


@pytest.mark.parametrize(("slots", "forgotten"), [(None, [True, False, False]), (24, [False] * 3)])
def test_only_an_unlimited_cache_forgets_what_nobody_uses(
    slots: int | None, forgotten: list[bool]
) -> None:
    cache = FetchSessionCache(slots)
    sessions = [cache.maybe_create(str(at), True, 1, at)[0] for at in (0, 50, 60)]
    cache.forget_unused(before_ms=50)
    assert [cache.find(session) is None for session in sessions] == forgotten

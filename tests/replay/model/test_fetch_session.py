"""The cache of fetch sessions: Kafka's FetchSessionTest, and why who goes."""

import pytest

from kip_replay.replay.model.fetch_session import SHARDS, FetchSessionCache

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

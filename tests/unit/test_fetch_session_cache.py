"""The broker's session cache: slots, shards, eviction. Named after Kafka's FetchSessionTest."""

import pytest

from kip_replay.replay.incremental_fetch.cache import (
    EVICTION_MS,
    SHARDS,
    FetchSessionCache,
    Occurrence,
    Reason,
)

#: When a shard is made; its own times count from here.
START_MS = 1_700_000_000_000


class Shard:
    """One shard of a cache: newcomers go to it in turn with seven others, which stay unseen."""

    def __init__(self, slots: int) -> None:
        self.cache = FetchSessionCache(slots * SHARDS)
        self.now_ms = 0

    def create(self, key: str, size: int, privileged: bool = False) -> int | None:
        now_ms = START_MS + self.now_ms
        session, self.happened = self.cache.maybe_create(key, privileged, size, now_ms)
        for _ in range(SHARDS - 1):
            self.cache.maybe_create("elsewhere", True, 1, now_ms)
        return session

    def touch(self, session: int, size: int, now_ms: int) -> None:
        cached = self.cache.find(session)
        assert cached is not None
        cached.touch(size, START_MS + now_ms)

    @property
    def events(self) -> list[tuple[str, str, str]]:
        return [(o.event.value, o.session_key, o.reason.value) for o in self.happened]


@pytest.mark.parametrize("slots", [0, 1, 7])
def test_fewer_slots_than_shards_are_none(slots: int) -> None:
    cache = FetchSessionCache(slots)
    session, happened = cache.maybe_create("a", True, 5, 0)
    assert session is None
    assert happened == [Occurrence("refused", Reason.NO_SLOTS, "a", 0, 5, True)]  # type: ignore[arg-type]


def test_fetch_session_cache_evicts_what_is_not_used() -> None:
    """testSessionCache: the least recently used goes, once it is idle for more than 120 s."""
    shard = Shard(2)
    first, second = shard.create("first", 10), shard.create("second", 20)
    assert first is not None
    assert second is not None
    shard.now_ms = EVICTION_MS
    shard.touch(second, 20, shard.now_ms)
    assert shard.create("at the limit", 99) is None
    shard.now_ms += 1
    assert shard.create("after it", 1) is not None
    assert shard.events == [
        ("evicted", "first", "idle"),
        ("created", "after it", "a slot was made free"),
    ]
    assert shard.cache.find(first) is None
    assert shard.cache.find(second)


def test_privileged_session_handling() -> None:
    """testPrivilegedSessionHandling: 2 slots; a follower throws out a consumer, not a follower."""
    shard = Shard(2)
    follower, consumer = shard.create("follower", 1, True), shard.create("consumer", 100)
    assert follower is not None
    assert consumer is not None
    assert shard.create("other consumer", 1000) is None
    assert shard.events == [("refused", "other consumer", "cache full")]

    assert shard.create("other follower", 1, True) is not None
    assert shard.events[0] == ("evicted", "consumer", "not privileged")
    assert shard.create("third follower", 9, True) is None

    # Later the follower that is not used any more goes, even for a consumer.
    shard.now_ms = EVICTION_MS + 1
    assert shard.create("late consumer", 1) is not None
    assert shard.events[0] == ("evicted", "follower", "idle")


def test_session_that_is_old_goes_for_a_larger_one() -> None:
    """An old session may go for whoever is worth more: more partitions; the same loses."""
    shard = Shard(1)
    old = shard.create("old", 10)
    assert old is not None
    shard.now_ms = EVICTION_MS + 1
    shard.touch(old, 10, shard.now_ms)
    assert shard.create("smaller", 9) is None
    assert shard.create("as large", 10) is None
    assert shard.create("larger", 11) is not None
    assert shard.events[0] == ("evicted", "old", "smaller")


@pytest.mark.parametrize("used_ms", [1, 120_000])
def test_session_becomes_old_only_when_it_is_used(used_ms: int) -> None:
    """After 120 s, and then only with its next FETCH."""
    shard = Shard(1)
    young = shard.create("young", 1)
    assert young is not None
    shard.touch(young, 1, used_ms)
    shard.now_ms = used_ms + EVICTION_MS
    assert EVICTION_MS == 120_000
    assert shard.create("larger", 11) is None


def test_unlimited_cache_forgets_what_nobody_uses() -> None:
    cache = FetchSessionCache(None)
    sessions = [cache.maybe_create(str(at), True, 1, at)[0] for at in (0, 50, 60)]
    cache.forget_unused(before_ms=50)
    assert [cache.find(session) is None for session in sessions] == [True, False, False]


def test_limited_cache_keeps_what_nobody_uses() -> None:
    cache = FetchSessionCache(8)
    session, _ = cache.maybe_create("old", True, 1, 0)
    cache.forget_unused(before_ms=50)
    assert cache.find(session)

"""The cache of fetch sessions without slots and without a limit, beside ``kafka_oracle``."""

import pytest

from kip_replay.replay.model.fetch_session import CachedSession, FetchSessionCache


@pytest.mark.parametrize("slots", [0, 1, 7])
def test_fewer_slots_than_shards_are_none(slots: int) -> None:
    session, (refused,) = FetchSessionCache(slots).maybe_create(CachedSession("a", True, 5, 0, 0))
    assert session is None
    assert (refused.event, refused.reason) == ("refused", "no slots")


@pytest.mark.parametrize(("slots", "forgotten"), [(None, [True, False, False]), (24, [False] * 3)])
def test_only_an_unlimited_cache_forgets_what_nobody_uses(
    slots: int | None, forgotten: list[bool]
) -> None:
    cache = FetchSessionCache(slots)
    new = [CachedSession(str(at), True, 1, at, at) for at in (0, 50, 60)]
    ids = [session_id for session_id, _ in map(cache.maybe_create, new) if session_id is not None]
    cache.forget_unused(before_ms=50)
    assert [cache.find(session_id) is None for session_id in ids] == forgotten

"""incremental_fetch on constructed histories, named after Kafka's own cases where they have one.

Kafka's: FetchSessionTest (broker) and FetchSessionHandlerTest (client); what histories show that
Kafka's classes answered is left to them. Nothing here is in a recording: errors 70, 71 and 106,
throttled responses, FETCHes below v16, ... are ``synthetic``.
"""

from collections.abc import Iterable
from typing import Any, Self

import pytest
from fetch_logs import (
    Key,
    RecordedFetch,
    Replayed,
    Request,
    RequestedPartition,
    Response,
    ReturnedPartition,
    batch_of,
    fetched,
    replay_of,
    requested,
    returned,
)

from kip_replay.replay.incremental_fetch.outcomes import FULL, INCREMENTAL, INCREMENTAL_DRAFT
from kip_replay.replay.incremental_fetch.replay import IncrementalFetch
from kip_replay.replay.incremental_fetch.streams import CONNECTION_IDLE_US
from kip_replay.replay.records import RECORDED

FOO, BAR, NEW_FOO = ("foo".ljust(22, "_"), "bar".ljust(22, "_"), "new-foo".ljust(22, "_"))
NAMES = {FOO: "foo", BAR: "bar", NEW_FOO: "foo"}
NEW_BAR = "new-bar".ljust(22, "_")
FOO_0, FOO_1, BAR_0, BAR_1, NEW_BAR_0 = (FOO, 0), (FOO, 1), (BAR, 0), (BAR, 1), (NEW_BAR, 0)
SESSION = 77
SECOND = 1000.0


class Log:
    """One client's FETCHes, one a second, in a session or without."""

    def __init__(self, version: int = 17, session: int = SESSION, **others: Any) -> None:
        self.rows: list[RecordedFetch] = []
        self.version, self.session, self.others = version, session, others
        self.at_ms = 0.0

    def full(
        self, *pairs: tuple[RequestedPartition, ReturnedPartition], session_id: int = 0, **more: Any
    ) -> Self:
        """A full FETCH; it brings ``session``, if that is not 0."""
        response = Response(0, self.session, [t for _, t in pairs])
        return self.add(Request(session_id, 0, [a for a, _ in pairs], []), response, **more)

    def incremental(
        self,
        partitions: Iterable[RequestedPartition] = (),
        returns: Iterable[ReturnedPartition] = (),
        forgotten: Iterable[Key] = (),
        error: int = 0,
        response_session_id: int | None = None,
        **more: Any,
    ) -> Self:
        """An incremental FETCH in ``session``; ``response_session_id``: the one of the response."""
        epoch = sum(row.session_epoch > 0 for row in self.rows) + 1
        session_id = self.session if response_session_id is None else response_session_id
        request = Request(self.session, epoch, list(partitions), list(forgotten))
        return self.add(request, Response(error, session_id, list(returns)), **more)

    def add(self, request: Request, response: Response | None, **more: Any) -> Self:
        self.at_ms += SECOND
        request = request._replace(version=self.version)
        self.rows.append(fetched(self.at_ms, request, response, **(self.others | more)))
        return self

    def replay(self, *slots: int) -> Replayed:
        return replay_of([self.rows], slots, NAMES)


def both(key: Key, offset: int = 0, high_watermark: int = 0, **of_response: Any) -> Any:
    return requested(*key, offset), returned(*key, high_watermark, **of_response)


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def shapes(rows: list[dict[str, Any]]) -> list[tuple[int, int, int, int]]:
    """Partitions of the session, requested, forgotten, returned."""
    names = ("session_partitions", "request_partitions", "forgotten_partitions")
    return [(*(row[n] for n in names), row["response_partitions"]) for row in rows]


def test_full_fetch_of_nothing() -> None:
    rows = Log(session=0).full(both(FOO_0)).full().full(both(FOO_0)).replay()
    assert shapes(rows.variant(INCREMENTAL)) == [(1, 1, 0, 1), (0, 0, 1, 0), (1, 1, 0, 1)]


@pytest.mark.parametrize(
    ("change", "listed", "listed_by_draft"),
    [
        ({"fetch_offset": 1}, (1, 0), (1, 0)),
        ({"log_start_offset": 1}, (1, 1), (1, 1)),
        ({"partition_max_bytes": 1}, (1, 0), (1, 0)),
        ({"current_leader_epoch": 1}, (1, 0), (0, 0)),
        ({"last_fetched_epoch": 1}, (1, 0), (0, 0)),
        ({}, (0, 0), (0, 0)),
        ({"last_stable_offset": 3}, (0, 0), (0, 1)),
        ({"high_watermark": 6}, (0, 1), (0, 1)),
        ({"record_bytes": 5}, (0, 1), (0, 1)),
        ({"preferred_read_replica": 12}, (0, 1), (0, 0)),
        ({"diverging_epoch": 0, "diverging_end_offset": 1}, (0, 1), (0, 0)),
    ],
    ids=str,
)
def test_draft_lists_other_changes(
    change: dict[str, int], listed: tuple[int, int], listed_by_draft: tuple[int, int]
) -> None:
    """Partitions that the second FETCH and its response list, of two that are fetched."""
    pair = requested(*FOO_0), returned(*FOO_0, 5)
    changed = (p._replace(**{k: v for k, v in change.items() if k in p._fields}) for p in pair)
    log = Log(session=0).full(pair, both(BAR_0)).full(tuple(changed), both(BAR_0))
    names = ("request_partitions", "response_partitions")
    for variant, expected in ((INCREMENTAL, listed), (INCREMENTAL_DRAFT, listed_by_draft)):
        row = log.replay().variant(variant)[1]
        assert tuple(row[name] for name in names) == expected


@pytest.mark.parametrize(
    ("listed", "returns", "sizes", "equal"),
    [
        ([], [returned(*FOO_0, 9), returned(*BAR_0, 9)], {}, True),
        ([], [returned(*BAR_0, 9), returned(*FOO_0, 9)], {}, False),
        ([], [returned(*FOO_0, 9), returned(*BAR_0, 0)], {}, False),
        ([requested(*FOO_0)], [], {}, False),
        ([], [], {"response_bytes": 1}, False),
    ],
    ids=["as a session does it", "another order", "nothing new", "not to be listed", "its size"],
)
def test_equals_recorded_is_no_formality(
    listed: list[RequestedPartition],
    returns: list[ReturnedPartition],
    sizes: dict[str, int],
    equal: bool,
) -> None:
    log = Log().full(both(FOO_0), both(BAR_0)).incremental(listed, returns)
    log.rows[1] = log.rows[1]._replace(**sizes)
    assert column(log.replay().variant(INCREMENTAL), "equals_recorded") == [None, equal]


@pytest.mark.parametrize(("error", "session_error"), [(71, 71), (106, 106), (-1, 0)])
def test_error_for_the_whole_fetch(error: int, session_error: int) -> None:
    """As in testUpdateAndGenerateResponseData: the client starts again, under every protocol."""
    log = Log().full(both(FOO_0))
    log.incremental([requested(*FOO_0, 1)], [], error=error, response_session_id=0)
    rows = log.full(both(FOO_0, 1), session_id=SESSION).replay()
    incremental = rows.variant(INCREMENTAL)
    assert column(incremental, "verdict") == ["replayed", "not_applicable", "replayed"]
    assert column(incremental, "is_full") == [True, None, True]
    assert column(rows.variant(RECORDED), "session_error") == [0, session_error, 0]
    events = [(event["event"], event["reason"]) for event in rows.events()]
    assert events[1:] == [("closed", "client requested a new one"), ("created", "a slot was free")]


def test_client_that_goes_from_names_to_ids_starts_again() -> None:
    """What its broker refuses before (106) is not replayed."""
    off = Log(version=12, session=0).full(both(("foo", 0)), both(("bar", 0)))
    off.version = 13
    rows = off.full(both(FOO_0), both(BAR_0)).full(both(FOO_0, 1), both(BAR_0)).replay()
    assert column(rows.variant(INCREMENTAL), "is_full") == [True, True, False]
    assert column(rows.variant(INCREMENTAL), "request_partitions") == [2, 2, 1]
    assert [event["event"] for event in rows.events()] == ["created", "closed", "created"]


def test_lost_connection_starts_again_under_every_protocol() -> None:
    log = Log().full(both(FOO_0)).full(both(FOO_0), session_id=SESSION, connection="another")
    rows = log.replay()
    assert column(rows.variant(INCREMENTAL), "is_full") == [True, True]
    assert column(rows.variant(INCREMENTAL), "session_id") == [0, SESSION]
    assert [e["event"] for e in rows.events()] == ["created", "closed", "created"]


def test_restarted_client_leaves_its_session_behind() -> None:
    """(0, 0) in the middle of a session: nobody closes the old one."""
    log = Log().full(both(FOO_0))
    log.session = SESSION + 1
    log.full(both(FOO_0))
    assert [event["event"] for event in log.replay().events()] == ["created", "created"]
    assert column(log.replay().variant(INCREMENTAL), "is_full") == [True, True]


@pytest.mark.parametrize(
    ("epoch", "events"), [(7, ["created", "closed", "created"]), (8, ["created", "created"])]
)
def test_follower_on_a_new_connection_without_sessions(epoch: int, events: list[str]) -> None:
    """The same run of a broker closes its session; another knows nothing of it."""
    log = Log(session=0).full(both(FOO_0)).full(both(FOO_0), connection="2", replica_epoch=epoch)
    rows = log.replay()
    assert column(rows.variant(INCREMENTAL), "is_full") == [True, True]
    assert [event["event"] for event in rows.events()] == events


def test_client_that_requests_no_session() -> None:
    """librdkafka sends (0, -1): every protocol leaves it as it is."""
    row = fetched(
        1,
        Request(0, -1, [requested(*FOO_0)], []),
        Response(0, 0, [returned(*FOO_0)]),
        replica_id=-1,
    )
    rows = replay_of([[row]], (8,), NAMES)
    assert set(column(rows.outcomes, "client_kind")) == {"consumer_without_sessions"}
    assert set(column(rows.outcomes, "request_bytes")) == {row.request_bytes}
    more = {r["variant"]: r["response_bytes"] - (row.response_bytes or 0) for r in rows.outcomes}
    assert more == {RECORDED: 0, FULL: 0, INCREMENTAL: 0, INCREMENTAL_DRAFT: 8}
    assert rows.evictions == []


def test_session_that_began_before_the_log() -> None:
    log = Log().incremental([requested(*FOO_0, 1)]).incremental()
    log.full(both(FOO_0, 2), both(BAR_0), session_id=SESSION)
    log.incremental([requested(*FOO_0, 3)])
    rows = log.replay()
    reason = "the session began before the log"
    for variant in (FULL, INCREMENTAL, INCREMENTAL_DRAFT):
        assert column(rows.variant(variant), "reason") == [reason, reason, None, None]
        assert column(rows.variant(variant), "request_bytes")[:2] == [None, None]
    assert column(rows.variant(RECORDED), "verdict") == ["replayed"] * 4
    assert column(rows.variant(RECORDED), "session_partitions") == [None, None, 2, 2]
    assert column(rows.variant(INCREMENTAL), "equals_recorded") == [None, None, None, True]


def test_missing_response_leaves_the_next_fetch_unknown() -> None:
    """Without sessions, the full FETCH after it says all but what was returned meanwhile."""
    log = Log(session=0).full(both(FOO_0))
    log.add(Request(0, 0, [requested(*FOO_0, 1)], []), None)
    log.full(both(FOO_0, 1, 7)).full(both(FOO_0, 1, 8))
    rows = log.replay()
    verdicts = ["replayed", "unknown", "unknown", "replayed"]
    assert column(rows.variant(INCREMENTAL), "verdict") == verdicts
    assert column(rows.variant(INCREMENTAL_DRAFT), "verdict") == verdicts
    assert column(rows.variant(FULL), "verdict") == ["replayed", "unknown", "replayed", "replayed"]
    assert column(rows.variant(RECORDED), "verdict")[1] == "unknown"
    assert shapes(rows.variant(INCREMENTAL))[3] == (1, 0, 0, 1)


def test_missing_request_in_a_session_is_unknown_until_a_full_fetch() -> None:
    log = Log().full(both(FOO_0)).incremental().incremental()
    log.rows[1] = without_request(log.rows[1])
    rows = log.replay()
    assert column(rows.variant(INCREMENTAL), "verdict") == ["replayed", "unknown", "unknown"]
    assert column(rows.variant(RECORDED), "session_id") == [0, None, SESSION]
    assert set(column(rows.outcomes, "client_kind")) == {"follower"}
    assert len(set(column(rows.outcomes, "session_key"))) == 1


def without_request(row: RecordedFetch) -> RecordedFetch:
    """As ingest has it where the log says "request":""."""
    gone = ("request_partitions", "forgotten_partitions", "replica_id", "replica_epoch")
    gone += ("session_id", "session_epoch", "rack_id", "request_bytes")
    return row._replace(**dict.fromkeys(gone))


def tagged(row: RecordedFetch) -> RecordedFetch:
    """With a field that has been in FETCHes of the metadata log alone."""
    directory = requested(*FOO_0, replica_directory_id="a" * 22)
    return row._replace(request_partitions=[directory])


CHANGES = [without_request, tagged, lambda row: row._replace(api_version=19)]


@pytest.mark.parametrize("changed", CHANGES)
def test_body_that_is_missing_and_form_that_is_not_known(changed: Any) -> None:
    row = changed(Log(session=0).full(both(FOO_0)).rows[0])
    rows = replay_of([[row]], (8,), NAMES)
    assert {r["verdict"] for r in rows.outcomes if r["variant"] != RECORDED} == {"unknown"}


def test_out_of_order_is_refused() -> None:
    log = Log(session=0).full(both(FOO_0)).full(both(FOO_0))
    with pytest.raises(ValueError, match="order"):
        replay_of([log.rows[::-1]])


@pytest.mark.parametrize("version", range(4, 19))
def test_versions(version: int) -> None:
    """v4 to v18: by name up to v12; below v7, as if upgraded and counted at v7."""
    foo, bar = ((FOO, 0), (BAR, 0)) if version >= 13 else (("foo", 0), ("bar", 0))
    epoch = 0 if version >= 7 else -1
    log = Log(version=version, session=0)
    for offset in (0, 1):
        request = Request(0, epoch, [requested(*foo, offset), requested(*bar)], [])
        log.add(request, Response(0, 0, [returned(*foo, offset), returned(*bar)]))
    rows = log.replay()
    assert column(rows.variant(INCREMENTAL), "request_partitions") == [2, 1]
    assert column(rows.variant(INCREMENTAL), "client_kind") == ["follower", "follower"]
    assert set(column(rows.variant(FULL), "api_version")) == {max(version, 7)}
    assert set(column(rows.variant(RECORDED), "api_version")) == {version}
    at_v7 = Log(version=max(version, 7), session=SESSION)
    at_v7.full((requested(*foo), returned(*foo)), (requested(*bar), returned(*bar)))
    at_v7.incremental([requested(*foo, 1)], [returned(*foo, 1)])
    recorded = at_v7.replay().variant(RECORDED)
    for name in ("request_bytes", "response_bytes"):
        assert column(rows.variant(INCREMENTAL), name) == column(recorded, name)
        if version >= 7:
            assert column(rows.variant(FULL), name) == column(rows.variant(RECORDED), name)


def test_draft_response_has_a_uuid() -> None:
    log = Log(session=0).full(both(FOO_0)).full(both(FOO_0))
    (full, _) = log.replay().variant(INCREMENTAL_DRAFT)
    assert full["response_bytes"] == (log.rows[0].response_bytes or 0) + 8


def test_draft_sends_all_when_a_partition_comes_or_goes() -> None:
    log = Log(session=0).full(both(FOO_0)).full(both(FOO_0))
    log.full(both(FOO_0), both(BAR_0)).full(both(FOO_0), both(BAR_0)).full(both(BAR_0))
    rows = log.replay()
    assert column(rows.variant(INCREMENTAL_DRAFT), "is_full") == [True, False, True, False, True]
    assert column(rows.variant(INCREMENTAL), "is_full") == [True, False, False, False, False]


def test_draft_needs_names() -> None:
    log = Log(session=0).full(both(FOO_0)).full(both(FOO_0)).full(both(FOO_0, 1))
    rows = [r for r in replay_of([log.rows]).outcomes if r["variant"] == INCREMENTAL_DRAFT]
    assert column(rows, "verdict") == ["replayed", "replayed", "unknown"]
    assert column(rows, "reason")[2] == "the name of a topic is not in the log"
    assert column(rows, "request_partitions") == [1, 0, 1]


def test_topics_without_a_known_name_do_not_replace_one_another() -> None:
    old, new = ("old".ljust(22, "_"), 0), NEW_BAR_0
    log = (
        Log()
        .full(both(FOO_0), both(old))
        .incremental([requested(*new), requested(*FOO_0, 1)], [returned(*new)], forgotten=[old])
    )
    assert column(log.replay().variant(INCREMENTAL), "equals_recorded") == [None, True]


def test_session_key_names_session_and_request() -> None:
    log = Log().full(both(FOO_0)).incremental()
    key = f"11/{SESSION}/{log.rows[0].request_id}"
    assert set(column(log.replay().outcomes, "session_key")) == {key}
    assert column(log.replay().events(), "session_key") == [key]
    without = Log(session=0).full(both(FOO_0)).replay()
    assert set(column(without.outcomes, "session_key")) == {"11/broker-12-fetcher-0/one"}


def test_stream_that_is_silent_for_long_is_over() -> None:
    """Without a session a broker closes its connection: state does not grow for ever."""
    log = Log(session=0).full(both(FOO_0))
    log.at_ms += CONNECTION_IDLE_US / 1000 + 60_000
    rows = log.full(both(FOO_0)).replay().variant(INCREMENTAL)
    assert column(rows, "is_full") == [True, True]
    replay, sizes = IncrementalFetch(11), []
    for n in range(20):
        row = Log(session=0, replica_id=-1, connection=str(n)).full(both(FOO_0)).rows[0]
        at = n * CONNECTION_IDLE_US // 2
        replay.feed(batch_of([row._replace(dequeued_us=at, built_us=at)]))
        sizes.append(len(replay.saved()))
    assert sizes[-1] < 2 * sizes[3]


def test_index_that_no_cluster_has() -> None:
    log = Log().full(both((FOO, 2**31 - 1)), both((FOO, -1)), both((FOO, 4))).incremental()
    assert column(log.replay().variant(INCREMENTAL), "equals_recorded") == [None, True]

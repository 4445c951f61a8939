"""What Kafka's own classes made of histories that a seed drew, and what ``replay/model`` makes.

``make oracle`` draws them anew, by java/Oracle.java on the jars of Kafka 4.1.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
from fetch_logs import Key, Request, Response, batch_of, unweighed

from kip_replay.replay.incremental_fetch.lists import Lists, Partitions
from kip_replay.replay.incremental_fetch.recorded import Batch
from kip_replay.replay.kafka.messages.columns import Ints
from kip_replay.replay.model.brokers import BrokerHeartbeatManager, Heartbeat
from kip_replay.replay.model.cached_partitions import (
    NO_SLOTS,
    CachedPartitions,
    PartitionOrder,
    Slots,
)
from kip_replay.replay.model.fetch_session import (
    EVICTION_MS,
    SHARDS,
    CachedSession,
    FetchSession,
    FetchSessionCache,
    Reason,
    SessionEvent,
    is_returned,
    update,
)
from kip_replay.replay.model.partition import (
    Acks,
    Partition,
    Replica,
    ReplicaView,
    Requirement,
    has_enough_in_sync,
    select,
)
from kip_replay.replay.model.raft import Leader

from . import histories
from .sessions import Fetch, History

_NOBODY = (1 << 63) - 1
_NONE = PartitionOrder.listing(NO_SLOTS)


def test_the_selector_chooses() -> None:
    """RackAwareReplicaSelector: racks are compared as they are written."""
    for choice in histories("select"):
        leader, *others = choice["replicas"]
        followers = [
            ReplicaView(of["id"], of["rack"], of["leo"], -of["since_caught_up_ms"]) for of in others
        ]
        chosen = select(leader["id"], leader["rack"], followers, 0, choice["client_rack"])
        assert chosen == choice["chosen"], choice
    assert len(histories("select")) >= 400


def test_a_follower_is_caught_up() -> None:
    """Replica.updateFetchStateOrThrow and isCaughtUp, from a leader's first moment on."""
    asked = Counter[str]()
    for history in histories("replica"):
        replica = Replica()
        for step in history:
            at_us = step["now_ms"] * 1000
            match step["op"]:
                case "lead":
                    replica = Replica.reset(at_us, is_in_sync=step["in_sync"])
                case "fetch":
                    replica.fetch(step["offset"], at_us, step["leo"])
                case "ask":
                    assert replica.is_caught_up(at_us, step["leo"]) == step["is_caught_up"], step
            if "caught_up_ms" in step:
                assert replica.caught_up_us == step["caught_up_ms"] * 1000, step
            asked[step["op"]] += 1
    assert min(asked["fetch"], asked["ask"]) > 400


def test_a_partition_acknowledges_what_its_high_watermark_passes() -> None:
    """Partition.maybeIncrementLeaderHW, and ReplicaManager.findPreferredReadReplica at times.

    Brokers are fenced and come back, and the leader requests ISRs that are granted or not.
    """
    moved, redirected = 0, 0
    for history in histories("partition"):
        requirement, racks = Requirement(Acks.ALL), history["racks"]
        model = Partition(11, [requirement])
        model.configure([history["min_isr"]], history["replicas"])
        model.change_isr(tuple(history["isr"]))
        model.lead(100_000_000)
        ends, starts, acknowledged = dict[int, int](), dict[int, int](), set[int]()
        fenced: list[int] = []
        for number, step in enumerate(history["ops"]):
            at_us, op, isr = step["at_ms"] * 1000, step["op"], tuple(step["isr"])
            if op == "append":
                is_enough = has_enough_in_sync(len(isr), requirement.min_isr)
                assert step["appended"] == (is_enough or step["acks"] == 1), step
                if step["appended"]:
                    model.append(number, step["base"], len(isr))
                    ends[number] = step["end"]
            elif op == "fetch":
                is_looked_at = model.fetch(step["broker"], step["offset"], at_us, 5)
                starts[step["broker"]] = step["start"]
            elif op == "fence":
                fenced = step["fenced"]
            elif op == "prefer":
                views = [
                    ReplicaView(b, racks[str(b)], of.log_end_offset, of.caught_up_us, starts[b])
                    for b, of in model.followers.items()
                    if b in model.in_sync
                ]
                chosen = select(11, racks["11"], views, step["offset"], step["rack"])
                assert chosen == (step["chosen"] or 11), step
                redirected += chosen != 11
            if isr != model.isr or {*step["maximal"]} != {11, *model.maximal_isr}:
                model.change_isr(isr, tuple(step["maximal"]))
            # Not after an ISR that was refused.
            if op == "append" or (op == "fetch" and is_looked_at) or step.get("accepted"):
                now = model.acknowledge(at_us, lambda b, _, out=tuple(fenced): b not in out)
                moved += len(now)
                acknowledged |= {batch for batch, _ in now}
            assert acknowledged == {n for n, end in ends.items() if end <= step["hwm"]}, step
    assert min(moved, 10 * redirected) > 500


def test_a_leader_moves_its_high_watermark() -> None:
    """LeaderState: after each append and FETCH, observers' among them."""
    for history in histories("leader"):
        start, voters = history["epoch_start"], range(1, history["voters"] + 1)
        others = frozenset({*voters} - {history["leader"]})
        of = {"voters": others, "voter_count": len(voters), "epoch_start_offset": start}
        leader = Leader(True, 3, log_end_offset=start, **of)
        for step in history["ops"]:
            before = leader.high_watermark
            if step["op"] == "append":
                leader.append(step["log_end"])
            else:
                leader.update_voter(step["replica"], step["offset"])
            assert leader.high_watermark == (-1 if step["hwm"] is None else step["hwm"]), step
            assert (leader.high_watermark > before) == step["moved"], step
    assert len(histories("leader")) >= 100


def test_a_cache_evicts() -> None:
    """FetchSessionCacheShard, with ids that count up; why who goes follows from its rule."""
    decided = 0
    for history in histories("cache"):
        cache, ids = FetchSessionCache(history["slots"] * SHARDS), dict[str, int]()
        hows, used_ms = dict[str, tuple[bool, int]](), dict[str, int]()
        for step in history["ops"]:
            name = str(step["name"])
            now_ms = step["now_ms"]
            if step["op"] == "create":
                cache.requested = 0  # one shard
                how = hows[name] = step["privileged"], step["partitions"]
                new = CachedSession(name, *how, now_ms, now_ms)
                session_id, events = cache.maybe_create(new)
                if session_id is not None:
                    ids[name] = session_id
                gone = []
                for event in events:
                    if event.event is SessionEvent.EVICTED:
                        gone.append(other := event.session.session_key)
                        is_idle = now_ms - used_ms[other] > EVICTION_MS
                        by_rank = how[0] and not hows[other][0]
                        why = Reason.NOT_PRIVILEGED if by_rank else Reason.SMALLER
                        assert event.reason is (Reason.IDLE if is_idle else why), step
                assert (session_id is not None) == step["created"], step
                assert gone == [str(other) for other in step["evicted"]], step
                decided += 1
            elif step["op"] == "close":
                assert cache.close(ids.pop(name), Reason.CLIENT), step
            else:
                session = cache.find(ids[name])
                assert session is not None, step
                session.touch(hows[name][1], now_ms)
            used_ms[name] = now_ms
    assert decided > 2000


class Client:
    """A client and its session at a broker that has room, by the model."""

    def __init__(self, numbering: Partitions) -> None:
        self.cached, self.session = CachedPartitions(numbering), FetchSession(_NONE, _NONE)

    def fetch(self, fetch: Fetch, number: int, lists: Lists) -> None:
        """Plays a FETCH, of which ``lists`` have all that is fetched in this row."""
        moment, (requested, _, returned), session = fetch.moment, lists, self.session
        changes = update(self.cached, requested, requested.rows[number], None, moment.by_id)
        if fetch.request.epoch:
            assert session.epoch == fetch.request.epoch
            entries, forgotten = session.request(changes, self.cached)
            assert self.keys(requested.partitions[entries.at]) == _keys(fetch.request.partitions)
            assert self.keys(forgotten) == fetch.request.forgotten
        if moment.is_throttled:
            return
        whole = self.cached.respond(returned, returned.rows[number], has_errors=True)
        if not fetch.request.epoch:
            numbers = requested.partitions[requested.rows[number]]
            last = returned.not_read[returned.rows[number]]
            listed = numbers, np.append(numbers[~last], numbers[last])
            assert self.keys(listed[1]) == _keys(fetch.response.partitions)
            orders = (PartitionOrder.listing(self.cached.slots_of(order)) for order in listed)
            self.session = FetchSession(*orders)
            return
        entries = session.response(whole, is_returned(whole))
        assert self.keys(returned.partitions[entries.at]) == _keys(fetch.response.partitions)
        session.rotate(Slots(entries.slots[returned.has_records[entries.at]]))
        if self.cached.end > 2 * self.cached.size:
            kept = self.cached.renumber()
            session.client.renumber(kept)
            session.broker.renumber(kept)

    def keys(self, numbers: Ints) -> list[Key]:
        of = self.cached.numbering
        topics, indexes = of.topic_of[numbers], of.index_of[numbers]
        return [(of.topics[t], i) for t, i in zip(topics, indexes, strict=True)]


def _keys(partitions: Any) -> list[Key]:
    return [
        (partition.topic_id or partition.topic, partition.partition) for partition in partitions
    ]


def test_a_session_lists_what_changes_in_its_order() -> None:
    """FetchSessionHandler and FetchSession.update, until a session ends and the next begins."""
    incremental = 0
    for drawn in histories("sessions"):
        history, numbering = History(drawn), Partitions()
        numbering.add_names(history.names)
        clients = defaultdict[int, Client](lambda: Client(numbering))  # noqa: B023
        fetches = [f for f in history.fetches[80_000] if f.moment.wanted and not f.response.error]
        full = [
            unweighed(
                0,
                Request(0, 0, fetch.moment.wanted, [], fetch.request.version),
                Response(0, 0, fetch.moment.states),
            )
            for fetch in fetches
        ]
        lists = Batch(batch_of(full), numbering).lists
        for number, fetch in enumerate(fetches):
            clients[fetch.moment.client].fetch(fetch, number, lists)
            incremental += fetch.request.epoch > 0
    assert incremental > 500


def until_one_expires(history: Any) -> Iterator[Any]:
    """A controller looks for silent brokers every 1.125 s, and Kafka's class whenever asked: what
    follows the first session that ends there is not compared."""
    for step in history["ops"]:
        if step["op"] == "expired":
            return
        yield step


def test_brokers_are_fenced_and_counted() -> None:
    """BrokerHeartbeatManager: the lowest offset of active brokers, in each response."""
    compared = 0
    for history in histories("brokers"):
        manager, epochs = BrokerHeartbeatManager(warm_from_us=0), dict[int, int]()
        for step in until_one_expires(history):
            broker_id, at_us = step["broker"], step["at_ms"] * 1000
            if step["op"] == "register":
                epochs[broker_id] = step["offset"]
                manager.register(at_us, broker_id, step["offset"])
                continue
            is_fenced = step["next"] in ("FENCED", "SHUTDOWN_NOW")
            stops = step["next"] in ("CONTROLLED_SHUTDOWN", "SHUTDOWN_NOW")
            of = (1, broker_id, epochs[broker_id], at_us, at_us, step["offset"], is_fenced, stops)
            response = manager.heartbeat(Heartbeat(*of))
            assert response is not None
            assert manager.brokers[broker_id].state.name == step["next"], step
            lowest = None if step["lowest"] == _NOBODY else step["lowest"]
            assert response.raw == lowest, step
            compared += 1
    assert compared > 1000

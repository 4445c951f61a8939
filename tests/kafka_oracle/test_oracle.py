"""What Kafka's own classes made of histories that a seed drew, and what ``replay/model`` makes.

``make oracle`` draws them anew, by java/Oracle.java on the jars of Kafka 4.1.
"""

import gzip
import json
import os
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from kip_replay.replay.model.brokers import BrokerHeartbeatManager, Heartbeat
from kip_replay.replay.model.fetch_session import SHARDS, FetchSessionCache, Reason, SessionEvent
from kip_replay.replay.model.partition import Replica
from kip_replay.replay.model.raft import Leader
from kip_replay.replay.model.read_replica import ReplicaView, select

FOLDER = Path(os.environ.get("ORACLE_FOLDER") or Path(__file__).parent)
_NOBODY = (1 << 63) - 1


@cache
def histories(kind: str) -> list[Any]:
    lines = gzip.decompress((FOLDER / f"{kind}.jsonl.gz").read_bytes()).splitlines()
    return [json.loads(line) for line in lines]


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


def evicted_in(history: Any) -> Iterator[tuple[Any, list[str], list[str]]]:
    """Each creation in a shard, with who went in the model, and who as Kafka has it."""
    cache_ = FetchSessionCache(history["slots"] * SHARDS)
    ids: dict[str, int | None] = {}
    sizes: dict[str, int] = {}
    for step in history["ops"]:
        name = str(step["name"])
        session = cache_.find(ids.get(name))
        if step["op"] == "touch" and session:
            session.touch(sizes[name], step["now_ms"])
        elif step["op"] == "close":
            cache_.close(ids.pop(name), Reason.CLIENT)
        elif step["op"] == "create":
            cache_.requested = 0  # one shard
            sizes[name], how = step["partitions"], (step["privileged"], step["partitions"])
            new, events = cache_.maybe_create(name, *how, step["now_ms"])
            gone = [e.session.session_key for e in events if e.event is SessionEvent.EVICTED]
            assert (new is not None) == step["created"], step
            ids[name] = new
            yield step, gone, [str(each) for each in step["evicted"]]


def test_a_cache_evicts() -> None:
    """FetchSessionCacheShard. Kafka draws ids at random, so of equals any may go: a history that
    comes to such a tie is left there."""
    decided = 0
    for history in histories("cache"):
        for _, gone, by_kafka in evicted_in(history):
            if gone != by_kafka:
                assert len(gone) == len(by_kafka) == 1, "no tie"
                sizes = {s["name"]: s for s in history["ops"] if s["op"] == "create"}
                one, other = (sizes[int(each)] for [each] in (gone, by_kafka))
                same = [(of["privileged"], of["partitions"]) for of in (one, other)]
                assert same[0] == same[1], (one, other)
                break
            decided += 1
    assert decided > 1000


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

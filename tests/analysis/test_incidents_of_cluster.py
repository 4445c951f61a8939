"""Incidents of nodes, partitions and groups in constructed rows, and what else explains them."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from constructed import Row, Tables, at, engine_on, row

from kip_replay.jobs._cli import read_config
from kip_replay.pipelines.analysis.health import FILES, PARTS
from kip_replay.pipelines.engines.text import Text
from kip_replay.replay.log_tables import (
    BrokerHeartbeats,
    Fetches,
    GroupRequest,
    IsrChanges,
    LogGaps,
    Requests,
)

LIMITS = read_config(None, [])["incidents"]
GIVEN = {name: of for name, of in PARTS.items() if name != "health_spans"}


def spans(text: str, tables: Tables) -> list[Row]:
    """Incidents by begin, which with their ends are seconds since the beginning."""
    us = [round(at(second).timestamp() * 1e6) for second in (0, 1000)]
    given = {"health_spans": pa.table({"recording": ["r"], "from_us": us[:1], "until_us": us[1:]})}
    found = engine_on(tables, given).rows(Text.read(FILES[text], GIVEN, **LIMITS), ["r"])
    rows = sorted(found.to_pylist(), key=lambda row: (row["begin_us"], row["kind"]))
    for of in rows:
        end_us = of["end_us"]
        of |= {"begin": (of["begin_us"] - us[0]) / 1e6, "end": end_us and (end_us - us[0]) / 1e6}
    return rows


def cluster(
    heard: Sequence[float],
    own: Sequence[float] | None = None,
    *more: Row,
    epochs: Sequence[tuple[float, int]] = ((0, 5),),
    stops: Sequence[float] = (),
    fenced: Sequence[float] = (),
) -> Tables:
    """Broker 13, of which controller 1 hears at some seconds of a minute, and that has lines of its
    own then, or at others; it starts anew with each of its ``epochs``."""
    of: Row = {"node_id": 1, "error_code": 0, "should_shut_down": False}
    heartbeats = [
        row(BrokerHeartbeats, **of, broker_id=broker, received_at=at(s), built_at=at(s))
        | {"broker_epoch": [e for since, e in epochs if s >= since][-1] if broker == 13 else 7}
        | {"want_shut_down": broker == 13 and s in stops, "is_fenced": broker == 13 and s in fenced}
        for broker, seconds in ((13, heard), (12, range(60)))
        for s in seconds
    ]
    lines = [
        row(Requests, node_id=node, received_at=at(s), completed_at=at(s), api_name="FETCH")
        for node, seconds in ((13, heard if own is None else own), (1, range(60)))
        for s in seconds
    ]
    return {Requests: lines, BrokerHeartbeats: heartbeats, LogGaps: more}


def gap(node_id: int) -> Row:
    of: Row = {"evidence": "correlation_id", "after_at": at(31), "before_at": at(43)}
    return row(LogGaps, node_id=node_id, number=1, **of)


ALL, SILENT = [*range(60)], [*range(30), *range(44, 60)]
CASES: list[tuple[str, Tables, list[tuple[str, bool | None, float, float | None]]]] = [
    ("nothing", cluster(ALL), []),
    ("froze", cluster(SILENT), [("node_froze", False, 29, 44)]),
    ("at the limit", cluster([*range(30), *range(35, 60)]), [("node_froze", False, 29, 35)]),
    ("under it", cluster([*range(30), *range(34, 60)]), []),
    ("its own lines are missing", cluster(ALL, SILENT), []),
    ("it was heard of no more", cluster(SILENT, ALL), []),
    ("a gap of its log", cluster(SILENT, None, gap(13)), []),
    ("a gap of who hears of it", cluster(SILENT, None, gap(1)), []),
    ("died", cluster(ALL[:30]), [("node_died", False, 29, None)]),
    ("crashed", cluster(SILENT, epochs=[(0, 5), (44, 9)]), [("node_restarted", False, 29, 44)]),
    (
        "restarted in a gap",
        cluster(SILENT, None, gap(1), epochs=[(0, 5), (44, 9)]),
        [("node_restarted", None, 29, 44)],
    ),
    (
        "restarted",
        cluster(SILENT, epochs=[(0, 5), (44, 9)], stops=[28, 29]),
        [("node_restarted", True, 28, 44)],
    ),
    ("stopped", cluster(ALL[:30], stops=[28, 29]), [("node_stopped", True, 28, None)]),
    ("fenced", cluster(ALL, fenced=[30, 31]), [("node_fenced", False, 30, 32)]),
]


@pytest.mark.parametrize(
    ("tables", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_nodes(
    tables: Tables, expected: list[tuple[str, bool | None, float, float | None]]
) -> None:
    found = spans("of_nodes", {Fetches: [], **tables})
    assert [(r["kind"], r["is_planned"], r["begin"], r["end"]) for r in found] == expected


def seen(
    second: float, leader: int, epoch: int, isr: Sequence[int], of: int = 0, **more: Any
) -> Row:
    """What METADATA says of a partition that has two replicas."""
    about: Row = {"topic": "t", "partition": of, "source": "METADATA", "replicas": [11, 12], **more}
    about |= {"leader_id": leader, "leader_epoch": epoch, "isr": isr if leader >= 0 else None}
    return row(IsrChanges, node_id=11, built_at=at(second), error_code=0, **about)


def test_partitions_without_a_leader_or_replicas() -> None:
    """A broker that has not heard of a change yet ends nothing, and what overlaps is one."""
    rows = [
        *(seen(0, 11, 1, [11, 12], of) for of in (0, 1, 2)),
        *(seen(5, -1, 2, [], 0), seen(6, 11, 1, [11, 12], 0), seen(7, -1, 2, [], 0)),
        *(seen(6, -1, 2, [], 1), seen(8, 12, 3, [12], 0), seen(9, 12, 3, [12], 1)),
        *(
            seen(11, 12, 3, [11, 12], 0),
            seen(9.5, 12, 3, [11, 12], 0),
            seen(12, 12, 3, [11, 12], 1),
        ),
        *(seen(20, 11, 1, [11], 2), seen(21, 11, 1, [11, 12], 2), seen(22, 11, 1, [11], 2)),
    ]
    found = spans("of_partitions", {IsrChanges: rows})
    named = ("kind", "begin", "end", "subjects", "count", "worst_s")
    assert [tuple(r[name] for name in named) for r in found] == [
        ("offline_partitions", 5, 9, ["t-0", "t-1"], 2, 3),
        ("under_replicated", 8, 12, ["t-0", "t-1"], 2, 3),
        ("under_replicated", 20, None, ["t-2"], 1, None),
    ]


def sent(
    second: float, member: str, action: str, generation: int, code: int = 0, **more: Any
) -> Row:
    """A request of a member, as its group is in a generation or gets to it."""
    of: Row = {
        "group_id": "g",
        "member_id": member,
        "client_id": member.upper(),
        "protocol": "classic",
    }
    is_sent = action in ("sync", "heartbeat")
    of |= {"sent_generation" if is_sent else "generation": generation, "error_code": code}
    times = {"received_at": at(second), "built_at": at(second + 0.5)}
    return row(GroupRequest, node_id=11, action=action, **{**of, **times, **more})


def generation(second: float, number: int, *members: str, **more: Any) -> list[Row]:
    joined = [sent(second, member, "join", number, **more) for member in members]
    return [*joined, *(sent(second + 1, member, "sync", number) for member in members)]


def test_rebalances() -> None:
    """None is the first generation, one after all members have left, one that another took
    the place of, nor an epoch that moved nothing."""
    of_new: Row = {"protocol": "consumer", "group_id": "new"}
    rows = [
        *generation(0, 1, "a"),
        *generation(10, 2, "a", "b"),
        *(sent(19, "a", "heartbeat", 2, 27), *generation(20, 3, "a")),
        *(sent(29, "x", "leave", -1), *generation(30, 4, "a", reason="a {new} topic")),
        *generation(40, 5, "c"),
        *(sent(44, "c", "join", 6), sent(44, "d", "join", 6), *generation(45, 7, "c", "d")),
        *(sent(54, "c", "join", 8), sent(70, "a", "join", 3, **of_new)),
        sent(50, "a", "join", 1, assigned=4, **of_new),
        *(
            sent(55, "b", "join", 2, assigned=2, **of_new),
            sent(58, "a", "join", 2, assigned=2, **of_new),
        ),
    ]
    found = spans("of_groups", {GroupRequest: rows})
    named = ("subjects", "begin", "end", "cause", "caused_by", "clients", "count")
    assert [tuple(r[name] for name in named) for r in found] == [
        (["g"], 10, 11.5, "join", "B", ["A"], 2),
        (["g"], 19, 21.5, "lost", "B", ["A"], 1),
        (["g"], 29, 31.5, "leave: a {new} topic", "X", ["A"], 1),
        (["g"], 45, 46.5, "rejoin", "C", ["C", "D"], 2),
        (["g"], 54, None, "lost", "D", ["C"], 1),
        (["new"], 55, 58.5, "join", "B", ["A"], 2),
    ]

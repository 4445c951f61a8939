"""Incidents of nodes in constructed rows: what a silence is, and what explains it otherwise."""

from collections.abc import Sequence

import pyarrow as pa
import pytest
from constructed import Row, Tables, at, engine_on, row

from kip_replay.jobs._config import read_config
from kip_replay.pipelines.analysis.find_incidents import FILES, PARTS
from kip_replay.pipelines.engines.text import Text
from kip_replay.replay.log_tables import BROKER_HEARTBEATS, FETCHES, LOG_GAPS, REQUESTS

LIMITS = read_config(None, [])["incidents"]
NODES = Text.read(
    FILES["of_nodes"], {name: of for name, of in PARTS.items() if name != "health_spans"}, **LIMITS
)


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
        row(BROKER_HEARTBEATS, **of, broker_id=broker, received_at=at(s), built_at=at(s))
        | {"broker_epoch": [e for since, e in epochs if s >= since][-1] if broker == 13 else 7}
        | {"want_shut_down": broker == 13 and s in stops, "is_fenced": broker == 13 and s in fenced}
        for broker, seconds in ((13, heard), (12, range(60)))
        for s in seconds
    ]
    lines = [
        row(REQUESTS, node_id=node, received_at=at(s), completed_at=at(s), api_name="FETCH")
        for node, seconds in ((13, heard if own is None else own), (1, range(60)))
        for s in seconds
    ]
    return {REQUESTS: lines, BROKER_HEARTBEATS: heartbeats, LOG_GAPS: more}


def gap(node_id: int) -> Row:
    of: Row = {"evidence": "correlation_id", "after_at": at(31), "before_at": at(43)}
    return row(LOG_GAPS, node_id=node_id, number=1, **of)


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
    us = [round(at(second).timestamp() * 1e6) for second in (0, 1000)]
    spans = pa.table({"recording": ["r"], "from_us": us[:1], "until_us": us[1:]})
    rows = engine_on({FETCHES: [], **tables}, {"health_spans": spans}).rows(NODES, ["r"])
    found = [
        (r["kind"], r["is_planned"], r["begin_us"] / 1e6, r["end_us"] and r["end_us"] / 1e6)
        for r in rows.to_pylist()
    ]
    begin = at(0).timestamp()
    assert found == [
        (kind, is_planned, begin + start, end and begin + end)
        for kind, is_planned, start, end in expected
    ]

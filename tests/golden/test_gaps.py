"""Lines of recordings are missing: every outcome is as on the whole log, or unknown."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from functools import cache
from operator import itemgetter
from random import Random
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.log_tables import Requests
from kip_replay.replay.lowest_acked_offset.events import LEARNED

from .recorded import STEPS, WAREHOUSE, Row, events_of, fed, ingested

pytestmark = pytest.mark.golden

NODES = (1, 2, 3, 11, 12, 13)


def of_parking(row: Row) -> Hashable:
    what = ("variant", "parameter_value", "leader_epoch", "replica_id")
    return *(row[name] for name in what), row["recorded_request_id"] or row["dequeued_at"]


#: What tells rows apart where that is not the table's key: a FETCH's number follows from the log.
KEYS: dict[str, Callable[[Row], Hashable]] = {"fetch_parking_outcomes": of_parking}
KEYS |= {
    table.name: itemgetter(*(name for name in table.key if name != "recording"))
    for steps in STEPS.values()
    for table in steps.outcomes
    # Producers that react do so to all of the log; evictions say nothing of a single request.
    if table.name not in (*KEYS, "produce_closed_loop_outcomes", "fetch_session_evictions")
}
#: What may differ: what is counted, what is of lines in the gap, and the keys of sessions.
FREE = {"hwm_parking": {"sequence", "record_bytes", "response_bytes"}}
#: What says by a null that the log does not tell: the next append, when consumers saw it, the
#: advance before, requests in a session.
LEFT_OPEN = {
    *("last_offset", "visible_at", "previous_learned_at", "committed_at", "is_change"),
    *("session_epoch", "session_partitions", "added_partitions", "session_id"),
}


def is_same(rule: str, row: Row, other: Row) -> bool:
    differs = {name for name in row if row[name] != other[name]} - FREE.get(rule, set())
    if "session_key" in differs and row["session_key"].endswith("before the log"):
        differs.remove("session_key")
    return all(name in LEFT_OPEN and row[name] is None for name in differs)


def compared(rule: str, table: str, whole: Iterable[Row], left: Iterable[Row]) -> Counter[str]:
    """How many rows of a damaged log are equal, unknown, different, or in no row of the whole."""
    of_whole = {KEYS[table](row): row for row in whole}
    counts: Counter[str] = Counter()
    for row in left:
        there = of_whole.get(KEYS[table](row))
        if row["verdict"] == "unknown":
            counts["unknown"] += there is None or there["verdict"] != "unknown"
        elif there is None:
            counts["new"] += 1
        else:
            counts["equal" if is_same(rule, row, there) else "different"] += 1
    return +counts


class Case(NamedTuple):
    """Lines of nodes are missing: those of some seconds, or from then on one in 300.

    ``replica``: whose replay it is. ``unknown``: of all rows of a table, as many may not be known
    any more. ``different``: so many rows are wrong where nobody knows of the gap.
    """

    rule: str
    recording: str
    replica: int | None
    nodes: tuple[int, ...]
    since_s: float
    length_s: float
    unknown: float
    different: int = 0


CASES = [
    Case("hwm_parking", "metadata-4.0", 2, (2,), 24, 2, 0.05),
    Case("hwm_parking", "metadata-4.0", 2, (2,), 0, 20, 0.05),
    Case("hwm_parking", "metadata-4.0", 2, (2,), 10, 0, 0.25),
    Case("hwm_parking", "failover-4.0", 2, (2,), 24, 10, 0.06),
    # Broker 13 stops: its heartbeats, and the ISR that it leaves, are in the gap of the active
    # controller. Broker 12 comes back in the one of all nodes.
    Case("min_isr_acks", "acks-not-enough", 11, (1,), 25.6, 2, 0.25, 340),
    Case("min_isr_acks", "acks-not-enough", 11, (11,), 25.6, 2, 0.11),
    Case("min_isr_acks", "acks-not-enough", 11, NODES, 40, 2, 0.45),
    Case("incremental_fetch", "sessions-on", 12, (12,), 24, 2, 0.21, 70),
    Case("incremental_fetch", "sessions-off", 12, (12,), 24, 2, 0.005, 200),
    Case("closest_replica", "racks-leader", 11, (11,), 24, 2, 0.08),
    Case("closest_replica", "racks-aware", 11, (12,), 24, 2, 0.02),
    Case("lowest_acked_offset", "metadata-4.0", None, (2,), 24, 2, 0.32),
    Case("lowest_acked_offset", "metadata-4.0", None, (2,), 0, 20, 0.52),
    Case("lowest_acked_offset", "freeze-4.1", None, (2,), 24, 10, 0.45),
    Case("lowest_acked_offset", "failover-4.0", None, (2,), 24, 10, 0.35),
]


def damage(case: Case) -> tuple[frozenset[str], list[LogGap]]:
    """Ids of the requests that are missing, and the gaps."""
    ingested(case.recording)
    rows, random = WAREHOUSE.rows(Requests, [case.recording]), Random(1)
    ids, nodes = (rows.column(name).to_pylist() for name in ("request_id", "node_id"))
    at_us = rows.column("completed_at").cast(pa.int64()).to_pylist()
    since_us = min(at_us) + round(case.since_s * 1e6)
    until_us = since_us + round(case.length_s * 1e6)
    lost = [
        (request_id, node, at)
        for request_id, node, at in zip(ids, nodes, at_us, strict=True)
        if node in case.nodes and at >= since_us
        if (at < until_us if case.length_s else random.random() < 1 / 300)
    ]
    gaps = [LogGap(node, since_us - 1, until_us) for node in case.nodes]
    if not case.length_s:
        gaps = [LogGap(node, at - 1, at + 1) for _, node, at in lost]
    return frozenset(request_id for request_id, *_ in lost), gaps


def events(
    case: Case, missing: frozenset[str] = frozenset(), gaps: Iterable[LogGap] = ()
) -> pa.Table:
    """What other rules say of the whole log left out."""
    of_case = events_of(case.recording, case.rule, missing, (*gaps,))[case.replica]
    if case.rule != "lowest_acked_offset":
        return of_case
    return of_case.filter(pc.field("kind") != LEARNED)


@cache
def whole(case: Case) -> dict[str, list[Row]]:
    found = fed(case.rule, events(case), case.replica)
    return {table: rows for table, rows in found.items() if table in KEYS}


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, marks=[pytest.mark.slow] * (n % 2)) for n, c in enumerate(CASES)],
    ids=lambda c: f"{c.recording} {c.nodes} {c.since_s}",
)
def test_outcomes_beside_a_gap_are_what_they_were_or_unknown(case: Case) -> None:
    missing, gaps = damage(case)
    left = events(case, missing)
    assert len(left) < len(events(case))
    aware = fed(case.rule, events(case, missing, gaps), case.replica, gaps)
    unaware = fed(case.rule, left, case.replica)
    unknown = different = 0
    for table, rows in whole(case).items():
        counts = compared(case.rule, table, rows, aware[table])
        assert counts.keys() <= {"equal", "unknown"}, table
        assert counts["unknown"] <= case.unknown * counts.total(), (table, counts)
        unknown += counts["unknown"]
        different += compared(case.rule, table, rows, unaware[table])["different"]
    assert unknown > 0
    assert different >= case.different


@pytest.mark.parametrize(
    ("field", "value"), [("fetch_offset", 940), ("leader_epoch", 7), ("last_fetched_epoch", 0)]
)
@pytest.mark.parametrize("at", [400, 700])
def test_line_that_contradicts_those_around_it_changes_nothing_that_is_known(
    field: str, value: int, at: int
) -> None:
    """The gap that ``log_gaps`` finds is from its replica's line before the last to the next."""
    log = events_of("metadata-4.0", "hwm_parking")[2]
    rows = log.to_pylist()
    of_replica = [n for n, row in enumerate(rows) if row["replica_id"] == rows[at]["replica_id"]]
    place = of_replica.index(at)
    gap = LogGap(2, *(rows[of_replica[place + n]]["completed_us"] for n in (-2, 1)))
    rows[at][field] = value
    found = fed("hwm_parking", pa.Table.from_pylist(rows, log.schema), 2, [gap])
    for table, of_whole in whole(CASES[0]).items():
        counts = compared("hwm_parking", table, of_whole, found[table])
        assert counts.keys() <= {"equal", "unknown"}
        assert 0 < counts["unknown"] <= 0.2 * counts.total()

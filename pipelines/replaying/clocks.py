"""Finds how far nodes' clocks were apart, before the replay; states it, and tells the rules.

While a recording grows, what the bounds follow from is kept in sums (``kept``), and a run adds what
new lines show. When it is closed, all of its lines are looked at once more.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.clock_words import Row, is_apart
from kip_replay.pipelines.replaying.kept import (
    HEARTBEATS,
    Kept,
    added,
    heartbeats_of,
    packed,
    state_row,
)
from kip_replay.pipelines.replaying.log_gaps import voters_table
from kip_replay.pipelines.replaying.states import FollowsFrom, is_late
from kip_replay.pipelines.warehouse.data_files import moment
from kip_replay.pipelines.warehouse.lineage import code_of, contents, fingerprint
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.kafka.clocks import Clocks, Order, off_from_all, offsets
from kip_replay.replay.log_gaps import ALWAYS_SINCE_US, ALWAYS_UNTIL_US
from kip_replay.replay.log_tables import INGESTED_FILES
from kip_replay.replay.tables import CLOCK_BOUNDS, REPLAY_STATE

CLOCKS = "clocks"

_PAIRS, _ORDERS = (Path(__file__).with_name(f"clock_{name}.sql") for name in ("pairs", "orders"))
#: While a recording grows, events of a pair are at most so far apart by their stamps, and so are
#: those that repeat one: with lines of twice as long around it, a pair is known.
_REACH_US = 30_000_000
_BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)


def find_clock_bounds(
    engine: Engine, voters: Mapping[str, Sequence[int]], complete: Mapping[str, int] | None = None
) -> None:
    """Writes clock_bounds of the recordings whose rows are not of today's logs.

    ``complete``: of recordings that grow, until when their logs are complete; UTC microseconds.
    """
    warehouse = engine.warehouse
    ingested = warehouse.rows(INGESTED_FILES, voters).to_pylist()
    code = code_of((__name__,), tuple(map(str, (_PAIRS, _ORDERS, HEARTBEATS))))
    read = contents(ingested, voters)
    closed = {name: fingerprint(code, of, read[name]) for name, of in voters.items()}
    wanted = closed if complete is None else {name: f"{closed[name]} growing" for name in complete}
    lineage = warehouse.lineage(voters)
    # A closed log that has not grown stays closed, also for who takes it for a growing one.
    stale = {n: t for n, t in wanted.items() if lineage.get((n, CLOCKS)) not in (t, closed[n])}
    if not stale:
        return
    files = {name: [row for row in ingested if row["recording"] == name] for name in stale}
    rows: list[Row] = []
    states: list[Row] = []
    if complete is None:
        its = {name: voters[name] for name in stale}
        pairs = _pairs(engine, its, ALWAYS_SINCE_US, 0, ALWAYS_UNTIL_US)
        rows += _bounds(engine, files, pairs, [heartbeats_of(engine, n) for n in stale])
    else:
        for name in stale:
            until_us = complete[name] - 2 * _REACH_US
            identity = fingerprint(code, voters[name])
            found = _grown(engine, {name: voters[name]}, files[name], until_us, identity)
            rows += _bounds(engine, {name: files[name]}, *found[:2])
            states += found.states
    _write(warehouse, stale, rows, states)


class _Grown(NamedTuple):
    """What bounds follow from, and what to keep of it."""

    pairs: pa.Table
    heartbeats: list[pa.Table]
    states: Sequence[Row]


def _grown(
    engine: Engine,
    voters: Mapping[str, Sequence[int]],
    files: Sequence[Row],
    until_us: int,
    identity: str,
) -> _Grown:
    """Adds what new lines show to what was kept, unless older lines came since or code changed."""
    ((recording, _),) = voters.items()
    kept = Kept.of(engine, recording, CLOCKS)
    if kept and (kept.saved.identity != identity or is_late(files, kept.saved)):
        kept = None
    since_us = kept.saved.until_us if kept else ALWAYS_SINCE_US
    until_us = max(since_us, until_us)
    epoch = max(file["ingest_epoch"] for file in files)
    new = _pairs(engine, voters, since_us, until_us, _REACH_US)
    of_time = new.filter(pc.field("is_kept"))
    pairs, to_keep = (
        added([rows.drop_columns("is_kept"), *([kept.sums["pairs"]] if kept else [])])
        for rows in (new, of_time)
    )
    heartbeats = heartbeats_of(engine, recording, kept, epoch)
    follows_from = FollowsFrom(until_us, epoch, 0, identity, "")
    sums = {"pairs": to_keep, "heartbeats": heartbeats}
    states = [
        {"recording": recording, **state_row(str(follows_from), CLOCKS, key, until_us, packed(of))}
        for key, of in sums.items()
    ]
    return _Grown(pairs, [heartbeats], states)


def _pairs(
    engine: Engine,
    voters: Mapping[str, Sequence[int]],
    since_us: int,
    until_us: int,
    reach_us: int,
) -> pa.Table:
    """Pairs of events after ``since_us``; ``is_kept``: those until ``until_us``."""
    ids = [voter for of in voters.values() for voter in of] or [0]
    text = Text.read(
        _PAIRS,
        since_at=_BEGINNING if since_us == ALWAYS_SINCE_US else moment(since_us - 2 * reach_us),
        since_us=since_us,
        until_us=until_us,
        reach_us=reach_us,
        voters_from=min(ids),
        voters_to=max(ids),
    )
    return engine.rows(text, voters, {"voters": voters_table(voters)})


def _write(
    warehouse: Warehouse, stale: Mapping[str, str], rows: Sequence[Row], states: Sequence[Row]
) -> None:
    writing = warehouse.writing(CLOCKS, stale, (CLOCK_BOUNDS, REPLAY_STATE))
    files = writing.files()
    for table, of in ((CLOCK_BOUNDS, rows), (REPLAY_STATE, states)):
        files.write(table, pa.RecordBatch.from_pylist(of, schema=table.arrow_schema))
    written = files.closed()
    writing.begin()
    writing.replace(CLOCK_BOUNDS, written)
    writing.replace_states(written)
    writing.end(stale)


def _bounds(
    engine: Engine,
    files: Mapping[str, Sequence[Row]],
    pairs: pa.Table,
    heartbeats: Sequence[pa.Table],
) -> list[dict[str, Any]]:
    """Rows of clock_bounds of recordings, given their rows of ingested_files."""
    text = Text.read(_ORDERS)
    orders = _by_recording(engine.rows(text, files, {"clock_sums": pairs}))
    heard = _by_recording(pa.concat_tables(heartbeats))
    return [
        row
        for name, of in files.items()
        for nodes in [_nodes(of, heard.get(name, ()))]
        if nodes
        for row in _bounds_of(name, nodes, orders.get(name, ()))
    ]


def _nodes(files: Iterable[Row], heartbeats: Sequence[Row]) -> list[Row]:
    """Nodes that have a log, the active controller first: who responded to most heartbeats.

    Clocks are compared of those that send heartbeats or respond to them.
    """
    responded: Counter[int] = Counter()
    for row in heartbeats:
        responded[row["node_id"]] += row["responded"]
    compared = {*(+responded), *(row["broker_id"] for row in heartbeats)}
    logged = {file["node_id"] for file in files if file["requests"]}
    return [
        {"node_id": node, "is_compared": node in compared}
        for node in sorted(logged, key=lambda node: (-responded[node], node))
    ]


def _by_recording(table: pa.Table) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table.to_pylist():
        rows[row.pop("recording")].append(row)
    return rows


def _bounds_of(
    recording: str, nodes: Sequence[Row], order_rows: Iterable[dict[str, Any]]
) -> Iterable[dict[str, Any]]:
    orders = [Order(**row) for row in order_rows]
    reference = nodes[0]["node_id"]
    bounds = offsets(reference, [node["node_id"] for node in nodes], orders)
    is_reference_off = off_from_all(bounds.values()) is not None
    for node in sorted(nodes[1:], key=itemgetter("node_id")):
        node_id, is_compared = node["node_id"], node["is_compared"]
        offset = bounds[node_id]
        pairs = Counter[str]()
        for order in orders:
            if node_id in (order.before, order.after):
                pairs[order.kind] += order.pairs
        yield {
            "recording": recording,
            "node_id": node_id,
            "reference_id": reference,
            "offset_earliest_ms": _ms(offset.earliest_us),
            "offset_latest_ms": _ms(offset.latest_us),
            # A reference whose clock is off is apart from every node that is compared.
            "clocks": Clocks.DIFFER if is_reference_off and is_compared else offset.clocks,
            "is_compared": is_compared,
            **{f"{kind}_pairs": pairs[kind] for kind in ("forwarded", "image", "topic")},
        }


def _ms(us: int | None) -> float | None:
    return None if us is None else us / 1000


def nodes_apart(rows: Iterable[Row]) -> dict[str, tuple[int, ...]]:
    """By recording the nodes, ascending, whose clock is certainly not the active controller's.

    Only those whose times are compared with other nodes'.
    """
    apart: dict[str, list[int]] = {}
    for row in rows:
        if row["is_compared"] and is_apart(row):
            apart.setdefault(row["recording"], []).append(row["node_id"])
    return {recording: tuple(sorted(nodes)) for recording, nodes in apart.items()}

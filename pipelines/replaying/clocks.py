"""How far nodes' clocks were apart: found before the replay, stated, and passed on to the rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from kip_replay.pipelines.replaying.clock_evidence import orders
from kip_replay.pipelines.warehouse.lineage import code_of, contents, fingerprint
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.kafka.clocks import Clocks, Offset, Order, off_from_all, offsets
from kip_replay.replay.log_tables import INGESTED_FILES
from kip_replay.replay.tables import CLOCK_BOUNDS

#: The step of ``lineage``.
CLOCKS = "clocks"
Row = Mapping[str, Any]

# Brokers are who sends heartbeats; the active controller is who responds to most of them.
_NODES = """
SELECT recording, node_id, any_value(beats) AS beats, any_value(sends) AS sends
FROM (SELECT DISTINCT recording, node_id FROM ingested_files WHERE requests > 0)
LEFT JOIN (SELECT recording, node_id, count(*) AS beats FROM broker_heartbeats
           WHERE error_code = 0 GROUP BY ALL) USING (recording, node_id)
LEFT JOIN (SELECT DISTINCT recording, broker_id AS node_id, true AS sends FROM broker_heartbeats)
USING (recording, node_id)
GROUP BY ALL ORDER BY recording, beats DESC NULLS LAST, node_id
"""


def find_clock_bounds(warehouse: Warehouse, voters: Mapping[str, Sequence[int]]) -> None:
    """Writes clock_bounds of the recordings whose rows are not of today's logs.

    ``voters``: their ids by recording.
    """
    ingested = warehouse.rows(INGESTED_FILES, voters).to_pylist()
    code = code_of((__name__,))
    read = contents(ingested, voters)
    wanted = {name: fingerprint(code, of, read[name]) for name, of in voters.items()}
    lineage = warehouse.lineage(wanted)
    stale = {n: text for n, text in wanted.items() if lineage.get((n, CLOCKS)) != text}
    if not stale:
        return
    with warehouse.database(stale) as database:
        rows = clock_bounds(database, {name: voters[name] for name in stale})
    writing = warehouse.writing(CLOCKS, stale, [CLOCK_BOUNDS])
    writing.begin()
    table = pa.Table.from_pylist(rows, schema=CLOCK_BOUNDS.arrow_schema)
    writing.replace_rows(CLOCK_BOUNDS, table, {"recording": stale})
    writing.end(stale)


def clock_bounds(
    database: DuckDBPyConnection, voters: Mapping[str, Sequence[int]]
) -> list[dict[str, Any]]:
    """Rows of clock_bounds."""
    nodes: dict[str, list[tuple[int, bool]]] = {name: [] for name in voters}
    for recording, node, beats, sends in database.execute(_NODES).fetchall():
        nodes[recording].append((node, bool(beats or sends)))
    found = orders(database, voters)
    return [row for name in voters for row in _bounds_of(name, nodes[name], found[name])]


def _bounds_of(
    recording: str, nodes: Sequence[tuple[int, bool]], found: Sequence[Order]
) -> Iterable[dict[str, Any]]:
    """Of one recording; ``nodes``: the reference first, each with whether it is compared."""
    if not nodes:
        return
    (reference, _), *others = nodes
    bounds = offsets(reference, [node for node, _ in nodes], found)
    is_reference_off = off_from_all(bounds.values()) is not None
    for node, is_compared in sorted(others):
        offset = bounds[node]
        yield {
            "recording": recording,
            "node_id": node,
            "reference_id": reference,
            "offset_earliest_ms": _ms(offset.earliest_us),
            "offset_latest_ms": _ms(offset.latest_us),
            "clocks": _clocks(offset, is_reference_off),
            "is_compared": is_compared,
            **{
                f"{kind}_pairs": sum(
                    one.pairs
                    for one in found
                    if one.kind == kind and node in (one.before, one.after)
                )
                for kind in ("forwarded", "image", "topic")
            },
        }


def _clocks(offset: Offset, is_reference_off: bool) -> Clocks:
    is_bounded = offset.earliest_us is not None or offset.latest_us is not None
    return Clocks.DIFFER if is_reference_off and is_bounded else offset.clocks


def _ms(us: int | None) -> float | None:
    return None if us is None else us / 1000


def nodes_apart(rows: Iterable[Row]) -> dict[str, tuple[int, ...]]:
    """By recording the nodes, ascending, whose clock is certainly not the active controller's.

    Only those whose times are compared with other nodes'.
    """
    apart: dict[str, list[int]] = {}
    for row in rows:
        if row["is_compared"] and _is_apart(row):
            apart.setdefault(row["recording"], []).append(row["node_id"])
    return {recording: tuple(sorted(nodes)) for recording, nodes in apart.items()}


def sentences(rows: Sequence[Row]) -> list[str]:
    """What to know of clocks that are apart, of which nodes, and what to do; by recording."""
    found = []
    for recording in dict.fromkeys(row["recording"] for row in rows):
        mine = [row for row in rows if row["recording"] == recording]
        found += _of_reference(mine) or [_sentence(row) for row in mine if _is_apart(row)]
    return found


def _is_apart(row: Row) -> bool:
    return row["clocks"] in (Clocks.DIFFER, Clocks.CONTRADICTED)


def _of_reference(rows: Sequence[Row]) -> list[str]:
    """The one sentence, where it is the reference's clock that is off."""
    apart = [row for row in rows if row["clocks"] == Clocks.DIFFER]
    shared = off_from_all(_offset(row) for row in apart)
    if shared is None:
        return []
    others = ", ".join(str(row["node_id"]) for row in apart)
    # They are ahead of it: it is behind them.
    least, most = -(shared.latest_us or 0) / 1000, -(shared.earliest_us or 0) / 1000
    return [_apart(rows[0]["recording"], rows[0]["reference_id"], least, most, f"nodes {others}")]


def _offset(row: Row) -> Offset:
    ends = (row["offset_earliest_ms"], row["offset_latest_ms"])
    least, most = (None if end is None else round(end * 1000) for end in ends)
    return Offset(least, most, is_contradicted=row["clocks"] == Clocks.CONTRADICTED)


def _sentence(row: Row) -> str:
    recording, node, reference = row["recording"], row["node_id"], row["reference_id"]
    if row["clocks"] == Clocks.CONTRADICTED:
        return (
            f"recording {recording!r}: the clock of node {node} was set while it logged, or lines "
            f"are missing: no one offset to node {reference} explains its log. What compares the "
            "two is unknown"
        )
    ends = (row["offset_earliest_ms"], row["offset_latest_ms"])
    return _apart(recording, node, *ends, f"node {reference}")


def _apart(
    recording: str, node: int, low_ms: float | None, high_ms: float | None, other: str
) -> str:
    """``low_ms``, ``high_ms``: how far the node is ahead; one of them may not be known."""
    known = [end for end in (low_ms, high_ms) if end is not None]
    way = "ahead of" if known[0] > 0 else "behind"
    ends = " to ".join(f"{abs(end) / 1000:.2f}" for end in sorted(known, key=abs))
    least = "" if len(known) == 2 else "at least "
    return (
        f"recording {recording!r}: the clock of node {node} was {least}{ends} s {way} that of "
        f"{other}. What compares them is unknown. To correct it, add "
        f'"clock_offset_ms": {-round(sum(known) / len(known))} to node {node} in recording.json, '
        f"delete the recording from the warehouse, and run again"
    )

"""How far nodes' clocks were apart: found before the replay, stated, and passed on to the rules."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from duckdb import DuckDBPyConnection

from kip_replay.pipelines.replaying.clock_evidence import orders
from kip_replay.pipelines.replaying.clock_words import Row, is_apart
from kip_replay.pipelines.warehouse.lineage import code_of, contents, fingerprint
from kip_replay.replay.kafka.clocks import Clocks, Offset, Order, off_from_all, offsets
from kip_replay.replay.log_tables import INGESTED_FILES
from kip_replay.replay.tables import CLOCK_BOUNDS

#: The step of ``lineage``.
CLOCKS = "clocks"

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


def find_clock_bounds(engine: Any, voters: Mapping[str, Sequence[int]]) -> None:
    """Writes clock_bounds of the recordings whose rows are not of today's logs.

    ``voters``: their ids by recording.
    """
    warehouse = engine.warehouse
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
            "clocks": _clocks(offset, is_reference_off, is_compared),
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


def _clocks(offset: Offset, is_reference_off: bool, is_compared: bool) -> Clocks:
    """If the reference's clock is the one that is off, it is so from all that is compared with."""
    return Clocks.DIFFER if is_reference_off and is_compared else offset.clocks


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

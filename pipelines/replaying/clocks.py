"""Finds how far nodes' clocks were apart, before the replay; states it, and tells the rules."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa

from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.clock_words import Row, is_apart
from kip_replay.pipelines.replaying.log_gaps import voters_table
from kip_replay.pipelines.warehouse.lineage import code_of, contents, fingerprint
from kip_replay.replay.kafka.clocks import Clocks, Order, off_from_all, offsets
from kip_replay.replay.log_tables import INGESTED_FILES
from kip_replay.replay.tables import CLOCK_BOUNDS

CLOCKS = "clocks"

_NODES, _ORDERS = (Path(__file__).with_name(f"clock_{name}.sql") for name in ("nodes", "orders"))


def find_clock_bounds(engine: Engine, voters: Mapping[str, Sequence[int]]) -> None:
    """Writes clock_bounds of the recordings whose rows are not of today's logs."""
    warehouse = engine.warehouse
    ingested = warehouse.rows(INGESTED_FILES, voters).to_pylist()
    code = code_of((__name__,), (str(_NODES), str(_ORDERS)))
    read = contents(ingested, voters)
    wanted = {name: fingerprint(code, of, read[name]) for name, of in voters.items()}
    lineage = warehouse.lineage(wanted)
    stale = {n: text for n, text in wanted.items() if lineage.get((n, CLOCKS)) != text}
    if not stale:
        return
    rows = clock_bounds(engine, {name: voters[name] for name in stale})
    table = pa.Table.from_pylist(rows, schema=CLOCK_BOUNDS.arrow_schema)
    warehouse.replace(CLOCKS, stale, {CLOCK_BOUNDS: table})


def clock_bounds(engine: Engine, voters: Mapping[str, Sequence[int]]) -> list[dict[str, Any]]:
    ids = [voter for of in voters.values() for voter in of] or [0]
    text = Text.read(_ORDERS, voters_from=min(ids), voters_to=max(ids))
    orders = _by_recording(engine.rows(text, voters, {"voters": voters_table(voters)}))
    nodes = _by_recording(engine.rows(Text.read(_NODES), voters))
    return [row for name, of in nodes.items() for row in _bounds_of(name, of, orders.get(name, ()))]


def _by_recording(table: pa.Table) -> dict[str, list[dict[str, Any]]]:
    rows: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        rows.setdefault(row.pop("recording"), []).append(row)
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

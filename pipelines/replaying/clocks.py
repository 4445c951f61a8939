"""Finds how far nodes' clocks were apart, before the replay; states it, and tells the rules.

While a recording grows, what the bounds follow from is kept in sums (``states``), and a run adds
what new lines show. When it is closed, all of its lines are looked at once more.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from kip_replay.pipelines.engines import Engine
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.log_gaps import Row, voters_table
from kip_replay.pipelines.replaying.states import HEARTBEATS, Kept, added, packed, write_states
from kip_replay.pipelines.warehouse.data_files import moment
from kip_replay.pipelines.warehouse.steps import (
    Covered,
    Step,
    StepKind,
    contents_of,
    fingerprint,
    last_ingest,
    readings_of,
)
from kip_replay.replay.kafka.clocks import Clocks, Offset, Order, off_from_all, offsets
from kip_replay.replay.log_gaps import ALWAYS_SINCE_US, ALWAYS_UNTIL_US
from kip_replay.replay.log_tables import IngestedFiles
from kip_replay.replay.tables import ClockBounds, ReplayState

_PAIRS, _ORDERS = (Path(__file__).with_name(f"clock_{name}.sql") for name in ("pairs", "orders"))
STEP = Step(
    name="clocks",
    kind=StepKind.SUMS,
    writes=(ClockBounds, ReplayState),
    modules=(__name__,),
    queries=(_PAIRS, _ORDERS, HEARTBEATS),
)
#: While a recording grows, events of a pair are at most so far apart by their stamps, and so are
#: those that repeat one: with lines of twice as long around it, a pair is known.
_REACH_US = 30_000_000
_UNKNOWN = "Outcomes that rest on both clocks are unknown"


def find_clock_bounds(
    engine: Engine, voters: Mapping[str, Sequence[int]], complete: Mapping[str, int] | None = None
) -> None:
    """Writes clock_bounds of the recordings whose rows are not of today's logs.

    ``complete``: of recordings that grow, until when their logs are complete; UTC microseconds.
    """
    warehouse, code = engine.warehouse, STEP.code()
    readings = readings_of(warehouse, voters if complete is None else complete)
    wanted = {
        name: Covered(
            identity=fingerprint(code, voters[name]),
            inputs=fingerprint(contents_of(files)),
            is_growing=complete is not None,
        )
        for name, files in readings.items()
    }
    due = STEP.due(warehouse, wanted)
    if not due:
        return
    writing = warehouse.writing(STEP.name, due, STEP.writes)
    files = writing.files()
    for name in due:
        if complete is None:
            sums, later = _summed(engine, name, voters[name])
        else:
            identity = wanted[name].identity
            kept = Kept.read(engine, name, STEP.name, ("pairs",))
            if kept and (kept.covered.identity != identity or kept.covered.is_late(readings[name])):
                kept = None
            until_us = max(complete[name] - 2 * _REACH_US, kept.covered.until_us if kept else 0)
            sums, later = _summed(engine, name, voters[name], until_us, kept)
            epochs = {IngestedFiles.name: last_ingest(readings[name])}
            covered = Covered(identity=identity, until_us=until_us, epochs=epochs, is_growing=True)
            write_states(files, name, STEP.name, covered, packed({"pairs": sums}))
        rows = [*_bounds(engine, name, readings[name], pa.concat_tables([sums, later]))]
        schema = ClockBounds.arrow_schema
        files.write(ClockBounds, pa.RecordBatch.from_pylist(rows, schema))
    written = files.closed()
    writing.begin()
    writing.replace(ClockBounds, written)
    writing.replace_states(written)
    writing.end({name: str(wanted[name]) for name in due})


def _summed(
    engine: Engine,
    recording: str,
    voters: Sequence[int],
    until_us: int | None = None,
    kept: Kept | None = None,
) -> tuple[pa.Table, pa.Table]:
    """Adds the pairs of lines until a time to those that were kept; and the pairs after it.

    ``until_us``: None where the log is closed.
    """
    since_us = kept.covered.until_us if kept else ALWAYS_SINCE_US
    reach_us = ALWAYS_UNTIL_US if until_us is None else _REACH_US
    text = Text.read(
        _PAIRS,
        since_at=moment(since_us - 2 * reach_us if kept else 0),
        since_us=since_us,
        until_us=ALWAYS_SINCE_US if until_us is None else until_us,
        reach_us=reach_us,
        voters_from=min(voters, default=0),
        voters_to=max(voters, default=0),
    )
    sums = engine.rows(text, [recording], {"voters": voters_table({recording: voters})})
    is_kept = pc.field("is_kept")
    pairs, later = (sums.filter(which).drop_columns("is_kept") for which in (is_kept, ~is_kept))
    return added([kept.sums["pairs"], pairs]) if kept else pairs, later


def _bounds(engine: Engine, recording: str, files: Iterable[Row], pairs: pa.Table) -> Iterator[Row]:
    rows = engine.rows(Text.read(_ORDERS), [recording], {"clock_sums": pairs})
    orders = [Order(**row) for row in rows.drop_columns("recording").to_pylist()]
    nodes = _nodes(files, engine.rows(Text.read(HEARTBEATS), [recording]).to_pylist())
    if not nodes:
        return
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
            **{f"{kind}_pairs": pairs[kind] for kind in ("forwarded", "image")},
        }


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


# --- words


def clock_sentences(rows: Sequence[Row]) -> list[str]:
    """Returns, by recording, whose clocks are apart, what follows, and what to do."""
    sentences = []
    for recording in dict.fromkeys(row["recording"] for row in rows):
        mine = [row for row in rows if row["recording"] == recording]
        sentences += _of_reference(mine) or [_sentence(row) for row in mine if is_apart(row)]
    return sentences


def is_apart(row: Row) -> bool:
    return row["clocks"] in (Clocks.DIFFER, Clocks.CONTRADICTED)


def _of_reference(rows: Sequence[Row]) -> list[str]:
    apart = [row for row in rows if row["clocks"] == Clocks.DIFFER]
    shared = off_from_all(_offset(row) for row in apart)
    if shared is None:
        return []
    bounded = [row for row in apart if _offset(row)[:2] != (None, None)]
    others = ", ".join(str(row["node_id"]) for row in bounded)
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
            f"are missing: no one offset to node {reference} explains its log. {_UNKNOWN}"
        )
    ends = (row["offset_earliest_ms"], row["offset_latest_ms"])
    return _apart(recording, node, *ends, f"node {reference}")


def _apart(
    recording: str, node: int, low_ms: float | None, high_ms: float | None, other: str
) -> str:
    """``low_ms``, ``high_ms``: how far the node is ahead; one of them may not be known."""
    known = sorted((end for end in (low_ms, high_ms) if end is not None), key=abs)
    way = "ahead of" if known[0] > 0 else "behind"
    ends = " to ".join(f"{abs(end) / 1000:.2f}" for end in known)
    if len(known) == 1:
        ends, mend = f"at least {ends}", "The log does not bound it more closely"
    else:
        mend = (
            f'To correct it, add {-round(sum(known) / 2)} to "clock_offset_ms" (0 if not given) of '
            f"node {node} in recording.json, delete the recording from the warehouse and run again"
        )
    return (
        f"recording {recording!r}: the clock of node {node} was {ends} s {way} that of {other}. "
        f"{_UNKNOWN}. {mend}"
    )

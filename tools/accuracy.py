"""Prints docs/accuracy.md: every judged prediction of a warehouse beside what brokers did.

python -m tools.accuracy WAREHOUSE > docs/accuracy.md
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from kip_replay.pipelines.analysis import headlines
from kip_replay.pipelines.analysis.headlines import accuracy_line
from kip_replay.pipelines.warehouse.recordings import stored_recordings
from kip_replay.pipelines.warehouse.tables import Warehouse

_HEAD = """# How good the predictions are

Printed by `make accuracy` from the table `prediction_accuracy`; do not edit. A prediction is made
from one recording under the rule that another's brokers ran (or its own: a self-check), and held
against what those brokers did. An outcome that is unknown counts as a miss.
"""

#: What the figures of a rule mean, and what the baseline is.
_ABOUT = {
    "hwm_parking": "FETCHes of the metadata log and how late brokers learn of a high watermark, "
    "in the steady phase. The baseline is a constant: one FETCH per append and replica (two "
    "with KIP-1166), and a lag as of a wait of 0 to 500 ms (none with it).",
    "incremental_fetch": "Partitions listed per FETCH and bytes, by kind of client, in the steady "
    "phase; `fetches_as_recorded` is the share of recorded incremental FETCHes whose partition "
    "lists, their order and the bytes come out the same, both ways. The baseline is that "
    "nothing changes.",
    "min_isr_acks": "How long PRODUCEs with acks=all waited; `answers_within_2_ms` is the share of "
    "them, over the whole recording, whose answer is replayed within 2 ms. Across recordings: what "
    "acks=min.insync.replicas would take, against a cluster whose ISR is no larger than that. The "
    "baseline is that nothing changes.",
    "lowest_acked_offset": "When metadata writes were applied, and who knew; held against what "
    "clients saw where a recording has it, and simulated heartbeats against recorded ones.",
}


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page: a section for each rule, in it one for each pair of recordings."""
    judged = [row for row in rows if row["tolerance"] is not None]
    lines = [_HEAD, f"{accuracy_line(rows).capitalize()}.\n"]
    for rule, of_rule in groupby(judged, key=itemgetter("rule")):
        found = list(of_rule)
        lines += [f"## {rule}\n", f"{_ABOUT[rule]}\n", f"{accuracy_line(found).capitalize()}.\n"]
        for pair, of_pair in groupby(found, itemgetter("predicted_from", "recorded_in", "variant")):
            lines += _section(pair, list(of_pair))
    return "\n".join(lines)


def _section(pair: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    before, after, variant = pair
    how = "replayed as it ran" if before == after else f"predicted from {before}"
    yield f"### {after}, {how} ({variant})\n"
    yield "| figure | baseline | predicted | recorded | error | tolerance | within |"
    yield "|---|--:|--:|--:|--:|--:|---|"
    for row in rows:
        names = ("baseline", "predicted", "recorded", "error")
        cells = [headlines.measure_name(row), *(headlines.figure(row[name]) for name in names)]
        unknown = f", {row['unknown_count']} unknown" if row["unknown_count"] else ""
        cells += [f"{row['tolerance']:.3g}", f"{'yes' if row['passed'] else '**no**'}{unknown}"]
        yield f"| {' | '.join(cells)} |"
    yield ""


def page_of(warehouse: Warehouse) -> str:
    """The page of all recordings of a warehouse."""
    names = [one.name for one in stored_recordings(warehouse)]
    return page(headlines.accuracy_rows(warehouse, names))


if __name__ == "__main__":
    print(page_of(Warehouse(sys.argv[1])))

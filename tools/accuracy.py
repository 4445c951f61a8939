"""Prints docs/accuracy.md, every judged prediction of a warehouse beside what brokers did, and the
table of predictions in README.md.

python -m tools.accuracy WAREHOUSE
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from kip_replay.pipelines.analysis import headlines
from kip_replay.pipelines.analysis.headlines import accuracy_line
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.recordings import stored_recordings
from kip_replay.pipelines.warehouse.tables import Warehouse

_ROOT = Path(__file__).resolve().parents[1]
#: Around the table in README.md.
_BEGIN, _END = "<!-- printed by make docs -->", "<!-- until here -->"
#: Kinds of clients and replicas that stand in it.
_KINDS = ("broker", "follower")
_HEAD = """# How good the predictions are

Printed by `make docs` from the table `prediction_accuracy`; do not edit. A prediction is made
from one recording under the rule that another's brokers ran (or its own: a self-check), and held
against what those brokers did. An outcome that is unknown counts as a miss.
"""


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """The page: a section for each rule, in it one for each pair of recordings."""
    judged = [row for row in rows if row["tolerance"] is not None]
    about = {steps.name: steps.words.accuracy for steps in RULES}
    lines = [_HEAD, f"{accuracy_line(rows).capitalize()}.\n"]
    for rule, of_rule in groupby(judged, key=itemgetter("rule")):
        found = list(of_rule)
        lines += [f"## {rule}\n", f"{about[rule]}\n", f"{accuracy_line(found).capitalize()}.\n"]
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


def predictions(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The table in README.md: what one recording predicts of another, of all, by kind or node."""
    names = {metric: name for steps in RULES for metric, name in steps.words.metrics.items()}
    yield "| from | of | figure | predicted | really | |"
    yield "|---|---|---|--:|--:|---|"
    for row in rows:
        is_shown = row["group_kind"] in ("all", "node_id") or row["group_value"] in _KINDS
        is_shown &= row["predicted_from"] != row["recorded_in"] and row["metric"] in names
        if row["tolerance"] is None or not is_shown:
            continue
        of = "" if row["group_value"] == "all" else f", {row['group_value']}"
        cells = [row["predicted_from"], row["recorded_in"], f"{names[row['metric']]}{of}"]
        cells += [headlines.figure(row[name]) for name in ("predicted", "recorded")]
        yield f"| {' | '.join(cells)} | {'' if row['passed'] else '**off**'} |"


def main(warehouse: Warehouse) -> None:
    """Writes the page and the table."""
    names = [one.name for one in stored_recordings(warehouse)]
    rows = headlines.accuracy_rows(warehouse, names)
    (_ROOT / "docs" / "accuracy.md").write_text(page(rows), encoding="utf-8")
    readme = _ROOT / "README.md"
    before, begin, rest = readme.read_text(encoding="utf-8").partition(_BEGIN)
    _, end, after = rest.partition(_END)
    table = "\n".join(predictions(rows))
    readme.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")


if __name__ == "__main__":
    main(Warehouse(sys.argv[1]))

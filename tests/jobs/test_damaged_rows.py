"""A damaged log gives the rows of the whole one, ``unknown``, or a word about the damage."""

import gzip
import json
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from random import Random
from typing import NamedTuple

import pytest
from golden.test_gaps import KEYS, compared
from ran import ran
from small_logs import folder_of

from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import LogGaps, RejectedLines, Requests
from kip_replay.replay.tables import ClockBounds

pytestmark = pytest.mark.slow
OUTCOMES = [(steps.name, t) for steps in RULES for t in steps.outcomes if t.name in KEYS]
#: Columns that name the FETCH that decided an outcome.
_FETCH_IDS = {"acks_all_fetch_id", "min_isr_fetch_id"}
Change = Callable[[bytes], bytes | None]


class Damage(NamedTuple):
    """What becomes of each line of some nodes' logs (none: of all), and how it is said.

    ``evidence`` of a gap; None: nothing need be said if nothing that is known is other.
    """

    recording: str
    nodes: tuple[int, ...]
    change: Change
    evidence: str | None = None


def without(*patterns: bytes) -> Change:
    return lambda line: None if all(re.search(it, line) for it in patterns) else line


def at_random(change: Change, one_in: int) -> Change:
    random = Random(one_in)
    return lambda line: line if random.randrange(one_in) else change(line)


def flipped(field: bytes) -> Change:
    """The last digit of a number, so that the line alone is as good as before."""
    number = re.compile(rb'"%s":\d*(\d)' % field)
    return lambda line: number.sub(lambda m: m[0][:-1] + b"%d" % (9 - int(m[1])), line, count=1)


DAMAGES = {
    "isr": Damage("acks-not-enough", (), without(rb'"ALTER_PARTITION"'), "filtered"),
    "twice": Damage("acks-not-enough", (), lambda line: line + line),
    "offsets": Damage("metadata-4.1", (2,), at_random(flipped(b"fetchOffset"), 500)),
    "sizes": Damage("acks-not-enough", (11,), at_random(flipped(b"recordsSizeInBytes"), 300)),
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    folder = tmp_path_factory.mktemp("damaged")
    whole = {damage.recording for damage in DAMAGES.values()}
    for name, (recording, nodes, change, _) in DAMAGES.items():
        shutil.copytree(folder_of(recording), folder / name)
        manifest = json.loads((folder / name / "recording.json").read_text()) | {"name": name}
        (folder / name / "recording.json").write_text(json.dumps(manifest))
        for node in manifest["nodes"]:
            if not nodes or node["node_id"] in nodes:
                log = folder / name / node["log"]
                lines = gzip.decompress(log.read_bytes()).splitlines(keepends=True)
                log.write_bytes(gzip.compress(b"".join(filter(None, map(change, lines))), 1))
    options = ("--warehouse", folder / "w", "--set", "ingest.max_rejected_share=1")
    logs = [*map(folder_of, whole), *map(folder.joinpath, DAMAGES)]
    done = ran(sys.executable, "-m", "kip_replay.jobs.main", "run", *logs, *options)
    assert done.returncode == 3, done  # a check fell short
    return Warehouse(folder / "w")


def words(warehouse: Warehouse, name: str) -> Iterator[str]:
    yield from warehouse.rows(LogGaps, [name])["evidence"].to_pylist()
    yield from ("rejected" for _ in range(warehouse.rows(RejectedLines, [name]).num_rows))
    clocks = warehouse.rows(ClockBounds, [name])["clocks"].to_pylist()
    yield from (it for it in clocks if it in ("differ", "contradicted"))


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_said_or_changes_nothing_that_is_known(name: str, warehouse: Warehouse) -> None:
    damage, said = DAMAGES[name], {*words(warehouse, name)}
    assert not {*words(warehouse, damage.recording)}
    lines, of_whole = (
        {*warehouse.rows(Requests, [it])["request_id"].to_pylist()}
        for it in (name, damage.recording)
    )
    altered = lines - of_whole
    if damage.evidence:
        assert damage.evidence in said
    for rule, table in OUTCOMES if not said else ():
        whole, left = (
            warehouse.rows(table, [it]).drop_columns("recording").to_pylist()
            for it in (damage.recording, name)
        )
        ids = {KEYS[table.name](row): row for row in whole}
        for row in left:  # a line that is otherwise has another id
            there = ids.get(KEYS[table.name](row), row)
            row |= {name: there[name] for name in _FETCH_IDS & row.keys() if row[name] in altered}
        counts = compared(rule, table.name, whole, left)
        # A line that is otherwise is another request.
        assert counts.keys() <= {"equal", "unknown", "new"}, (table.name, counts)

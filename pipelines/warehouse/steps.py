"""Steps: each declares what it reads and writes; what of it is due is decided here.

A *step* makes rows of recordings from rows that other steps wrote. What its rows of a recording
follow from is ``Covered``, which ``lineage`` has as text. A step is due where that is not what it
would be now. How much of it is made again depends on its kind:

* *whole*: all rows of the recording;
* *by time*: while the recording grows, rows of new lines and of so much before them as the step
  looks back; once it is closed, all;
* *additive sums*: rows of new files are added to the sums that are there, unless something that
  these have counted has changed;
* *kept until closed*: what a replay carries is saved in ``replay_state`` and the next run resumes
  from it; a line of the time before it takes it back to the beginning.

A recording that is closed and has not grown stays closed, also for who takes it for a growing one.

A step's *code* is what the modules of its own package import: a change of the report replays
nothing. Not followed are the registries, which reach every rule, and engines and tables, which
decide no row.
"""

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cache
from importlib.util import resolve_name
from pathlib import Path
from typing import Any, Self, TypeAlias

import msgspec

from kip_replay.pipelines.warehouse.data_files import microseconds, moment
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import IngestedFiles
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

_ROOT = "kip_replay"
#: Where the packages are: the clone, or kip_replay where it is installed.
_FOLDER = Path(__file__).resolve().parents[2]
_REGISTRIES = ("kip_replay.replay.rules", "kip_replay.pipelines.rules")
#: What a module imports, by lines: Python's parser says the same of every module here
#: (tests/warehouse/test_lineage.py), and takes half a second for those of a run.
_IMPORT = re.compile(r"^\s*(?:import (.+)|from (\S+) import (?:\(([^)]*)\)|(.+)))$", re.MULTILINE)
_NOT_FOLLOWED = (
    "kip_replay.pipelines.errors",
    "kip_replay.pipelines.engines",
    "kip_replay.pipelines.warehouse",
)


def fingerprint(*parts: object) -> str:
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@cache
def code_of(modules: tuple[str, ...], files: tuple[str, ...] = ()) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for name, path in sorted(_closure(modules).items()):
        digest.update(name.encode() + b"\0" + path.read_bytes())
    for file in sorted(files):
        digest.update(Path(file).read_bytes())
    return digest.hexdigest()


def _closure(modules: Iterable[str]) -> dict[str, Path]:
    closure: dict[str, Path] = {}
    waiting = list(modules)
    while waiting:
        name = waiting.pop()
        path = _path_of(name, _FOLDER)
        if name in closure or path is None or name in _REGISTRIES or name.startswith(_NOT_FOLLOWED):
            continue
        closure[name] = path
        waiting += _imported(path, name)
    return closure


@cache
def _path_of(name: str, folder: Path) -> Path | None:
    """The file of a module or package; None for what is neither. Nothing is imported for it."""
    place = folder.joinpath(*name.split(".")[1:])
    return next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)


@cache
def _imported(path: Path, name: str) -> list[str]:
    """Names of this project that a module imports, wherever in it."""
    package, names = name if path.name == "__init__.py" else name.rpartition(".")[0], []
    for modules, base, *parts in _IMPORT.findall(path.read_text(encoding="utf-8")):
        imported = re.findall(r"([\w.]+)(?: as \w+)?", re.sub("#.*", "", modules or "".join(parts)))
        names += imported
        if base:
            base = resolve_name(base, package)
            names += [base, *(f"{base}.{part}" for part in imported)]
    return [name for name in names if name.startswith(_ROOT)]


#: Rows of ``ingested_files`` of one recording.
Readings: TypeAlias = list[dict[str, Any]]


class StepKind(StrEnum):
    WHOLE = "whole"
    BY_TIME = "by time"
    SUMS = "additive sums"
    KEPT = "kept until closed"


class Covered(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """States what a step's rows of a recording follow from, and how much of it they cover.

    ``identity``: fingerprint of code and settings. ``inputs``: of what was read whole. ``part``: of
    what else the part that is covered follows from; where that changed, it is not gone on from.
    ``until_us``: events until then are covered, UTC microseconds; ``epochs``: the last epoch of
    each table that is.
    """

    identity: str
    inputs: str = ""
    part: str = ""
    until_us: int = 0
    epochs: dict[str, int] = {}
    is_growing: bool = False

    def __str__(self) -> str:
        return msgspec.json.encode(self).decode()

    @classmethod
    def stated(cls, text: str | None) -> Self | None:
        """Reads what ``lineage`` or a saved state has; None where that is nothing of this form."""
        try:
            return msgspec.json.decode(text or "", type=cls)
        except msgspec.MsgspecError:
            return None

    @property
    def ingest_epoch(self) -> int:
        return self.epochs.get(IngestedFiles.name, 0)

    def is_due(self, before: Self | None) -> bool:
        """Returns whether rows that cover this are to be made, where rows cover ``before``."""
        if before is None or (before.identity, before.inputs) != (self.identity, self.inputs):
            return True
        return before.is_growing and not self.is_growing

    def is_late(self, readings: Readings) -> bool:
        """Returns whether a reading that is not covered has an event of the time that is."""
        new = (row for row in readings if row["ingest_epoch"] > self.ingest_epoch)
        events = (row["first_event_at"] for row in new)
        return any(at is not None and microseconds(at) <= self.until_us for at in events)


@dataclass(frozen=True, kw_only=True)
class Step:
    """Declares a step: its kind, what it reads and writes, and its code.

    ``queries``: texts that it runs, of which the tables that they name are read; ``reads``: tables
    that are read otherwise. ``modules``, with all that they import, ``queries`` and ``files`` are
    its code.
    """

    name: str
    writes: tuple[Table, ...]
    kind: StepKind = StepKind.WHOLE
    reads: tuple[Table, ...] = ()
    queries: tuple[Path, ...] = ()
    modules: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()

    def code(self) -> str:
        return code_of(self.modules, tuple(map(str, (*self.queries, *self.files))))

    def covered(self, warehouse: Warehouse, recordings: Collection[str]) -> dict[str, Covered]:
        """Reads what this step's rows follow from, of recordings where that is known."""
        lineage = warehouse.lineage(recordings)
        stated = {name: Covered.stated(lineage.get((name, self.name))) for name in recordings}
        return {name: covered for name, covered in stated.items() if covered}

    def due(self, warehouse: Warehouse, wanted: Mapping[str, Covered]) -> dict[str, Covered | None]:
        """Returns the recordings whose rows are not what is wanted, and what they cover.

        None where they can't be gone on from: they are of other code or settings.
        """
        covered, due = self.covered(warehouse, wanted), {}
        for name, now in wanted.items():
            before = covered.get(name)
            if now.is_due(before):
                is_same = before is not None and before.identity == now.identity
                due[name] = before if is_same else None
        return due


def inputs_of(
    lineage: Mapping[tuple[str, str], str], recording: str, steps: Collection[str]
) -> str:
    """Fingerprints what steps' rows of a recording follow from; of ``accuracy``, all judgements."""
    texts = {
        step: text
        for (name, step), text in lineage.items()
        if name == recording and step.partition("/")[0] in steps
    }
    return fingerprint(texts)


# --- readings -------------------------------------------------------------------------------------


def readings_of(warehouse: Warehouse, recordings: Collection[str]) -> dict[str, Readings]:
    rows = warehouse.rows(IngestedFiles, recordings).to_pylist()
    return {name: [row for row in rows if row["recording"] == name] for name in recordings}


def last_ingest(readings: Readings) -> int:
    return max((row["ingest_epoch"] for row in readings), default=0)


def requests_in(readings: Mapping[str, Readings], *, newest: bool) -> int:
    """Counts the requests that were logged; ``newest``: those that were read last."""
    return sum(
        row["requests"]
        for rows in readings.values()
        for row in rows
        if not newest or row["ingest_epoch"] == last_ingest(rows)
    )


def contents_of(readings: Readings) -> list[str]:
    """Returns the content hashes of one recording's logs, by node, in order."""
    return sorted({f"{row['node_id']}:{row['content_hash']}" for row in readings})


# --- the recent part of recordings that grow ------------------------------------------------------


def is_growing(text: str | None) -> bool:
    """Returns whether a step has seen no more than an increment, by what lineage has of it."""
    covered = Covered.stated(text)
    return covered is not None and covered.is_growing


def recent_of(warehouse: Warehouse, recordings: Collection[str], minutes: float) -> Warehouse:
    """The warehouse with the recent part of each recording that grows, and the whole of others.

    It is as long as what the last ingest has read, and no less than ``minutes``, up to what steps
    that keep states have replayed.
    """
    until_us: dict[str, int] = {}
    for (name, _), text in warehouse.lineage(recordings).items():
        covered = Covered.stated(text)
        if covered and covered.is_growing and covered.until_us:
            until_us[name] = min(covered.until_us, until_us.get(name, covered.until_us))
    moments = {}
    for name, readings in readings_of(warehouse, until_us).items():
        logged = [row for row in readings if row["requests"]]
        new = [row for row in logged if row["ingest_epoch"] == last_ingest(logged)]
        last_at = max(row["last_completed_at"] for row in logged)
        new_at = min(row["first_received_at"] for row in new)
        begin = moment(until_us[name]) - max(last_at - new_at, timedelta(minutes=minutes))
        if begin > min(row["first_received_at"] for row in logged):
            moments[name] = begin.replace(microsecond=0)
    if not moments:
        return warehouse
    return warehouse.since(moments, [table for table in TABLES.values() if table.holds_on])

"""Keeps which outcomes the sums of a recording count, so that a longer log adds what is new.

What files of outcomes give adds up. So sums go on from latency_histograms and bandwidth_summary,
and count the files of later epochs; those that maintenance has merged are old. Where anything that
they have counted may be another now, they begin anew: slower, never wrong.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import pyarrow as pa

from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.data_files import microseconds
from kip_replay.pipelines.warehouse.lineage import fingerprint
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.phases import SteadyPhase
from kip_replay.replay.table import Table

Files = Mapping[Table, Sequence[Mapping[str, Any]]]


class Counted(NamedTuple):
    """As lineage states it; ``epochs``: the last that are counted, by table.

    ``last_us``: no time of the outcomes is later; ``basis``: of all that their sums depend on.
    """

    follows_from: str
    basis: str
    block_us: int
    last_us: int
    epochs: Mapping[str, int]

    def __str__(self) -> str:
        return json.dumps(self)

    @classmethod
    def stated(cls, lineage: str | None) -> Self | None:
        return cls(*json.loads(lineage)) if lineage and lineage.startswith("[") else None


@dataclass(frozen=True)
class Outcomes:
    """Files of a recording's outcomes, with the last epoch of each table."""

    files: Files
    epochs: Mapping[str, int]

    @classmethod
    def of(cls, warehouse: Warehouse, steps: Mapping[Table, str], recording: str) -> Self:
        deltas = {table: warehouse.open(table) for table in steps}
        files = {table: commits.files_of(delta, [recording]) for table, delta in deltas.items()}
        of = ((t.name, commits.epoch_in(d, steps[t], recording)) for t, d in deltas.items())
        return cls(files, dict(of))

    def new_to(self, counted: Counted) -> Files:
        of = counted.epochs
        return {t: commits.of_epochs_after(files, of[t.name]) for t, files in self.files.items()}

    @property
    def last_us(self) -> int:
        """Bounds the times of the rows from above, by the statistics of their files."""
        found = (
            file.get(f"max.{column.name}")
            for table, files in self.files.items()
            for column in table.columns
            if pa.types.is_timestamp(column.type)
            for file in files
        )
        return max((microseconds(at) for at in found if at is not None), default=0)

    def counted(
        self, code: str, phase: SteadyPhase, gaps: Iterable[LogGap], counted: Counted
    ) -> Counted:
        """Restates what is counted, with its basis as it is now."""
        until_us = min(phase.until_us, counted.last_us + 1)
        begun = sorted(gap for gap in gaps if gap.after_us < counted.last_us)
        new = self.new_to(counted)
        rows = {table.name: _rows(of) - _rows(new[table]) for table, of in self.files.items()}
        return counted._replace(basis=fingerprint(code, phase.from_us, until_us, begun, rows))


def _rows(files: Iterable[Mapping[str, Any]]) -> int:
    return sum(file["num_records"] for file in files)

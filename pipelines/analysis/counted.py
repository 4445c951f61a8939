"""Decides which outcomes sums of a recording count already, so that a longer log adds what is new.

What files of outcomes give adds up. So sums go on from latency_histograms and bandwidth_summary,
and count the files of later epochs; those that maintenance has merged are old. Where anything that
they have counted may be another now, they begin anew: slower, never wrong.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import msgspec
import pyarrow as pa

from kip_replay.pipelines.warehouse import commits
from kip_replay.pipelines.warehouse.data_files import microseconds
from kip_replay.pipelines.warehouse.lineage import fingerprint
from kip_replay.pipelines.warehouse.steps import Covered
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.outcomes import SteadyPhase
from kip_replay.replay.table import Table

Files: TypeAlias = Mapping[Table, Sequence[Mapping[str, Any]]]
#: Gaps in the logs of one recording.
Gaps: TypeAlias = Collection[LogGap]


class Counted(Covered, frozen=True, omit_defaults=True, kw_only=True):
    """States what sums cover, and how long the blocks of time are that they are of."""

    block_us: int = 0


@dataclass(frozen=True)
class Outcomes:
    """Files of a recording's outcomes, with the last epoch of each table."""

    files: Files
    epochs: dict[str, int]

    @classmethod
    def of(cls, warehouse: Warehouse, steps: Mapping[Table, str], recording: str) -> Self:
        deltas = {table: warehouse.open(table) for table in steps}
        files = {table: commits.files_of(delta, [recording]) for table, delta in deltas.items()}
        epochs = {t.name: commits.epoch_in(d, steps[t], recording) for t, d in deltas.items()}
        return cls(files, epochs)

    def new_to(self, counted: Counted) -> Files:
        epochs = counted.epochs
        return {t: commits.of_epochs_after(of, epochs[t.name]) for t, of in self.files.items()}

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

    def counted(self, now: Covered, block_us: int, phase: SteadyPhase, gaps: Gaps) -> Counted:
        """States what sums of all these outcomes cover."""
        counted = Counted(
            identity=now.identity,
            inputs=now.inputs,
            until_us=self.last_us,
            epochs=self.epochs,
            block_us=block_us,
        )
        return msgspec.structs.replace(counted, part=self.part(counted, phase, gaps))

    def part(self, counted: Counted, phase: SteadyPhase, gaps: Gaps) -> str:
        """Fingerprints what those of the outcomes that are counted depend on, as it is now."""
        until_us = min(phase.until_us, counted.until_us + 1)
        begun = sorted(gap for gap in gaps if gap.after_us < counted.until_us)
        new = self.new_to(counted)
        rows = {table.name: _rows(files) - _rows(new[table]) for table, files in self.files.items()}
        return fingerprint(phase.from_us, until_us, begun, rows)


def _rows(files: Iterable[Mapping[str, Any]]) -> int:
    return sum(file["num_records"] for file in files)

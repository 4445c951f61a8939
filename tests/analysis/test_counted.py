"""Sums of a recording that grows are those of all its outcomes, and count only what is new."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from constructed import Row, at
from hypothesis import given, settings
from hypothesis import strategies as st
from put_rows import put, row, rows_of

from kip_replay.pipelines.analysis import summarize as module
from kip_replay.pipelines.analysis.summarize import SUMMARIES, SUMMARY_TABLES, Counted
from kip_replay.pipelines.engines import Feed, TableSlice
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.data_files import microseconds
from kip_replay.pipelines.warehouse.maintenance import optimize
from kip_replay.pipelines.warehouse.steps import Covered
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import IngestedFiles, LogGaps
from kip_replay.replay.records import SteadyPhase
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

[HWM] = (steps for steps in RULES if steps.name == "hwm_parking")
LAGS, PARKED = (TABLES[name] for name in ("high_watermark_lag", "fetch_parking_outcomes"))
#: Of a FETCH: second, lag and time parked in ms, bytes of the response. None is not known.
Fetch = tuple[int, int | None, int | None]
FETCHES = st.tuples(
    st.integers(0, 199), *[st.one_of(st.none(), st.integers(1, 9)) for _ in range(2)]
)


@dataclass(frozen=True)
class Noting(Local):
    """Notes which files of outcomes are read."""

    read: set[str] = field(default_factory=set)

    def feed(self, feed: Feed[Any]) -> list[Any]:
        for name in (LAGS.name, PARKED.name):
            given_ = feed.inputs[name]
            assert isinstance(given_, TableSlice)
            self.read.update(str(file["path"]) for file in given_.files)
        return super().feed(feed)


class Growing:
    """A warehouse with outcomes of a recording that grows."""

    def __init__(self, path: str | Path) -> None:
        self.warehouse, self.count = Warehouse(path), 0

    def grow(self, fetches: Sequence[Fetch], until_s: float) -> None:
        """Adds outcomes; the log and the steady phase reach until then."""
        if fetches:
            put(self.warehouse, HWM.name, self.rows(fetches))
        read = {"first_received_at": at(0), "last_completed_at": at(until_s), "requests": 1}
        read |= {"ingest_epoch": 1}
        put(self.warehouse, "ingest", {IngestedFiles: [row(IngestedFiles, "r", **read)]})
        self.steady(20.0, until_s)

    def steady(self, from_s: float, until_s: float) -> None:
        self.phase = SteadyPhase(microseconds(at(from_s)), microseconds(at(until_s)))

    def rows(self, fetches: Sequence[Fetch]) -> dict[Table, list[Row]]:
        rows: dict[Table, list[Row]] = {LAGS: [], PARKED: []}
        for second, ms, size in fetches:
            self.count += 1
            same = {"rule": HWM.name, "parameter": "none", "parameter_value": -1, "is_voter": True}
            same |= {"verdict": "replayed", "leader_id": 1 + second % 2, "replica_id": 11}
            lag = {"leader_at": at(second), "lag_ms": ms, "phase": "steady"}
            times = {"dequeued_at": at(second), "built_at": at(second + 0.5), "parked_ms": ms}
            more = {"decision": "parked", "completion": "records", "record_bytes": size}
            sizes = {"request_bytes": 7, "response_bytes": size, "sequence": self.count}
            for variant in ("recorded", "with_kip_1166"):
                own = same | {"variant": variant}
                rows[LAGS].append(row(LAGS, "r", **own, **lag, high_watermark=self.count))
                rows[PARKED].append(row(PARKED, "r", **own, **times, **more, **sizes))
        return rows

    def find_gap(self, after_s: float, before_s: float) -> None:
        gap = row(LogGaps, "r", node_id=1, after_at=at(after_s), before_at=at(before_s))
        put(self.warehouse, "log_gaps", {LogGaps: [gap]})

    def sums(self, *, anew: bool = False) -> tuple[list[list[str]], set[str]]:
        """Rows of the tables of sums, and the files that were read for them."""
        stated = self.warehouse.lineage(["r"]).get(("r", SUMMARIES))
        phases, engine = {"r": self.phase}, Noting(self.warehouse)
        before = {"r": None if anew else Counted.stated(stated)}
        wanted = {"r": Covered(identity="these")}
        module._summarize(engine, [HWM], wanted, phases, before)
        return [rows_of(self.warehouse, table) for table in SUMMARY_TABLES], engine.read

    def added(self) -> set[str]:
        """Sums what is new; the files that were read. The sums are those of all outcomes."""
        found, read = self.sums()
        assert found == self.sums(anew=True)[0]
        return read


@given(fetches=st.lists(FETCHES, max_size=60), cuts=st.sets(st.integers(1, 199), max_size=3))
@settings(max_examples=3, deadline=timedelta(seconds=60))
def test_sums_add_up_wherever_a_log_is_cut(fetches: list[Fetch], cuts: set[int]) -> None:
    with TemporaryDirectory() as folder:
        growing, seen = Growing(folder), set[str]()
        for since, until in zip([0, *sorted(cuts)], [*sorted(cuts), 200], strict=True):
            growing.grow([each for each in fetches if since <= each[0] < until], until)
            if until == 200:
                growing.find_gap(since, since + 1.5)
            read = growing.added()
            assert not read & seen
            seen |= read


GROWN: list[Fetch] = [(second, second % 7 + 1, 5) for second in range(100)]


def replaced(growing: Growing) -> None:
    rows = growing.rows([(second, 3, 5) for second, _, _ in GROWN])
    tables = {of: pa.Table.from_pylist(each, of.arrow_schema) for of, each in rows.items()}
    growing.warehouse.replace(HWM.name, {"r": "anew"}, tables)


def merged(growing: Growing) -> None:
    for table in (LAGS, PARKED):
        optimize(growing.warehouse, table, lambda name: True)


@pytest.mark.parametrize(
    ("happens", "anew"),
    [
        pytest.param(lambda growing: growing.find_gap(99.5, 120.0), False, id="a gap after it"),
        pytest.param(lambda growing: growing.find_gap(30.0, 40.0), True, id="a gap in old time"),
        pytest.param(lambda growing: growing.steady(10.0, 101.0), True, id="the phase begins"),
        pytest.param(lambda growing: growing.steady(20.0, 90.0), True, id="the phase ends before"),
        pytest.param(merged, False, id="files are merged"),
        pytest.param(replaced, True, id="outcomes are replayed anew"),
    ],
)
def test_what_may_have_changed_is_counted_anew(
    tmp_path: Path, happens: Callable[[Growing], object], anew: bool
) -> None:
    growing = Growing(tmp_path)
    for begin in (0, 50):
        growing.grow(GROWN[begin : begin + 50], 101.0)
        assert growing.added()
    happens(growing)
    assert bool(growing.added()) == anew

"""incremental_fetch in increments: the rows are those of the whole log, however it is cut.

After each increment the replay is saved, and another one resumes from its state.
"""

from itertools import pairwise
from random import Random

import pyarrow as pa
import pytest
from golden.recorded import events_of
from hypothesis import given
from hypothesis import strategies as st
from kafka_model.log import NODE, batch_of, names_row
from kafka_model.world import World, log_of

from kip_replay.replay.incremental_fetch import IncrementalFetch

pytestmark = pytest.mark.property

SLOTS = (8, 16)


def in_increments(batch: pa.RecordBatch, cuts: list[int], names: pa.RecordBatch) -> list[pa.Table]:
    """Each increment by a replay of its own, which is given the names again."""
    emitted, saved = [], None
    for begin, end in pairwise([0, *sorted(cuts), batch.num_rows]):
        replay = IncrementalFetch(NODE, SLOTS, saved=saved)
        emitted += [replay.feed(piece) for piece in (names, batch.slice(begin, end - begin))]
        saved = replay.saved()
    emitted.append(IncrementalFetch(NODE, SLOTS, saved=saved).finish())
    return [pa.Table.from_batches(output).combine_chunks() for output in zip(*emitted, strict=True)]


@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0, 8, 80_000]),
    st.lists(st.floats(0, 1), max_size=4),
)
def test_rows_do_not_depend_on_increments(seed: int, slots: int, cuts: list[float]) -> None:
    world = World(Random(seed), clients=6, steps=40)
    batch = batch_of(log_of(world.moments, world.names, slots))
    names = batch_of([names_row(world.names)])
    places = [round(cut * batch.num_rows) for cut in cuts]
    assert in_increments(batch, places, names) == in_increments(batch, [], names)


@pytest.mark.golden
def test_state_is_as_large_as_what_is_open() -> None:
    """Nine streams of 40 partitions or fewer: a fraction of the log, however long that is."""
    log = events_of("sessions-off", "incremental_fetch")[12].combine_chunks().to_batches()[0]
    replay, sizes = IncrementalFetch(12, SLOTS), []
    for begin in range(0, log.num_rows, 100):
        replay.feed(log.slice(begin, 100))
        sizes.append(len(replay.saved()))
    assert max(sizes) < 60_000
    assert sizes[-1] < 2 * sizes[1]


def test_names_may_come_again() -> None:
    names, replay = batch_of([names_row({"t".ljust(22, "_"): "t"})]), IncrementalFetch(NODE)
    replay.feed(names)
    once = replay.saved()
    replay.feed(names)
    assert replay.saved() == once

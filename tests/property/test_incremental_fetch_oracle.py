"""incremental_fetch in vectors hands out what the readable engine does, in whatever pieces.

After each piece the replay is saved, and another one goes on from its state.
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import msgspec
import pyarrow as pa
import pytest
from golden.naive_fetches import fetches_of
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka_model.fetch_sessions import Request, Response
from kafka_model.log import NODE, asked, batch_of, fetched, names_row, told
from kafka_model.world import World, log_of
from oracles.incremental_fetch import IncrementalFetch as Readable

from kip_replay.replay.incremental_fetch import IncrementalFetch

pytestmark = pytest.mark.property

SLOTS = (8, 16)
Tables = list[pa.Table]


def of_oracle(node: int, batch: pa.RecordBatch, names: pa.RecordBatch | None = None) -> Tables:
    replay = Readable(node, SLOTS)
    fed = [replay.feed(piece) for piece in (names, batch) if piece is not None]
    return tables([*fed, replay.finish()])


def in_pieces(
    node: int, batch: pa.RecordBatch, cuts: list[int], names: pa.RecordBatch | None = None
) -> Tables:
    """Each piece by a replay of its own, begun with the names again."""
    bounds = [0, *sorted(cuts), batch.num_rows]
    handed_out, saved = [], None
    for begin, end in pairwise(bounds):
        replay = IncrementalFetch(node, SLOTS, saved=saved)
        pieces = (names, batch.slice(begin, end - begin))
        handed_out += [replay.feed(piece) for piece in pieces if piece is not None]
        saved = replay.saved()
    return tables([*handed_out, IncrementalFetch(node, SLOTS, saved=saved).finish()])


def tables(handed_out: list[tuple[pa.RecordBatch, pa.RecordBatch]]) -> Tables:
    outputs = zip(*handed_out, strict=True)
    return [pa.Table.from_batches(output).combine_chunks() for output in outputs]


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0, 8, 80_000]),
    st.lists(st.floats(0, 1), max_size=4),
    st.sampled_from([0, 100_000]),
)
def test_rows_are_those_of_the_readable_engine(
    seed: int, slots: int, cuts: list[float], numbers_min: int
) -> None:
    """Also where numbers of partitions that nobody follows are given up after each batch."""
    world = World(Random(seed), clients=6, steps=40)
    batch = batch_of(log_of(world.moments, world.names, slots))
    names = batch_of([names_row(world.names)])
    places = [round(cut * batch.num_rows) for cut in cuts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("replay.incremental_fetch.replay.NUMBERS_MIN", numbers_min)
        assert in_pieces(NODE, batch, places, names) == of_oracle(NODE, batch, names)


@pytest.mark.golden
@pytest.mark.parametrize(("name", "node"), [("sessions-off", 12), ("sessions-on", 12)])
def test_recording_in_pieces_is_the_recording(name: str, node: int) -> None:
    batch = fetches_of(name, node)
    draw = Random(name)
    cuts = [draw.randrange(batch.num_rows) for _ in range(10)]
    assert in_pieces(node, batch, cuts) == of_oracle(node, batch)


@pytest.mark.golden
def test_state_is_as_large_as_what_is_open() -> None:
    """Nine streams of 40 partitions or fewer: a fraction of the log, however long that is."""
    batch = fetches_of("sessions-off", 12)
    replay = IncrementalFetch(12, SLOTS)
    sizes = []
    for begin in range(0, batch.num_rows, 100):
        replay.feed(batch.slice(begin, 100))
        sizes.append(len(replay.saved()))
    assert max(sizes) < 60_000
    assert sizes[-1] < 2 * sizes[1]


def test_names_may_be_told_again() -> None:
    names = batch_of([names_row({"t".ljust(22, "_"): "t"})])
    replay = IncrementalFetch(NODE)
    replay.feed(names)
    once = replay.saved()
    replay.feed(names)
    assert replay.saved() == once


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda saved: msgspec.msgpack.encode([99, *msgspec.msgpack.decode(saved)[1:]]), "says 99"),
        (lambda saved: b"\xff\xff" + saved, "can't be read"),
        (lambda saved: saved[:-9], "can't be read"),
    ],
)
def test_state_of_another_version_is_refused(change: object, sentence: str) -> None:
    saved = change(IncrementalFetch(NODE, SLOTS).saved())  # type: ignore[operator]
    with pytest.raises(ValueError, match=sentence):
        IncrementalFetch(NODE, SLOTS, saved=saved)


def test_state_of_other_slots_is_refused() -> None:
    saved = IncrementalFetch(NODE, SLOTS).saved()
    with pytest.raises(ValueError, match="replay the recording from its beginning"):
        IncrementalFetch(NODE, (8,), saved=saved)


def test_lists_of_many_versions_and_of_names_stand_in_one_batch() -> None:
    """Names below v13, classic encodings below v12: counted row by row as one alone would be."""
    rows = []
    for at, version in enumerate((7, 11, 12, 13, 17, 18) * 2):
        topic = "t".ljust(22, "_") if version >= 13 else "name of a topic"
        partitions = [asked(topic, p, at, high_watermark=at) for p in range(130)]
        answers = [told(topic, p, at, record_bytes=p, aborted_transactions=p) for p in range(130)]
        request = Request(0, 0, partitions, [])._replace(version=version)
        connection = f"one of v{version}"
        rows.append(fetched(at, request, Response(0, 0, answers), connection=connection))
    assert in_pieces(NODE, batch_of(rows), []) == of_oracle(NODE, batch_of(rows))

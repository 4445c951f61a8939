"""Whatever clients and brokers do: the replay is what Kafka's own classes did (kafka_oracle)."""

from functools import partial
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from constructed import fed
from fetch_logs import NODE, RecordedFetch, Replayed, batch_of, names_row, replay_of
from golden.recorded import events_of
from hypothesis import given
from hypothesis import strategies as st
from kafka_oracle import histories
from kafka_oracle.sessions import SLOTS, History

from kip_replay.replay.incremental_fetch.outcomes import FULL, INCREMENTAL, INCREMENTAL_DRAFT
from kip_replay.replay.incremental_fetch.replay import IncrementalFetch
from kip_replay.replay.records import RECORDED

drawn = st.integers(0, len(histories("sessions")) - 1)


def history_of(number: int) -> History:
    return History(histories("sessions")[number])


def wire(row: dict[str, Any]) -> tuple[object, ...]:
    """What a replayed FETCH looks like on the wire."""
    lists = ("request_partitions", "forgotten_partitions", "response_partitions")
    sizes = ("request_bytes", "response_bytes", "session_error")
    names = ("is_full", "session_epoch", *lists, *sizes)
    return (row["request_id"][:-2], row["attempt"], *(row[name] for name in names))


def wire_of(row: RecordedFetch) -> tuple[object, ...]:
    number, attempt = row.request_id[:-2], int(row.request_id[-1])
    lists = (row.request_partitions, row.forgotten_partitions, row.response_partitions)
    sizes = (row.request_bytes, row.response_bytes, row.error_code)
    return (
        number,
        attempt,
        row.session_epoch in (0, -1),
        row.session_epoch,
        *(len(of or ()) for of in lists),
        *sizes,
    )


def replayed(history: History, log: list[RecordedFetch], *slots: int) -> Replayed:
    return replay_of([log], slots, history.names)


@pytest.mark.parametrize("number", range(0, len(histories("sessions")), 2))
def test_log_without_sessions_tells_what_any_number_of_slots_would_do(number: int) -> None:
    """Every FETCH, refusals, evictions and retries included: lists' lengths, epochs and bytes."""
    history = history_of(number)
    assert not history.breaks
    log = history.log(0)
    rows = replayed(history, log, *SLOTS[1:])
    for slots in SLOTS[1:]:
        expected = [wire_of(row) for row in history.log(slots)]
        assert [wire(row) for row in rows.variant(INCREMENTAL, slots)] == expected
        check_shards(rows.events(slots), slots)
    assert [wire(row) for row in rows.variant(INCREMENTAL)] == expected
    check_keys(rows, {row.request_id for row in log})
    full = {row["request_id"]: row for row in rows.variant(FULL)}
    for row in (*rows.variant(INCREMENTAL), *rows.variant(INCREMENTAL_DRAFT)):
        of_full = full[row["request_id"]]
        assert row["request_partitions"] <= of_full["request_partitions"]
        assert row["response_partitions"] <= of_full["response_partitions"]
        assert row["record_bytes"] == of_full["record_bytes"]


def check_shards(events: list[dict[str, Any]], slots: int) -> None:
    """No shard has more sessions than slots: created less evicted and closed, at each moment."""
    here: dict[int, int] = {}
    for event in events:
        step = {"created": 1, "refused": 0}.get(event["event"], -1)
        here[event["shard"]] = here.get(event["shard"], 0) + step
        assert 0 <= here[event["shard"]] <= slots // 8
    assert {e["event"] for e in events} <= {"created", "refused", "evicted", "closed"}


def check_keys(rows: Replayed, requests: set[str]) -> None:
    """Every variant says something of every FETCH, and no key comes twice."""
    for variant in (RECORDED, FULL, INCREMENTAL_DRAFT, INCREMENTAL):
        assert {row["request_id"] for row in rows.variant(variant)} == requests
    for table, names in (
        (rows.outcomes, ("variant", "parameter_value", "request_id", "attempt")),
        (rows.evictions, ("parameter_value", "session_key", "event", "request_id")),
    ):
        keys = [tuple(row[name] for name in names) for row in table]
        assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("number", range(len(histories("sessions"))))
def test_log_with_sessions_explains_itself(number: int) -> None:
    """Order included: each incremental FETCH is derived as it stands in the log."""
    history = history_of(number)
    for slots in SLOTS:
        rows = replayed(history, history.log(slots))
        assert False not in [row["equals_recorded"] for row in rows.variant(INCREMENTAL)]
        assert "unknown" not in [row["verdict"] for row in rows.outcomes]


@pytest.mark.property
@given(drawn, st.sampled_from(SLOTS[1:]))
def test_full_fetches_do_not_depend_on_how_the_log_was_recorded(number: int, slots: int) -> None:
    """Partitions; bytes but for the topics, since followers' order does not show."""
    history = history_of(number // 2 * 2)
    off, on = (replayed(history, history.log(of)) for of in (0, slots))
    expected = {row["request_id"][:-2]: row for row in off.variant(FULL)}
    names = ("request_partitions", "response_partitions", "record_bytes", "session_partitions")
    for row in on.variant(FULL):
        if row["verdict"] == "not_applicable":
            continue
        of_full = expected[row["request_id"][:-2]]
        assert [row[name] for name in names] == [of_full[name] for name in names]
        assert (
            abs(row["request_bytes"] - of_full["request_bytes"]) <= 20 * row["request_partitions"]
        )


@pytest.mark.property
@given(drawn)
def test_what_is_explained_is_not_read(number: int) -> None:
    """Sizes blanked, incremental responses in another order: the same."""
    history, shuffle = history_of(number), Random(number)
    log = history.log(80_000)
    blanked = []
    for row in log:
        response = list(row.response_partitions)
        if row.session_epoch > 0:
            shuffle.shuffle(response)
        blanked.append(
            row._replace(request_bytes=None, response_bytes=None, response_partitions=response)
        )
    expected, got = (replayed(history, rows, 8) for rows in (log, blanked))
    for variant, value in ((FULL, -1), (INCREMENTAL_DRAFT, -1), (INCREMENTAL, 8)):
        assert got.variant(variant, value) == expected.variant(variant, value)
    assert got.evictions == expected.evictions


# --- increments: after each the replay is saved, and another one resumes --------------------------

SWEPT = (8, 16)


def in_increments(batch: pa.RecordBatch, cuts: list[int], names: pa.RecordBatch) -> list[pa.Table]:
    """Each increment, and the names again before it, by a replay of its own."""
    spans = pairwise([0, *sorted(cuts), batch.num_rows])
    pieces = (piece for begin, end in spans for piece in (names, batch.slice(begin, end - begin)))
    emitted = fed(partial(IncrementalFetch, NODE, SWEPT), pieces, resumed=True)
    return [pa.Table.from_batches(output).combine_chunks() for output in zip(*emitted, strict=True)]


@pytest.mark.property
@given(drawn, st.sampled_from(SLOTS), st.lists(st.floats(0, 1), max_size=4))
def test_rows_do_not_depend_on_increments(number: int, slots: int, cuts: list[float]) -> None:
    history = history_of(number)
    batch, names = batch_of(history.log(slots)), batch_of([names_row(history.names)])
    places = [round(cut * batch.num_rows) for cut in cuts]
    assert in_increments(batch, places, names) == in_increments(batch, [], names)


@pytest.mark.golden
def test_state_is_as_large_as_what_is_open() -> None:
    """Nine streams of 40 partitions or fewer: a fraction of the log, however long that is."""
    log = events_of("sessions-off", "incremental_fetch")[12].combine_chunks().to_batches()[0]
    replay, sizes = IncrementalFetch(12, SWEPT), []
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

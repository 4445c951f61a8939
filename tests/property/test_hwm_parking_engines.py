"""The engine gives the oracle's rows, however the log is cut, saved and gone on with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
import pyarrow as pa
import pytest
from golden.naive_log import recording
from hypothesis import given, settings
from hypothesis import strategies as st
from notation.cluster import Cluster, cut
from notation.recorded import batch_of, fetched, in_order
from oracles.hwm_parking import HwmParking as Oracle
from oracles.hwm_parking import replay as oracle_replay
from test_hwm_parking_properties import clusters

from kip_replay.replay.hwm_parking import HwmParking, Outcomes, variants
from kip_replay.replay.hwm_parking import replay as engine_replay
from kip_replay.replay.hwm_parking.metadata_log import NO_ANSWER, RecordedFetch
from kip_replay.replay.outcomes import Variant

pytestmark = pytest.mark.property

LOOKAHEAD_US = 4_000_000
#: Both rules, and a sweep under which there are far more FETCHes than in the log.
RULES = variants([40])
INTERPRETED, COMPILED = 10**9, 0
KEYS = (
    ("variant", "parameter", "parameter_value", "leader_epoch", "replica_id", "sequence"),
    ("variant", "parameter", "parameter_value", "leader_epoch", "replica_id", "high_watermark"),
)

Tables = tuple[pa.Table, pa.Table]


@contextmanager
def short_lookahead() -> Iterator[None]:
    """Shorter than the log, so that short logs are replayed step by step as hours are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine_replay, "LOOKAHEAD_US", LOOKAHEAD_US)
        patch.setattr(oracle_replay, "LOOKAHEAD_US", LOOKAHEAD_US)
        yield


def tables(handed_out: Sequence[Outcomes]) -> Tables:
    """All rows, in order of their keys."""
    parking, lag = (
        pa.Table.from_batches([outcomes[i] for outcomes in handed_out]).sort_by(
            [(name, "ascending") for name in KEYS[i]]
        )
        for i in (0, 1)
    )
    return parking, lag


def by_oracle(
    node: int, voters: Iterable[int], log: Sequence[RecordedFetch], rules: list[Variant]
) -> Tables:
    oracle = Oracle(node, voters, rules)
    return tables([oracle.feed(batch_of(log)), oracle.finish()])


def in_pieces(
    node: int,
    voters: Sequence[int],
    pieces: Iterable[Sequence[RecordedFetch]],
    rules: list[Variant],
    mode: int = INTERPRETED,
) -> Tables:
    """Each piece by a replay of its own that goes on from what the last one saved."""
    replay, handed_out = HwmParking(node, voters, rules, compiled_from_rows=mode), []
    for piece in pieces:
        replay = HwmParking(node, voters, rules, replay.saved(), compiled_from_rows=mode)
        handed_out.append(replay.feed(batch_of(piece)))
    return tables([*handed_out, replay.finish()])


def in_one_go(
    node: int,
    voters: Sequence[int],
    log: Sequence[RecordedFetch],
    rules: list[Variant],
    mode: int = INTERPRETED,
) -> Tables:
    replay = HwmParking(node, voters, rules, compiled_from_rows=mode)
    return tables([replay.feed(batch_of(log)), replay.finish()])


@st.composite
def troubled_logs(draw: st.DrawFn) -> tuple[Cluster, list[RecordedFetch]]:
    """A cluster's log in which some answers are missing or errors, and the leader may resign."""
    cluster = draw(clusters())
    log = cluster.log()
    places = st.integers(0, max(0, len(log) - 1))
    for place in draw(st.lists(places, max_size=4)) if log else []:
        log[place] = refused(log[place], draw(st.sampled_from([NO_ANSWER, 3, 6])))
    if log and draw(st.booleans()):
        since = draw(places)
        log[since:] = [refused(row, 6) for row in log[since:]]
    return cluster, log


def refused(row: RecordedFetch, error_code: int) -> RecordedFetch:
    return row._replace(error_code=error_code, record_bytes=0, response_high_watermark=-1)


@given(troubled=troubled_logs())
@settings(max_examples=25, deadline=None)
def test_engine_gives_the_oracles_rows(
    troubled: tuple[Cluster, list[RecordedFetch]],
) -> None:
    cluster, log = troubled
    with short_lookahead():
        expected = by_oracle(1, cluster.voters, log, RULES)
        assert in_one_go(1, cluster.voters, log, RULES) == expected


@given(troubled=troubled_logs(), size=st.integers(1, 90))
@settings(max_examples=12, deadline=None)
def test_saved_and_gone_on_with_gives_the_same_rows(
    troubled: tuple[Cluster, list[RecordedFetch]], size: int
) -> None:
    cluster, log = troubled
    size = max(size, len(log) // 12)
    with short_lookahead():
        expected = by_oracle(1, cluster.voters, log, RULES)
        assert in_pieces(1, cluster.voters, list(cut(log, size)), RULES) == expected


@pytest.mark.golden
@pytest.mark.parametrize(("name", "node"), [("failover-4.0", 1), ("failover-4.0", 2)])
def test_recording_saved_and_gone_on_with_gives_the_oracles_rows(name: str, node: int) -> None:
    recorded = recording(name)
    log = recorded.fetches[node]
    expected = by_oracle(node, recorded.voters, log, RULES)
    assert in_pieces(node, recorded.voters, list(cut(log, 211)), RULES) == expected


@pytest.mark.golden
@pytest.mark.slow
def test_compiled_kernels_give_the_oracles_rows() -> None:
    """Compiling takes half a minute where numba has nothing in its cache."""
    for node in (1, 2):
        recorded = recording("failover-4.0")
        log = recorded.fetches[node]
        expected = by_oracle(node, recorded.voters, log, RULES)
        assert in_one_go(node, recorded.voters, log, RULES, COMPILED) == expected
        pieces = list(cut(log, 500))
        assert in_pieces(node, recorded.voters, pieces, RULES, COMPILED) == expected
        half = len(log) // 2
        switched = HwmParking(node, recorded.voters, RULES, compiled_from_rows=half)
        handed_out = [switched.feed(batch_of(piece)) for piece in pieces]
        assert tables([*handed_out, switched.finish()]) == expected


def test_short_logs_do_not_import_numba() -> None:
    said = subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys;"
            "from replay.hwm_parking import HwmParking, INPUT_SCHEMA, variants;"
            "HwmParking(1, [1], variants()).finish();"
            "print('numba' in sys.modules)",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.strip() == "False"


def test_state_is_a_span_of_the_log() -> None:
    """Two minutes of FETCHes at the most; on this recording all of it is that."""
    recorded = recording("failover-4.0")
    replay = HwmParking(2, recorded.voters, variants())
    log = recorded.fetches[2]
    replay.feed(batch_of(log))
    assert len(replay.saved()) < 400 * len(log)


def test_errors_of_an_epoch_that_was_never_led_are_rows_too() -> None:
    log = in_order([fetched(9, 0, 1, 15, error_code=3), fetched(9, 5, 6, 15, error_code=3)])
    parking, _ = in_one_go(1, (1, 2), log, variants())
    assert parking.column("completion").to_pylist() == ["error", "error"]
    assert parking == by_oracle(1, (1, 2), log, variants())[0]


def test_state_of_another_form_is_refused() -> None:
    saved = HwmParking(1, [1, 2], variants()).saved()
    version, state = msgspec.msgpack.decode(saved)
    other = msgspec.msgpack.encode([version + 1, state])
    with pytest.raises(ValueError, match="saved in form 2 can't be gone on with"):
        HwmParking(1, [1, 2], variants(), other)


def test_state_of_other_settings_is_refused() -> None:
    saved = HwmParking(1, [1, 2], variants()).saved()
    with pytest.raises(ValueError, match="of other voters or of other variants"):
        HwmParking(1, [1, 2, 3], variants(), saved)

"""min_isr_acks' summaries equal plain arithmetic on the same small tables."""

import pytest
from constructed import Key, Row, assert_same, keyed, spread
from constructed.produces import REACTION_ROWS, RECORDINGS, ROWS, STEPS, history, values
from small_tables import latencies

from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS
from kip_replay.replay.min_isr_acks.registration import RULE as MIN_ISR_ACKS
from kip_replay.replay.min_isr_acks.tables import PRODUCE_ACK_OUTCOMES, PRODUCE_CLOSED_LOOP_OUTCOMES
from kip_replay.replay.outcomes import RECORDED


@pytest.fixture(scope="module")
def summary() -> dict[Key, Row]:
    tables = {PRODUCE_ACK_OUTCOMES: ROWS, PRODUCE_CLOSED_LOOP_OUTCOMES: REACTION_ROWS}
    rows = latencies(STEPS, tables, RECORDINGS)
    assert {r["rule"] for r in rows} == {MIN_ISR_ACKS.name}
    key = "recording variant parameter parameter_value metric group_kind group_value"
    return keyed(rows, key.split())


def test_every_figure_of_latency_summary(summary: dict[Key, Row]) -> None:
    expected = {key: spread(of) for key, of in values().items()}
    assert len(expected) > 60
    assert_same(summary, expected)


def test_a_request_is_unknown_as_soon_as_a_partition_of_it_is(summary: dict[Key, Row]) -> None:
    """Also where the row of another partition has all its latencies."""
    of = ("none", -1, "produce_request_latency", "all", "all")
    per_partition = ("none", -1, "produce_latency", "all", "all")
    requests = len({r["request_id"] for r in history("three", 60_000)}) + 5
    found = summary["three", ACKS_ALL, *of]
    # Five PRODUCEs of one partition, and the one of two.
    assert (found["count"], found["unknown_count"]) == (requests - 6, 6)
    assert summary["three", ACKS_ALL, *per_partition]["unknown_count"] == 6
    assert summary["three", RECORDED, *of]["count"] == requests - 1


def test_what_is_refused_exposes_nothing_and_what_never_arrives_is_unknown(
    summary: dict[Key, Row],
) -> None:
    of = ("none", -1, "exposure", "topic_partition", "t-3")
    found = summary["two", ACKS_MIN_INSYNC_REPLICAS, *of]
    # Of four, one is refused and one timed out before the whole ISR had it.
    assert (found["count"], found["unknown_count"]) == (2, 1)


def test_a_sweep_has_the_early_answer_only(summary: dict[Key, Row]) -> None:
    swept = {key for key in summary if key[2] != "none"}
    assert {key[1] for key in swept} == {ACKS_MIN_INSYNC_REPLICAS}
    assert {key[3] for key in swept} == {1, 3}
    of = ("min_insync_replicas", 3, "produce_latency", "all", "all")
    found = summary["two", ACKS_MIN_INSYNC_REPLICAS, *of]
    assert (found["p50_ms"], found["p99_ms"], found["unknown_count"]) == (7.5, 7.5, 1)

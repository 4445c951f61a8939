"""lowest_acked_offset's summaries equal plain arithmetic on the same small tables."""

from constructed import assert_same, keyed, spread
from constructed.writes import RECORDINGS, STEPS, WRITES, values
from small_tables import latencies

from kip_replay.replay.lowest_acked_offset import (
    ESTIMATED,
    FINEST_EVIDENCE,
    HEARTBEAT_INTERVAL,
    LOWEST_ACKED,
)
from kip_replay.replay.lowest_acked_offset.tables import METADATA_WRITE_OUTCOMES


def test_every_figure_of_latency_summary() -> None:
    rows = latencies(STEPS, {METADATA_WRITE_OUTCOMES: WRITES}, RECORDINGS)
    key = "recording variant parameter parameter_value metric group_kind group_value"
    expected = {key: spread(of) for key, of in values(WRITES).items()}
    assert_same(keyed(rows, key.split()), expected)
    assert {(key[1], key[2]) for key in expected} == {
        (LOWEST_ACKED, "none"),
        (LOWEST_ACKED, HEARTBEAT_INTERVAL),
        (ESTIMATED, "none"),
        (FINEST_EVIDENCE, "none"),
        ("with_kip_1166", HEARTBEAT_INTERVAL),
    }
    of_plain = expected["r", LOWEST_ACKED, "none", -1, "stale_window", "all", "all"]
    assert (of_plain["count"], of_plain["unknown_count"]) == (38, 3)

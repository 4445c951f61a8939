"""What the figures say of rows: sums, orders, and nothing where the tables have nothing."""

from dataclasses import replace

from report_examples import CLASSES, acks, event, fetch, hwm, lowest, spread, verdict

from kip_replay.pipelines.page import accuracy
from kip_replay.pipelines.page.values import Doubt, Traffic
from kip_replay.pipelines.rules.hwm_parking.figures import Protocol
from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP
from kip_replay.replay.outcomes import RECORDED


def test_doubts_leave_out_what_was_replayed_and_add_up_variants() -> None:
    verdicts = [verdict("full", 9), verdict("full", 2, "why"), verdict("full", 3, "why")]
    one = CLASSES[1]("one", rows={"verdicts": verdicts})
    assert one.doubts == [Doubt("what", "unknown", "why", {"full": 5})]


def test_traffic_adds_up_over_kinds_of_clients() -> None:
    one = Traffic(120, 120, 240, 240, 12_000, 12_000, 3_000, 4, 60.0)
    total = replace(fetch(), traffic={("full", k, None): one for k in "ab"}).total("full")
    assert total == Traffic(240, 240, 480, 480, 24_000, 24_000, 6_000, 8, 60.0)
    assert total.request_partitions_mean == total.response_partitions_mean == 2.0
    assert total.rates == (4.0, 800.0, 400.0, 300.0, 700.0)
    assert Traffic().rates.fetches is Traffic().request_partitions_mean is None
    assert fetch().total("someday") is None


def test_protocol_and_responses_are_those_of_recorded_fetches() -> None:
    one, other, nothing = hwm(), hwm(own=Protocol.WITH), CLASSES[0]("nothing")
    assert (one.protocol, one.sources) == (Protocol.WITHOUT, (RECORDED, WITH_KIP))
    assert (other.protocol, other.sources) == (Protocol.WITH, (WITHOUT_KIP, RECORDED))
    assert nothing.protocol is Protocol.UNKNOWN  # type: ignore[attr-defined]
    # Responses to which the rule does not apply are not judged.
    assert one.judged == (4, 800)
    assert one.swept == [100]


def test_sessions_and_slots() -> None:
    one = fetch()
    late = replace(one, rows={**one.rows, "events": [event("refused", 7, 4), event("closed", 3)]})
    assert (one.fetches, one.compared, one.unknown("full")) == (700, (590, 600), 5)
    assert one.kinds == ["follower", "consumer"]
    # Whether sessions were used is what was recorded, not what was replayed.
    assert one.uses_sessions
    assert late.swept == [0, 4, 8, 16]
    assert (late.events(), late.events(4), late.events(8)) == ({"closed": 3}, {"refused": 7}, {})


def test_waits_of_producers_and_leaders() -> None:
    one = acks()
    nine = ("closed_loop_latency", RECORDED, "node_id", "9", None)
    assert (one.produced, one.waited) == (300, 200)
    assert replace(one, spreads={**one.spreads, nine: spread(1.0)}).leaders == ["9", "11", "12"]
    assert (one.exposure(), one.exposure(1)) == (spread(113.6), None)
    assert CLASSES[2]("nothing").medians is None  # type: ignore[attr-defined]


def test_writes_by_variant_and_api() -> None:
    one = lowest()
    busy = ("stale_window", "lowest_acked_offset", "api_name", "ALTER_CONFIGS", None)
    assert one.writes == 120
    assert one.variants(swept=True) == {WITHOUT_KIP, WITH_KIP}
    # Those with the most writes first.
    assert replace(one, spreads={**one.spreads, busy: spread(1.0, count=900)}).apis == [
        "ALTER_CONFIGS",
        "CREATE_TOPICS",
        "INCREMENTAL_ALTER_CONFIGS",
    ]


def test_checks_are_ordered_by_rule_then_pair() -> None:
    names = ("rule", "predicted_from", "recorded_in")
    found = [
        ("min_isr_acks", "b", "b"),
        ("hwm_parking", "b", "a"),
        ("hwm_parking", "b", "b"),
        ("hwm_parking", "a", "a"),
    ]
    rest = dict.fromkeys(accuracy.Check.__dataclass_fields__)
    rest |= dict.fromkeys(("variant", "metric", "group_kind", "group_value"), "")
    rows = [{**rest, **dict(zip(names, of_one, strict=True))} for of_one in found]
    checks = accuracy.checks(rows, ["hwm_parking", "min_isr_acks"], ["a", "b"])
    assert [(c.rule, c.predicted_from, c.recorded_in) for c in checks] == [
        ("hwm_parking", "a", "a"),
        ("hwm_parking", "b", "b"),
        ("hwm_parking", "b", "a"),
        ("min_isr_acks", "b", "b"),
    ]


def test_sentences_on_no_checks() -> None:
    assert accuracy.sentence([]) == "No prediction was held against a recording."
    assert accuracy.baseline_sentence([]) is None

"""Decisions: every reason once, from rows made by hand; a recording for each."""

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from put_rows import Row, contents, put, row

from kip_replay.jobs import report
from kip_replay.jobs._cli import read_config
from kip_replay.pipelines.analysis.decide import decide, wanted
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.report.pages import read_pages
from kip_replay.pipelines.report.words import is_known, within
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.steps import Covered
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.incremental_fetch.streams import Unknown
from kip_replay.replay.log_gaps import LOG_GAP
from kip_replay.replay.rule import CLOCKS_DIFFER
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

CONFIG = read_config(None, [])
Rows = list[tuple[str, Row]]
METADATA, SESSIONS = "hwm_parking", "incremental_fetch"
ACKS, WRITES = "min_isr_acks", "lowest_acked_offset"
LAG = "high_watermark_lag_at_any_moment"


def of(table: str, times: int = 1, **values: Any) -> Rows:
    """Rows of a table, each with a request of its own."""
    ids = {"sequence", "request_id"} & TABLES[table].names
    return [(table, {**dict.fromkeys(ids, n), **values}) for n in range(times)]


def outcomes(table: str, rule: str, variant: str, times: int = 1, **values: Any) -> Rows:
    return of(table, times, **{"rule": rule, "variant": variant, "verdict": "replayed"} | values)


def figure(rule: str, metric: str, figure: str, variants: Sequence[str], **values: Any) -> Rows:
    sides = dict(zip(("before_variant", "after_variant"), variants, strict=True))
    usual = {"group_kind": "all", "group_value": "all", "unit": "ms", "count": 99, **sides}
    named = {"rule": rule, "metric": metric, "figure": figure}
    return of("paired_differences", **usual | named | values)


# --- KIP-1166: brokers learn 300 ms sooner, for 10 FETCHes a second more

FETCH = outcomes("fetch_parking_outcomes", METADATA, "recorded", 3)
BOTH = ("without_kip_1166", "with_kip_1166")
WITH = [(name, {**one, "replica_high_watermark": 1}) for name, one in FETCH]


def lag(low: float | None = -310.0, high: float | None = -290.0, **values: Any) -> Rows:
    usual = {"group_kind": "replica_kind", "group_value": "broker", "before": 301.0, "after": 1.0}
    ends = {"low": low, "high": high}
    return figure(METADATA, LAG, "p50", BOTH, **usual | ends | values)


def more(low: float | None = 9.0, high: float | None = 11.0, **values: Any) -> Rows:
    ends = {"unit": "/s", "before": 10.0, "after": 20.0, "low": low, "high": high} | values
    fetches = figure(METADATA, "fetches", "per_second", BOTH, **ends)
    return fetches + figure(METADATA, "bytes", "per_second", BOTH, **ends | {"unit": "B/s"})


UPGRADE = FETCH + lag() + more()
OLD = {"api_name": "PRODUCE", "api_version": 2, "client_id": "old", "connection": "a:1-b:2-0-0"}
CLIENTS = of("requests", 3, **OLD) + of("requests", **OLD | {"client_id": "new", "api_version": 3})


def missed(relative_error: float | None) -> Rows:
    """A self-check of the lag that passed, and one that did not."""
    check = {"rule": METADATA, "variant": "x", "metric": f"{LAG}_p50", "unit": "ms"}
    check |= {"kind": "self_check", "tolerance": 2.0, "is_enough": True, "group_kind": "node_id"}
    ended = {"1": (True, 9.0), "2": (False, relative_error and -relative_error)}
    return [
        each
        for node, (passed, error) in ended.items()
        for each in of(
            "prediction_accuracy", group_value=node, passed=passed, relative_error=error, **check
        )
    ]


def unknown(reason: str, times: int = 1) -> Rows:
    of_lag = {"verdict": "unknown", "reason": reason}
    return outcomes("high_watermark_lag", METADATA, "with_kip_1166", times, **of_lag)


def failed(expectation: str, table: str) -> Rows:
    of_check = {"expectation": expectation, "table_name": table, "severity": "critical"}
    return of("quality_results", **of_check, success=False, failing_rows=3, says="no such row")


COUNTS = dict.fromkeys(("lines_read", "requests", "other", "rejected", "repeated"), 0)
READ = of("ingested_files", node_id=1, **COUNTS)
MANY = unknown("a") + unknown("b", 2)
SUMMED = of("bandwidth_summary", rule=METADATA, node_id=2)
DAMAGED = of("ingested_files", node_id=2, **COUNTS, damage="ends in the middle")

# --- KIP-227


def sessions(held: int = 0, **counted: int) -> Rows:
    """FETCHes in sessions, refused and evicted, and how many sessions a shard held at once."""
    sent = {"is_cluster_metadata": False, "session_epoch": 0, "error_code": 0}
    sent |= {"response_session_id": 0}
    steps = [{"session_key": f"{n}", "event": "created", "event_at": AT} for n in range(held)]
    steps.append({"session_key": "0", "event": "closed", "event_at": AT + timedelta(seconds=1)})
    fetches = outcomes("fetch_session_outcomes", SESSIONS, "incremental", client_kind="x")
    if counted.get("used"):
        fetches += outcomes("fetch_session_outcomes", SESSIONS, "recorded", is_full=False)
    if "slots" in counted:
        name = "max.incremental.fetch.session.cache.slots"
        slots = {"name": name, "value": str(counted["slots"]), "operation": "describe"}
        fetches += of("configs", resource_type="broker", **slots)
    of_shard = {"variant": "incremental", "node_id": 1, "shard": 1, "rule": SESSIONS}
    return (
        fetches
        + [each for step in steps for each in of("fetch_session_evictions", **of_shard, **step)]
        + of("fetches", counted.get("used", 0), **sent | {"session_epoch": 7})
        + of("fetches", **sent | {"session_epoch": -1})  # requests none
        + of("fetches", counted.get("refused", 0), **sent)
        + of("fetches", counted.get("evicted", 0), **sent | {"error_code": 70})
    )


BEGAN = {"verdict": "unknown", "reason": Unknown.BEGAN_BEFORE_LOG.value, "node_id": 1}
OLDER = [
    each
    for key in "abc"
    for each in outcomes(
        "fetch_session_outcomes", SESSIONS, "incremental", session_key=key, **BEGAN
    )
]


def saved(low: float, high: float) -> Rows:
    ends = {"low": low, "high": high, "before": 9000.0, "after": 3000.0, "unit": "B/s"}
    return figure(SESSIONS, "bytes", "per_second", ("full", "incremental"), **ends)


# --- the drafts


def produces(latency: float) -> Rows:
    """PRODUCEs whose responses came as with acks=all, or with its draft."""
    late = {"request_acks_all_latency_ms": 200.0, "request_min_isr_latency_ms": 10.0}
    late |= {"request_recorded_latency_ms": latency, "acks": -1, "min_insync_replicas": 2}
    return outcomes("produce_ack_outcomes", ACKS, "x", **late, isr=[1, 2, 3])


def waits(sent: str = "", **other: float) -> Rows:
    ends = {"low": -199.0, "high": -180.0, "before": 200.0, "after": 10.0} | other
    sides = ("acks_all", "acks_min_insync_replicas")
    return figure(ACKS, f"closed_loop_latency{sent}", "p50", sides, **ends)


OF_T = {"topic": "t", "partition": 0}
DOWN = of("isr_changes", **OF_T, replicas=[1, 2, 3], isr=[1, 2])
DOWN += [(name, {**one, **OF_T, "isr": [1, 2]}) for name, one in produces(200.0)]


def alone(rule: str, metric: str, variant: str, value: float, within: float | None) -> Rows:
    """A figure that there is nothing of without the change, or with it; of few if None."""
    by = [] if within is None else [("low", -within), ("high", within)]
    ends = {f"{p}_{end}_ms": value + of for p in P for end, of in by}
    named = {"rule": rule, "metric": metric, "variant": variant, "count": 99}
    group = {"group_kind": "all", "group_value": "all"}
    return of("latency_summary", **named, **group, **ends, **{f"{p}_ms": value for p in P})


def stale(value: float, within: float | None) -> Rows:
    return alone(WRITES, "stale_window", "estimated", value, within)


P = ("p50", "p90")
AT = datetime(2026, 11, 20, tzinfo=UTC)
WRITE = outcomes("metadata_write_outcomes", WRITES, "lowest_acked_offset")
OF_WRITE = {"stale_window_ms": 515.0, "parameter": "none"}
WRITTEN = outcomes("metadata_write_outcomes", WRITES, "estimated", 30, **OF_WRITE)
PROVEN = alone(WRITES, "read_after_write", "lowest_acked_offset", 3000.0, 100.0)
ANY_MOMENT = alone(WRITES, "stale_window_at_any_moment", "estimated", 300.0, 100.0)
EXPOSED = alone(ACKS, "exposure", "acks_min_insync_replicas", 60.0, 9.0)


#: The advice of each reason; of what is worth it in no release, that.
ADVICE = {
    **dict.fromkeys(("worth_it", "to_mend"), "do it"),
    **dict.fromkeys(("too_little", "too_dear"), "don't"),
    **dict.fromkeys(("unknown", "damaged", "node_missing", "checks_failed"), "withheld"),
    "self_check": "withheld",
    "in_use": "already in use",
}
#: By recording a rule, the reason of what is decided on it, and the rows that this follows from.
CASES = {
    "upgrade": (METADATA, "worth_it", UPGRADE + failed("log_has_no_gap", "log_gaps")),
    "old clients": (METADATA, "worth_it", UPGRADE + CLIENTS),
    "few": (METADATA, "too_short", FETCH + lag(None, None) + more() + MANY),
    "nobody knows": (METADATA, "too_short", FETCH + lag(after=None) + more()),
    "half unknown": (METADATA, "unknown", FETCH + lag(unknown_count=99) + more() + MANY),
    "a fifth unknown": (METADATA, "worth_it", FETCH + lag(unknown_count=24) + more() + MANY),
    "half of the price": (METADATA, "unknown", FETCH + lag() + more(unknown_count=99)),
    "nothing": (METADATA, "no_requests", []),
    "growing": (METADATA, "still_growing", FETCH),
    "runs it": (METADATA, "in_use", WITH + lag() + missed(0.9)),
    "runs it, no figures": (METADATA, "in_use", WITH),
    "mixed": (METADATA, "worth_it", [*FETCH, *WITH, *lag(), *more()]),
    "off by 10 %": (METADATA, "worth_it", UPGRADE + missed(0.1)),
    "on the limit": (METADATA, "on_the_limit", FETCH + lag(-90.0, -60.0) + more() + missed(0.1)),
    "off by 26 %": (METADATA, "self_check", UPGRADE + missed(0.26)),
    "predicts nothing": (METADATA, "self_check", UPGRADE + missed(None)),
    "gaps": (METADATA, "damaged", UPGRADE + unknown(CLOCKS_DIFFER, 2) + unknown("a", 98)),
    "hardly a gap": (METADATA, "worth_it", UPGRADE + unknown(LOG_GAP) + unknown("a", 99)),
    "damaged log": (METADATA, "node_missing", UPGRADE + SUMMED + DAMAGED),
    "failed": (METADATA, "checks_failed", UPGRADE + failed("x", "high_watermark_lag")),
    "refused": (SESSIONS, "to_mend", sessions(70, refused=3, evicted=2, used=9, slots=8)),
    "evicted": (SESSIONS, "to_mend", sessions(70, evicted=2, used=9, slots=80)),
    "restarted": (SESSIONS, "in_use", sessions(70, evicted=2, used=9)),
    "older": (SESSIONS, "in_use", sessions(2, used=9) + OLDER),
    "no session": (SESSIONS, "worth_it", sessions() + saved(-7000.0, -5000.0)),
    "saves nothing": (SESSIONS, "too_little", sessions() + saved(-999.0, 0.0)),
    "produces": (ACKS, "worth_it", produces(200.0) + waits() + EXPOSED),
    "cold": (ACKS, "worth_it", produces(200.0) + waits("_sent_latest") + EXPOSED),
    "one is down": (ACKS, "too_little", DOWN + waits(low=-1.0, high=1.0) + EXPOSED),
    "runs the draft": (ACKS, "in_use", produces(10.0)),
    "stale": (WRITES, "worth_it", WRITE + stale(300.0, 100.0)),
    "hardly stale": (WRITES, "too_little", WRITE + stale(30.0, 10.0)),
    "waiting is shorter": (WRITES, "too_dear", WRITE + WRITTEN + stale(300.0, 100.0) + PROVEN),
    "few writes": (WRITES, "worth_it", WRITE + stale(30.0, None) + ANY_MOMENT),
    "enough writes": (WRITES, "too_little", WRITE + stale(30.0, 10.0) + ANY_MOMENT),
}
#: The whole of an interval must lie on one side of its limit.
GAINS = {(-70, -50): "worth_it", (-70, -49): "on_the_limit"}
GAINS |= {(-50, -50): "worth_it", (-49, 0): "too_little"}
PRICES = {(0, 1000): "worth_it", (999, 1001): "on_the_limit"}
PRICES |= {(1000, 1000): "worth_it", (1001, 1002): "too_dear"}
CASES |= {f"gain {of}": (METADATA, GAINS[of], FETCH + lag(*of) + more()) for of in GAINS}
CASES |= {f"price {of}": (METADATA, PRICES[of], FETCH + lag() + more(*of)) for of in PRICES}
#: What sentences say, besides what those of the samples do.
PHRASES = {
    "old clients": "upgrade the clients that Kafka would no longer serve: 1 of 2 in these logs",
    "few": "Too little data: the steady phase is shorter than 10 s, or too many moments between "
    "two advances of the high watermark are unknown.",
    "half unknown": "For 50.0 % of the changes, or of the FETCHes, the logs don’t show what would "
    "have happened. Record the logs of all controllers, for longer. Most often: b.",
    "older": "No session was refused. A broker has at least 3 sessions at once.",
    "one is down": "Broker 3 was not in the ISR for 100 % of these writes, so acks=all waited "
    "for no more replicas than min.insync.replicas",
    "waiting is shorter": "a retry 515 ms after the response would have seen each of the 30 "
    "writes.",
    "growing": "Run again later, or close the recording with --final.",
    "runs it": "would reach brokers after 301 ms instead of 1.0 ms (estimated: too few",
    "few writes": "serves stale metadata for 300 ms after the response to a change (estimated",
    "enough writes": "serves stale metadata for 30.0 ms after the response to a change (median of",
    "off by 26 %": "The replay of what this cluster ran is off by 26 %",
    "gaps": "2.0 % of the outcomes rest on missing lines",
    "damaged log": "The log of node 2 is missing or damaged",
    "failed": "Checks of high_watermark_lag failed",
    "refused": "Set max.incremental.fetch.session.cache.slots to 1120: 3 session requests refused, "
    "2 sessions evicted. A broker has 8 slots and at most 70 sessions at once; 560 slots would "
    "be enough. Brokers read the setting when they start, so it takes a rolling restart.",
    "restarted": "No session was refused. A broker has at most 70 sessions at once.",
}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    made = Warehouse(tmp_path_factory.mktemp("decisions"))
    rows: dict[Table, list[Row]] = defaultdict(list)
    for name, (_, _, made_of) in CASES.items():
        for table, values in [*made_of, *READ]:
            usual: Row = {"parameter": "none"} if "parameter" in TABLES[table].names else {}
            if table == "prediction_accuracy":
                usual |= {"predicted_from": name, "recorded_in": name}
            values = {key: f"{v}" if key == "request_id" else v for key, v in values.items()}
            rows[TABLES[table]].append(row(TABLES[table], name, **usual | values))
    put(made, "all", rows)
    growing = made.writing(METADATA, ["growing"], [])
    growing.begin()
    growing.end({"growing": str(Covered(identity="rule", is_growing=True))})
    decide(Local(made), [*CASES], RULES, CONFIG)
    return made


@pytest.fixture(scope="module")
def decisions(warehouse: Warehouse) -> Mapping[str, Mapping[str, Any]]:
    pages = read_pages(warehouse, [*CASES], is_drawn=False)
    return {page["recording"]: page["rules"] for page in pages}


@pytest.mark.parametrize("name", CASES)
def test_a_reason_for_each(name: str, decisions: Any) -> None:
    rule, reason, _ = CASES[name]
    found = decisions[name][rule]
    is_draft = reason == "worth_it" and rule in (ACKS, WRITES)
    advice = "in no release yet" if is_draft else ADVICE.get(reason, "not enough data")
    assert (found["advice"], found["reason"]) == (advice, reason)
    assert PHRASES.get(name, "") in " ".join([found["sentence"], *found["more"]])
    assert bool(found["paste"]) == (found["advice"] == "do it")
    # What to do, and what for.
    assert found["advice"] != "do it" or re.match("(Upgrade|Set) .+: ", found["sentence"])
    others = {other["reason"] for of, other in decisions[name].items() if of != rule}
    assert others == {"no_requests"}


def test_what_is_pasted_has_room(decisions: Any) -> None:
    """Twice as many slots as are enough, as many in each shard, and never fewer than there are."""
    pasted = [decisions[name][SESSIONS]["paste"] for name in ("refused", "evicted")]
    assert pasted[0].endswith("\nmax.incremental.fetch.session.cache.slots=1120")
    assert pasted[0].startswith("# server.properties of every broker")
    assert decisions["no session"][SESSIONS]["paste"].endswith("=1000")


def test_a_headline_names_its_limit_and_its_self_check(decisions: Any) -> None:
    found = decisions["off by 10 %"][METADATA]
    gain = found["gain"]
    assert (gain["before"], gain["after"], gain["difference"]) == (301.0, 1.0, -300.0)
    assert (gain["low"], gain["high"]) == (pytest.approx(-340.1), pytest.approx(-259.9))
    assert within(gain) == "260 to 340 ms"
    assert found["rests_on"] == [
        "hwm_parking.decide_saved_ms_min = 50",
        "hwm_parking.decide_more_fetches_per_second_max = 1,000",
        "hwm_parking.decide_more_bytes_per_second_max = 1,000,000",
        f"self-check {LAG}_p50: 1 of 2 pass, others are off by up to 10 %",
    ]


def test_what_is_unknown_is_beside_the_figure_or_withholds_it(decisions: Any) -> None:
    shown, withheld = (
        decisions[name][METADATA]["gain"] for name in ("a fifth unknown", "half unknown")
    )
    assert within(shown) == "290 to 310 ms; 24 of 123 unknown"
    assert is_known(shown)
    assert not is_known(withheld)
    assert (withheld["after"], withheld["unknown_count"]) == (None, 99)


def test_decisions_follow_from_their_limits(tmp_path: Path) -> None:
    def made(config: Any) -> str:
        return str(wanted(Warehouse(tmp_path), ["r"], RULES, config)["r"])

    limited = [
        (name, key) for name in ("report", *(rule.name for rule in RULES)) for key in CONFIG[name]
    ]
    assert len(limited) >= 9
    for name, key in limited:
        assert made({**CONFIG, name: {**CONFIG[name], key: 0.125}}) != made(CONFIG)


def test_a_report_under_other_limits_writes_no_table(
    warehouse: Warehouse, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = contents(warehouse.path)
    command = ["upgrade", "--warehouse", warehouse.path, "--format", "text"]
    said = []
    for limit in ("290", "291"):
        set_to = ["--set", f"hwm_parking.decide_saved_ms_min={limit}"]
        assert report.main([*command, *set_to]) == 0
        said.append(capsys.readouterr().out)
    assert "do it. Upgrade to Kafka 4.1" in said[0]
    assert "not enough data. Too uncertain (290 to 310 ms, limit 291). Record" in said[1]
    assert contents(warehouse.path) == before

"""Each figure of a verdict, computed again from the outcome tables by other queries."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import duckdb
import pytest
from report_examples import CONFIG, plain

from kip_replay.pipelines.page.decisions import Advice, Decision, Effect
from kip_replay.pipelines.report.data import read_report
from kip_replay.pipelines.report.pages import pages
from kip_replay.pipelines.warehouse.tables import Warehouse

NAMES = ("failover-4.0", "freeze-4.1")
Found = dict[tuple[str, str], Decision]


def decisions_of(warehouse: Warehouse, names: Sequence[str]) -> Found:
    made = pages(read_report(warehouse, names), CONFIG)
    return {
        (section.prose.rule, name): decision
        for page in made
        for section in page.sections
        for name, decision in section.decisions.items()
    }


class Tables:
    """One recording's tables; the steady phase by its heartbeats."""

    def __init__(self, database: duckdb.DuckDBPyConnection, name: str) -> None:
        self._database, self.name = database, name
        unfenced = self.rows(
            "SELECT broker_id, min(epoch_us(built_at)) FROM broker_heartbeats "
            "WHERE error_code = 0 AND NOT is_fenced GROUP BY broker_id"
        )
        stopped = self.rows(
            "SELECT min(epoch_us(received_at)) FROM broker_heartbeats WHERE want_shut_down"
        )
        (ends,) = self.rows(
            "SELECT min(epoch_us(received_at)), max(epoch_us(completed_at)) + 1 FROM requests"
        )
        self.begin = max((at for _, at in unfenced), default=ends[0])
        self.end = stopped[0][0] or ends[1]
        self.span_s = (self.end - self.begin) / 1e6

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows of a query on this recording."""
        of = f"recording = '{self.name}'"
        head, where, rest = query.partition(" WHERE ")
        if where:
            query = f"{head} WHERE {of} AND {rest}"
        else:
            head, group, rest = query.partition(" GROUP BY ")
            query = f"{head} WHERE {of}{group}{rest}"
        return self._database.execute(query, values).fetchall()

    def percentile(self, share: float, query: str, *values: object) -> float | None:
        """The value at rank floor(share * (n - 1)) of (value, reason) rows: one with a reason is
        unknown and ranks last. None where that one is, or without any."""
        found = self.rows(query, *values)
        ranked = sorted(math.inf if of is None or why else round(of, 3) for of, why in found)
        at = ranked[math.floor(share * (len(ranked) - 1))] if ranked else math.inf
        return at if math.isfinite(at) else None


@pytest.fixture(scope="module")
def decided(finished: Warehouse) -> Found:
    return decisions_of(finished, NAMES)


@pytest.fixture(scope="module")
def database(finished: Warehouse) -> Iterator[duckdb.DuckDBPyConnection]:
    with finished.database(NAMES) as connection:
        yield connection


def same(effect: Effect | None, before: float | None, after: float | None) -> None:
    """An effect has these ends, and none is there unless both are known."""
    if before is None or after is None:
        assert effect is None
        return
    assert effect is not None
    assert (effect.before, effect.after) == pytest.approx((before, after), rel=1e-9)
    if effect.less_within is not None:
        assert effect.less_within.low <= effect.less <= effect.less_within.high


def per_second(tables: Tables, table: str, variant: str) -> tuple[float, float]:
    """FETCHes a second of the steady phase that were replayed, and their bytes both ways; a
    response that was built after the phase has none in it."""
    found = tables.rows(
        f"SELECT request_bytes, response_bytes, epoch_us(built_at) FROM {table} "
        "WHERE parameter = 'none' AND variant = ? "
        "AND epoch_us(dequeued_at) >= ? AND epoch_us(dequeued_at) < ? "
        "AND (verdict = 'replayed' OR rule = 'hwm_parking' AND reason LIKE 'lines of a log%')",
        *(variant, tables.begin, tables.end),
    )
    size = sum(
        (request or 0) + ((response or 0) if built and built < tables.end else 0)
        for request, response, built in found
    )
    return len(found) / tables.span_s, size / tables.span_s


def check_metadata(tables: Tables, decision: Decision) -> None:
    """KIP-1166: the lag of brokers, and FETCHes and bytes a second on the active controller."""
    ((fetches, with_kip),) = tables.rows(
        "SELECT count(*), count(*) FILTER (api_version >= 18) FROM fetches "
        "WHERE is_cluster_metadata"
    )
    if not fetches:
        assert decision.advice is Advice.NOT_ENOUGH
        return
    variants = ["without_kip_1166", "with_kip_1166"]
    if with_kip in (0, fetches):
        variants[with_kip == fetches] = "recorded"
    assert (decision.advice is Advice.NOTHING) == (with_kip == fetches)
    lags = [
        tables.percentile(
            0.5,
            "SELECT lag_ms, reason FROM high_watermark_lag WHERE parameter = 'none' "
            "AND phase = 'steady' AND NOT is_voter AND verdict <> 'not_applicable' AND variant = ?",
            variant,
        )
        for variant in variants
    ]
    same(decision.gain, *lags)
    rates = [per_second(tables, "fetch_parking_outcomes", variant) for variant in variants]
    for price, ends in zip(decision.price, zip(*rates, strict=True), strict=True):
        same(price, *ends)


def check_sessions(tables: Tables, decision: Decision) -> None:
    """KIP-227: bytes a second, sessions refused and evicted, the peak, the slots to paste."""
    full, few = (
        per_second(tables, "fetch_session_outcomes", variant)[1]
        for variant in ("full", "incremental")
    )
    if not (full and few):
        assert decision.advice is Advice.NOT_ENOUGH
        return
    same(decision.gain, full, few)
    sent = tables.rows(
        "SELECT error_code, session_epoch, response_session_id FROM fetches "
        "WHERE NOT is_cluster_metadata"
    )
    evicted = sum(error == 70 for error, _, _ in sent)
    refused = sum((error, epoch, session) == (0, 0, 0) for error, epoch, session in sent)
    uses = any(epoch > 0 for _, epoch, _ in sent)
    if uses:
        assert decision.advice is (Advice.DO if refused or evicted else Advice.NOTHING)
    steps = tables.rows(
        "SELECT node_id, shard, event, epoch_us(event_at) FROM fetch_session_evictions "
        "WHERE parameter = 'none' AND event <> 'refused'"
    )
    steps.sort(key=lambda step: (step[3], step[2] == "created"))
    held: Counter[int] = Counter()
    of_shard: Counter[tuple[int, int]] = Counter()
    peak = fewest = 0
    for node, shard, event, _ in steps:
        step = 1 if event == "created" else -1
        held[node] += step
        of_shard[node, shard] += step
        peak, fewest = max(peak, held[node]), max(fewest, 8 * of_shard[node, shard])
    assert f"at most {peak} session{'s' * (peak != 1)} at once" in plain(decision.reason)
    if decision.advice is Advice.DO:
        assert decision.paste.endswith(f"={max(1000, 2 * fewest)}")


def check_produces(tables: Tables, decision: Decision) -> None:
    """KIP-926: how long producers that react wait, and how long records are exposed."""
    waits = [
        tables.percentile(
            0.5,
            "SELECT latency_ms, reason FROM produce_closed_loop_outcomes "
            "WHERE parameter = 'none' AND variant = ?",
            variant,
        )
        for variant in ("acks_all", "acks_min_insync_replicas")
    ]
    same(decision.gain, *waits)
    exposed = tables.percentile(
        0.9,
        "SELECT exposure_ms, reason FROM produce_ack_outcomes WHERE parameter = 'none' "
        "AND (verdict = 'unknown' OR verdict = 'replayed' AND min_isr_error = 0)",
    )
    if decision.gain is not None:
        same(decision.price[0] if decision.price else None, None if exposed is None else 0, exposed)


def check_writes(tables: Tables, decision: Decision) -> None:
    """The draft: the stale window, and how long until it is known to be over."""

    def median(column: str, variant: str) -> float | None:
        return tables.percentile(
            0.5,
            f"SELECT {column}, CASE WHEN verdict = 'unknown' AND {column} IS NULL THEN reason END "
            "FROM metadata_write_outcomes WHERE parameter = 'none' AND verdict <> 'not_applicable' "
            "AND variant = ? AND epoch_us(received_at) >= ? AND epoch_us(received_at) < ?",
            *(variant, tables.begin, tables.end),
        )

    windows = (median("stale_window_ms", variant) for variant in VARIANTS)
    window = next((of for of in windows if of is not None), None)
    same(decision.gain, window, None if window is None else 0)
    if window is not None:
        wait = median("read_after_write_ms", "lowest_acked_offset")
        same(decision.price[0] if decision.price else None, None if wait is None else 0, wait)


#: Whose stale window is taken, the first that is known.
VARIANTS = ("estimated", "finest_evidence", "lowest_acked_offset")
CHECKS = {
    "hwm_parking": check_metadata,
    "incremental_fetch": check_sessions,
    "min_isr_acks": check_produces,
    "lowest_acked_offset": check_writes,
}


@pytest.mark.golden
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("rule", CHECKS)
def test_figures_of_verdicts_are_those_of_the_tables(
    rule: str, name: str, decided: Found, database: duckdb.DuckDBPyConnection
) -> None:
    CHECKS[rule](Tables(database, name), decided[rule, name])


@pytest.mark.golden
def test_what_is_advised_on_these(decided: Found) -> None:
    """Whose figures are above: a cluster without KIP-1166, and one that runs it."""
    advice = {key: decision.advice for key, decision in decided.items()}
    assert advice["hwm_parking", "failover-4.0"] is Advice.DO
    assert advice["hwm_parking", "freeze-4.1"] is Advice.NOTHING
    assert advice["min_isr_acks", "freeze-4.1"] is Advice.NOT_ENOUGH

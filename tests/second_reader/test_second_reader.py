"""What is said of recordings against a second reader: both agree, or a reason is named here."""

import json
from decimal import Decimal
from math import isclose
from pathlib import Path
from typing import Any

import pytest
from second_reader.reader import Recording, Rows
from small_logs import PLACES, folder_of

import kip_replay
from kip_replay.pipelines.warehouse.tables import Warehouse

_SAMPLES, _OTHERS = (sorted(path.name for path in place.iterdir()) for place in PLACES)
#: Figures that differ, why, and of which recordings.
_DIFFERENT = {
    ("slowest_replicas", "brokers with the draft wait for no such follower: they would"): """
        acks-open-minisr acks-varying-open-minisr""",
    ("across_zones", "before is of the broker that is the busiest after"): "racks-leader",
}
#: What is estimated from stamps, or shared out: relative and absolute tolerance.
_CLOSE = {"slowest_replicas": (0.05, 20), "findings": (0.05, 0)}
#: What the tables and views of the product say, with the columns of the reader.
_SAID = {
    "nodes": """SELECT node_id, sum(lines_read), sum(requests), min(epoch_us(first_received_at)),
          max(epoch_us(last_completed_at))
        FROM ingested_files WHERE recording = $name GROUP BY ALL""",
    "usage": """SELECT principal, client_id, api_name, sum(requests),
          coalesce(sum(request_bytes), 0), coalesce(sum(response_bytes), 0), sum(record_bytes),
          sum(errors)
        FROM usage WHERE recording = $name GROUP BY ALL""",
    "topics": """SELECT principal, client_id, api_name, topic, sum(requests),
          coalesce(sum(request_bytes), 0), coalesce(sum(response_bytes), 0), sum(record_bytes)
        FROM topic_usage WHERE recording = $name GROUP BY ALL""",
    "findings": """SELECT code, subject, count, population FROM findings
        WHERE recording = $name AND incident IS NULL
          AND code NOT IN ('new_sessions', 'unused_topics')""",
    "slowest_replicas": """SELECT follower_id, last, waits, if(last >= 10, last_ms, NULL)
        FROM lagging_followers WHERE recording = $name""",
    "lags": """SELECT client_id, topic, sum(last_lag - first_lag), sum(last_lag) FROM consumer_lag
        WHERE recording = $name GROUP BY ALL""",
    "steady": "SELECT from_us, until_us FROM steady_phases WHERE recording = $name",
    "fetch_rates": """SELECT max(if(reason = 'to_mend', before, after)), max(recorded)
        FROM headlines AS h JOIN decisions USING (recording, rule)
        JOIN prediction_accuracy AS a ON recorded_in = recording AND kind = 'self_check'
          AND metric = 'fetches_per_second' AND a.group_kind = 'all'
        WHERE recording = $name AND rule = 'incremental_fetch' AND h.figure = 'bytes_per_second'""",
    "fetched": """SELECT node_id, client_id, sum(request_bytes + response_bytes), sum(record_bytes),
          count(*) FILTER (session_epoch = 0 AND error_code = 0 AND response_session_id = 0),
          count(*) FILTER (error_code = 70)
        FROM (FROM fetch_session_outcomes WHERE variant = 'recorded' AND parameter = 'none')
        JOIN (SELECT recording, request_id, client_id, error_code, response_session_id FROM fetches)
          USING (recording, request_id, client_id) WHERE recording = $name GROUP BY ALL""",
    "across_zones": """SELECT max(coalesce(if(redirects > 0, after, before), 0)) FILTER (is_across),
          max(coalesce(if(redirects > 0, after, before), 0)) FILTER (NOT is_across), max(redirects)
        FROM (SELECT *, figure = 'bytes_across_zones_per_second' AS is_across FROM headlines)
        JOIN (SELECT recording, rule, CAST(facts['redirects'] AS BIGINT) AS redirects
          FROM decisions WHERE rule = 'closest_replica') USING (recording, rule)
        WHERE recording = $name AND unit = 'B/s'""",
    "acks_all_ms": """SELECT max(p50_ms), max(p90_ms) FROM latency_summary
        WHERE recording = $name AND metric = 'produce_request_latency' AND variant = 'recorded'
          AND parameter = 'none' AND group_kind = 'all'""",
    "writes": """SELECT coalesce(max(CAST(facts['requests'] AS BIGINT)), 0) FROM decisions
        WHERE recording = $name AND rule = 'lowest_acked_offset'""",
}


def _differing(figure: str, counted: Rows, said: Rows) -> list[Any]:
    relative, absolute = _CLOSE.get(figure, (1e-9, 1e-6))

    def is_same(a: float | None, b: float | None) -> bool:
        known = a is not None and b is not None
        return isclose(a, b, rel_tol=relative, abs_tol=absolute) if known else a is b

    pairs = ((key, counted.get(key, ()), said.get(key, ())) for key in {*counted, *said})
    return [
        (figure, key, a, b)
        for key, a, b in pairs
        if len(a) != len(b) or not all(map(is_same, a, b))
    ]


@pytest.mark.golden
@pytest.mark.parametrize(
    "name", [*_SAMPLES, *(pytest.param(name, marks=pytest.mark.slow) for name in _OTHERS)]
)
def test_both_count_the_same(name: str, request: pytest.FixtureRequest) -> None:
    made: Warehouse = request.getfixturevalue("samples" if name in _SAMPLES else "every_recording")
    read, opened, differing = Recording(folder_of(name)), kip_replay.open(made.path), list[Any]()
    for figure, query in _SAID.items():
        counted = getattr(read, figure)()
        keys = len(next(iter(counted), ()))
        rows = opened.sql(query.replace("$name", f"'{name}'"), "arrow").to_pylist()
        listed = [[float(v) if isinstance(v, Decimal) else v for v in r.values()] for r in rows]
        said = {tuple(row[:keys]): tuple(row[keys:]) for row in listed}
        if figure != "across_zones" or read.facts.get("racks"):
            differing += _differing(figure, counted, said)
    report = json.loads((Path(made.path) / "report.json").read_text())["recordings"]
    [page] = (page for page in report if page["recording"] == name)
    rates = {(r["api_name"],): (r["per_second"], r["p50_ms"], r["p99_ms"]) for r in page["rates"]}
    differing += _differing("rates", read.rates(), rates)
    clients = (page["clients"]["clients"], page["clients"]["at_risk"])
    differing += _differing("clients", read.clients(), {(): clients})
    longest = page["rules"]["lowest_acked_offset"]["facts"].get("longest_stale_window_ms", 1e9)
    differing += [("denied_ms", read.denied_ms(), longest)] * (read.denied_ms() > longest)
    of_page = (page["facts"][key] for key in ("lines", "requests", "span_s"))
    assert [*of_page] == [sum(read.read.values()), len(read.lines), pytest.approx(read.span_s)]
    reasons = {figure for (figure, _), names in _DIFFERENT.items() if name in names.split()}
    assert {figure for figure, *_ in differing} == reasons, differing

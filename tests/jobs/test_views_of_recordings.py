"""The view of events on recordings shows what was done."""

import json
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pytest
from recorded_logs import folder_of

from kip_replay.pipelines.analysis.catalog import Catalog
from kip_replay.pipelines.analysis.views import read_views
from kip_replay.pipelines.folders import of_rules
from kip_replay.pipelines.warehouse.tables import Warehouse


def done(recording: str) -> dict[str, float]:
    """What was done to the cluster, and when in seconds since 1970."""
    lines = (folder_of(recording) / "events.jsonl").read_text().splitlines()
    return {event["event"]: event["at"] for event in map(json.loads, lines)}


def test_events_are_what_was_done(finished: Warehouse) -> None:
    catalog = Catalog(finished.path, read_views())
    found: dict[tuple[str, str, int], list[float]] = {}
    for recording, kind, node_id, at in catalog.query(
        "SELECT recording, kind, node_id, epoch_us(event_at) / 1e6 FROM cluster_events "
        "ORDER BY event_at"
    ).rows:
        found.setdefault((recording, kind, node_id), []).append(at)
    frozen = done("freeze-4.1")
    fenced, _ = found["freeze-4.1", "broker_fenced", 13]  # and as it shuts down
    # Its last heartbeat was up to 2 s before.
    assert 7 < fenced - frozen["SIGSTOP broker 13"] < 9.1
    _, unfenced = found["freeze-4.1", "broker_unfenced", 13]
    assert 0 < unfenced - frozen["SIGCONT broker 13"] < 1
    # A controller that is stopped resigns first.
    [[elected]] = [at for (_, kind, _), at in found.items() if kind == "metadata_leader"]
    assert abs(elected - done("failover-4.0")["controller 1 stopped"]) < 1
    kinds = Counter(kind for _, kind, _ in found)
    assert kinds["broker_started"] == kinds["controlled_shutdown"] == 6


def test_the_slowest_requests_come_first(finished: Warehouse) -> None:
    catalog = Catalog(finished.path, read_views())
    times = [ms for (ms,) in catalog.query("SELECT slow_ms FROM slowest_requests LIMIT 20").rows]
    [[most]] = catalog.query("SELECT max(total_ms) FROM requests WHERE api_name <> 'FETCH'").rows
    assert times == sorted(times, reverse=True)
    assert times[0] >= most


# --- what a fleet takes ---------------------------------------------------------------------------

FLEETS = {file.parent.name: tomllib.loads(file.read_text()) for file in of_rules("fleet.toml")}
#: Where heartbeats fall beside each other, and how long a cluster's machine takes for a response,
#: is no matter of its size.
OF_THE_CLUSTER = {("mean_read_after_write_ms", "after"): 0.3, ("mean_lag_ms", "after"): 0.2}


class Checked(NamedTuple):
    """What a formula comes to with costs of a recording, and what was measured in another."""

    figure: str
    side: str
    costs_of: str
    recording: str
    value: float
    measured: float


def figures(fleet: Mapping[str, Any], given: Mapping[str, float]) -> Iterator[tuple[str, str, Any]]:
    """Figure, side and what its formula comes to, if every name in it is known."""
    known: dict[str, Any] = {"min": min, **fleet.get("defaults", {}), **given}
    for name, term in fleet.get("terms", {}).items():
        if (value := _result(term, known)) is not None:
            known[name] = value
    for name, formula in fleet.get("formulas", {}).items():
        for side in formula.keys() & {"before", "after"}:
            if (value := _result(formula[side], known)) is not None:
                yield name, side, value


def _result(expression: str, known: dict[str, Any]) -> float | None:
    try:
        return float(eval(expression, known))
    except NameError:
        return None


def checked(catalog: Catalog) -> Iterator[Checked]:
    """Every formula on the size of each recording, with the costs of each."""
    for rule, fleet in FLEETS.items():
        found: dict[str, Any] = defaultdict(lambda: defaultdict(dict))
        query = f"SELECT recording, kind, name, value FROM unit_costs WHERE rule = '{rule}'"
        for recording, kind, name, value in catalog.query(query).rows:
            found[recording][kind][name] = value
        for costs_of, one in found.items():
            for recording, other in found.items():
                for figure, side, value in figures(fleet, one["cost"] | other["field"]):
                    if figure in other[side]:
                        is_of = other[side][figure]
                        yield Checked(figure, side, costs_of, recording, value, is_of)


def test_formulas_come_to_what_was_recorded(finished: Warehouse) -> None:
    every = [*checked(Catalog(finished.path, read_views()))]
    stated = {name for fleet in FLEETS.values() for name in fleet.get("formulas", ())}
    assert stated - {each.figure for each in every} == {"consumer_overhead_bytes_per_second"}
    for each in every:
        usual = 0.02 if each.costs_of == each.recording else 0.12
        most = OF_THE_CLUSTER.get((each.figure, each.side), usual)
        assert each.value == pytest.approx(each.measured, rel=most), each

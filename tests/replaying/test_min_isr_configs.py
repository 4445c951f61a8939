"""min.insync.replicas of a topic is what lines state of it; a default alone is no fact."""

from pathlib import Path

import pytest
from constructed import at
from put_rows import Row, put, row

from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.replaying.log_gaps import find_what_held
from kip_replay.pipelines.replaying.seam import WHOLE_LOG
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import Configs, MetadataWrites, Produces, Requests, Uncertainties
from kip_replay.replay.min_isr_acks.events import LeaderEvent
from kip_replay.replay.min_isr_acks.isr import MinIsrConfig

RULE = next(rule for rule in RULES if rule.name == "min_isr_acks")
_TIMES = dict.fromkeys(("received_at", "dequeued_at", "handled_at", "completed_at"), at(0))


def line(text: str) -> tuple[str, Row]:
    """``9 t set 3``; broker 11 describes ``9 t =3`` its own, ``9 t ~3`` the default."""
    second, name, what, *values = text.split()
    of = {"request_id": text, "node_id": 1 if name == "1" else 11, "built_at": at(int(second))}
    if what in ("CREATE_TOPICS", "ALTER_CONFIGS"):  # with other configs
        resource = {"resource_type": "topic", "name": name, "configs": 2}
        return "writes", row(MetadataWrites, "r", **of, api_name=what, resources=[resource])
    of |= {"resource_type": "topic" if name == "t" else "broker", "name": "min.insync.replicas"}
    of |= {"resource_name": name.strip("*"), "operation": what, "value": "".join(values) or None}
    if what[0] in "=~":
        of |= {"operation": "describe", "source": "DESCRIBE_CONFIGS", "value": what[1:]}
        of["config_source"] = 1 if what[0] == "=" else 4
    return "configs", row(Configs, "r", **of)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("200 t =3", [3, 3, 3]),  # however late
        ("1 11 ~1", [None, None, None]),
        ("1 11 ~1, 200 t ~1", [1, 1, 1]),
        ("200 t ~1", [1, 1, 1]),
        ("5 t CREATE_TOPICS, 200 11 ~1", [None, 1, 1]),
        ("5 t CREATE_TOPICS", [None, None, None]),
        ("2 t =3, 5 t ALTER_CONFIGS, 6 11 ~2", [3, 2, 2]),
        ("5 t set 3, 200 t =2", [None, 3, 3]),
        ("5 t delete, 6 12 set 3", [None, None, None]),
        ("5 t delete, 6 * set 3, 20 * delete", [None, 3, None]),
        ("5 t CREATE_TOPICS, 6 1 ~2", [None, None, None]),  # a controller's is its own
        ("100 * set 3, 200 t ~3", [None, None, 3]),
        ("9 t =3, gap at 5", [None, 3, 3]),
    ],
)
def test_a_topic_has_what_lines_state(
    lines: str, expected: list[int | None], tmp_path: Path
) -> None:
    """At 1 s, at 10 s, and after all lines."""
    engine = Local(Warehouse(tmp_path))
    of = [line(text) for text in lines.split(", ") if "gap" not in text]
    produced = {"node_id": 11, "partitions": [{"topic": "t", "partition": 0}]}
    tables = {Requests: [row(Requests, "r", node_id=11, **_TIMES)]}
    tables[Produces] = [row(Produces, "r", **produced, **_TIMES)]
    tables[Configs] = [config for kind, config in of if kind == "configs"]
    tables[MetadataWrites] = [write for kind, write in of if kind == "writes"]
    put(engine.warehouse, "ingest", tables)
    find_what_held(engine, {"r": []}, 0)
    gap = {"node_id": 11, "what": "configs", "uncertain_from": at(5), "shown_at": at(5)}
    if "gap" in lines:
        put(engine.warehouse, "gap", {Uncertainties: [row(Uncertainties, "r", **gap)]})
    rows = engine.rows(RULE.text("events", **WHOLE_LOG.values), ["r"]).to_pylist()
    rows = sorted(
        (r for r in rows if r["kind"] == "config"), key=lambda r: r["at_us"], reverse=True
    )
    configs, found = MinIsrConfig({}), []
    for until in (1, 10, 1000):
        while rows and rows[-1]["at_us"] <= at(until).timestamp() * 1e6:
            event = rows.pop()
            configs.note(LeaderEvent(**{name: event.get(name) for name in LeaderEvent._fields}))
        found.append(configs.in_force("t"))
    assert found == expected

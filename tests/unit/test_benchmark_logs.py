"""The logs that benchmarks generate: whole lines of Kafka's, none twice, and true to the rule."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from benchmarks import inputs, kip_227, real_lines
from benchmarks.kip_227 import Example
from benchmarks.long_recording import write_recording
from recorded_logs import folder_of

from kip_replay.replay.hwm_parking import HwmParking
from kip_replay.replay.hwm_parking import variants as parking_variants
from kip_replay.replay.incremental_fetch import IncrementalFetch
from kip_replay.replay.kafka.request_log import LineParser
from kip_replay.replay.lowest_acked_offset import LowestAckedOffset
from kip_replay.replay.min_isr_acks import variants as ack_variants
from kip_replay.replay.min_isr_acks.replay import MinIsrAcks
from kip_replay.replay.rule import Replay

Row = dict[str, Any]
#: More than one topic, and the last is not full.
WITH_SESSIONS = Example(partitions=650, active=7, rounds=25, sessions=True)


def outcomes(replay: Replay, batches: list[pa.RecordBatch]) -> list[Row]:
    """Rows of a rule's first outcome table."""
    handed_out = [*(replay.feed(batch) for batch in batches), replay.finish()]
    rows: list[Row] = pa.Table.from_batches([tables[0] for tables in handed_out]).to_pylist()
    return rows


def fetch_outcomes(example: Example, variant: str) -> list[Row]:
    fetches = inputs.fetches_of(example)
    rows = outcomes(IncrementalFetch(kip_227.NODE_ID), [*fetches.first, *fetches.then])
    found = [row for row in rows if row["variant"] == variant]
    assert {row["verdict"] for row in found} == {"replayed"}
    assert len(found) == example.fetches
    return found


def sizes(rows: list[Row]) -> list[tuple[int, ...]]:
    names = ("request_partitions", "response_partitions", "request_bytes", "response_bytes")
    return [tuple(row[name] for name in names) for row in rows]


# --- lines of recordings, repeated ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("recording", "shape", "line_bytes"),
    [("sessions-on", "small", (600, 2_000)), ("sessions-off", "large", (10_000, 31_000))],
)
def test_repeated_lines_are_read_and_differ(
    recording: str, shape: str, line_bytes: tuple[int, int], tmp_path: Path
) -> None:
    log = tmp_path / "broker.log"
    shapes = real_lines.templates([folder_of(recording)], shape)[:40]
    size = 3 * sum(len(template.text) for template in shapes)
    lines = real_lines.write_log(log, shapes, size)
    assert lines > 2 * len(shapes)
    assert line_bytes[0] < log.stat().st_size / lines < line_bytes[1]

    with log.open("rb") as text:
        parsed = pa.Table.from_batches(LineParser("r", 11, "UTC").parse(text, log.name))
    assert parsed.num_rows == lines
    assert parsed.column("rejected").null_count == lines
    assert len(set(parsed.column("line_id").to_pylist())) == lines
    requests: list[Row] = parsed.column("request").to_pylist()
    assert len({row["completed_at"] for row in requests}) == lines
    ids = [row["correlation_id"] for row in requests]
    assert [b - a for a, b in zip(ids, ids[len(shapes) :], strict=False)] == [10_000] * (
        lines - len(shapes)
    )


def test_a_repetition_moves_offsets_and_nothing_else() -> None:
    line = (
        b'[2026-11-20 20:41:14,135] DEBUG Completed request:{"correlationId":60,"a":"50 %",'
        b'"sessionId":0,"x":{"sessionId":2147483640,"fetchOffset":5,"logStartOffset":0,'
        b'"highWatermark":-1}} (kafka.request.logger)'
    )
    template = real_lines.Template.of(line)
    assert template.line(b"2026-11-20 20:41:14,135", 0) == line + b"\n"
    moved = template.line(b"2026-01-05 00:00:00,000", 2)
    assert moved == (
        b'[2026-01-05 00:00:00,000] DEBUG Completed request:{"correlationId":20060,"a":"50 %",'
        b'"sessionId":0,"x":{"sessionId":15832,"fetchOffset":200005,"logStartOffset":0,'
        b'"highWatermark":-1}} (kafka.request.logger)\n'
    )


def test_a_long_recording_goes_on_where_the_real_one_ended(tmp_path: Path) -> None:
    # A bit more than twice: five MB are one repetition.
    size_bytes, lines = write_recording(tmp_path / "long", folder_of("failover-4.0"), 11_000_000)
    manifest = json.loads((tmp_path / "long" / "recording.json").read_text())
    logs = {node["node_id"]: tmp_path / "long" / node["log"] for node in manifest["nodes"]}
    assert sum(log.stat().st_size for log in logs.values()) == size_bytes >= 11_000_000
    ids: list[str] = []
    for node_id, log in logs.items():
        text = log.read_bytes().splitlines()
        stamps = [line[1:24] for line in text]
        assert stamps == sorted(stamps)
        parsed = pa.Table.from_batches(LineParser("long", node_id, "UTC").parse(text, log.name))
        assert parsed.column("rejected").null_count == parsed.num_rows
        ids += parsed.column("line_id").to_pylist()
    assert len(ids) == lines == len({*ids})


# --- KIP-227's example ---------------------------------------------------------------------------


def test_the_rule_derives_the_lists_of_the_generated_sessions() -> None:
    """Partition by partition, in order, and to the byte: as on recordings."""
    rows = fetch_outcomes(WITH_SESSIONS, "incremental")
    equal = [row["equals_recorded"] for row in rows]
    assert equal == [None] * WITH_SESSIONS.clients + [True] * (
        WITH_SESSIONS.fetches - WITH_SESSIONS.clients
    )
    assert sizes(rows) == sizes(fetch_outcomes(WITH_SESSIONS, "recorded"))
    # Something happens, and little of everything.
    assert 0 < max(row["response_partitions"] for row in rows[3:]) <= 3 * WITH_SESSIONS.active


# --- what other rules are fed --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("replay", "batches"),
    [
        (HwmParking(2, (1, 2, 3), parking_variants()), inputs.metadata_fetches(5, 100)),
        (MinIsrAcks(11, ack_variants()), inputs.produces(20, 30)),
        (LowestAckedOffset((1, 2, 3), (), 2000), inputs.broker_heartbeats(5, 60)),
    ],
    ids=["hwm_parking", "min_isr_acks", "lowest_acked_offset"],
)
def test_rules_replay_nearly_all_of_generated_histories(
    replay: Replay, batches: list[pa.RecordBatch]
) -> None:
    """Unknown is quick to say: a rate over such rows would mean nothing."""
    rows = outcomes(replay, batches)
    assert len(rows) > 200
    assert sum(row["verdict"] == "replayed" for row in rows) > 0.95 * len(rows)

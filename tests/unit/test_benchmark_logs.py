"""Logs that benchmarks generate are whole, none twice, true to the rule; and what is measured."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from benchmarks import kip_227, real_lines
from benchmarks.kip_227 import Example
from benchmarks.long_recording import write_recording
from parsed_lines import parsed
from recorded_logs import folder_of

from kip_replay.replay.incremental_fetch import IncrementalFetch

Row = dict[str, Any]


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
        rows = parsed(text)
    assert rows.num_rows == lines
    assert rows.column("rejected").null_count == lines
    assert len(set(rows.column("line_id").to_pylist())) == lines
    requests: list[Row] = rows.column("request").to_pylist()
    assert len({row["completed_at"] for row in requests}) == lines
    ids = [row["correlation_id"] for row in requests]
    assert [b - a for a, b in zip(ids, ids[len(shapes) :], strict=False)] == [10_000] * (
        lines - len(shapes)
    )


def test_a_long_recording_goes_on_where_the_real_one_ended(tmp_path: Path) -> None:
    source = folder_of("failover-4.0")
    # A bit more than twice: five MB are one repetition.
    size_bytes, lines = write_recording(tmp_path / "long", source, 11_000_000)

    manifest = json.loads((tmp_path / "long" / "recording.json").read_text())
    assert manifest["name"] == "long"
    logs = {node["node_id"]: tmp_path / "long" / node["log"] for node in manifest["nodes"]}
    assert sum(log.stat().st_size for log in logs.values()) == size_bytes >= 11_000_000
    ids: set[str] = set()
    total = 0
    for node_id, log in logs.items():
        with log.open("rb") as file:
            stamps = [line[1:24] for line in file]
            assert stamps == sorted(stamps)
            file.seek(0)
            batch = parsed(file, node_id)
            assert batch.column("rejected").null_count == batch.num_rows
            ids.update(batch.column("line_id").to_pylist())
            total += batch.num_rows
    assert total == lines == len(ids)


# --- what rules are fed --------------------------------------------------------------------------


@pytest.mark.parametrize("sessions", [True, False])
def test_rules_replay_nearly_all_of_generated_histories(sessions: bool) -> None:
    """Unknown is quick to say: a rate over such rows would mean nothing."""
    replay = IncrementalFetch(11)
    made = kip_227.fetches_of(Example(650, 7, 25, sessions))
    emitted = [*map(replay.feed, made), replay.finish()]
    rows = pa.Table.from_batches([tables[0] for tables in emitted]).to_pylist()
    assert len(rows) > 200
    assert sum(row["verdict"] == "replayed" for row in rows) > 0.95 * len(rows)
    # As the generated brokers returned them: partition by partition, in order.
    assert all(row.get("equals_recorded") in (True, None) for row in rows)

"""Logs that benchmarks generate are whole, and no line comes twice."""

import json
from pathlib import Path

from benchmarks.long_recording import write_recording
from parsed_lines import parsed
from recorded_logs import folder_of


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

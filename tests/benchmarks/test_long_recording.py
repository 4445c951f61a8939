"""Logs that benchmarks generate are whole: no line comes twice, and none is missing."""

import json
from itertools import pairwise
from pathlib import Path

from benchmarks.cluster import Load
from benchmarks.long_recording import write_recording
from golden.recorded import ENGINE, quiet
from parsed_lines import parsed

from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.log_gaps import gaps_in

LOAD = Load()


def test_a_generated_recording_has_each_line_once_and_no_gap(tmp_path: Path) -> None:
    recording = tmp_path / "long"
    size_bytes, lines, _ = write_recording(recording, 8_000_000, LOAD)

    manifest = json.loads((recording / "recording.json").read_text())
    logs = {node["node_id"]: recording / node["log"] for node in manifest["nodes"]}
    assert sum(log.stat().st_size for log in logs.values()) == size_bytes >= 8_000_000
    ids: list[str] = []
    for node_id, log in logs.items():
        stamps = [line[1:24] for line in log.read_bytes().splitlines()]
        assert all(before <= after for before, after in pairwise(stamps))
        with log.open("rb") as file:
            rows = parsed(file, node_id)
        assert not any(row["rejected"] for row in rows)
        ids += [row["request_id"] for row in rows]
    assert len(ids) == len(set(ids)) == lines

    ingest([load_recording(recording)], ENGINE, say=quiet)
    assert not gaps_in(ENGINE, {"long": manifest["voters"]})

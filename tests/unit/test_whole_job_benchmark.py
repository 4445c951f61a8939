"""What the benchmark of whole jobs reads off a run, and the long recordings that it runs on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.long_recording import write_recording
from benchmarks.memory import Watch
from benchmarks.whole_job import phases_of, rules_of
from recorded_logs import folder_of

from kip_replay.replay.kafka.request_log import LineParser

SAID = "seconds: start Spark 3.2, ingest 10.0, replay 8.5, report 0.3, in all 22.0"


def test_phases_are_read_without_their_sum() -> None:
    phases = phases_of(SAID)
    assert phases == {"start Spark": 3.2, "ingest": 10.0, "replay": 8.5, "report": 0.3}


def test_a_rule_lasts_until_the_next_begins_and_the_last_as_long_as_the_phase() -> None:
    said = [
        (1.0, "ingest r: lines read 5 = requests 5 + other 0 + rejected 0 + repeated 0"),
        (14.0, "replay hwm_parking: r"),
        (17.5, "replay min_isr_acks: r"),
        (30.0, SAID),
    ]
    assert rules_of(said, phases_of(SAID)) == {"hwm_parking": 3.5, "min_isr_acks": 5.0}
    assert rules_of(said[:1], phases_of(SAID)) == {}


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
            for batch in LineParser("long", node_id, "UTC").parse(file, log.name):
                assert batch.column("rejected").null_count == batch.num_rows
                ids.update(batch.column("line_id").to_pylist())
                total += batch.num_rows
    assert total == lines == len(ids)


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="needs Linux")
def test_memory_and_time_of_a_child_of_a_child_are_seen() -> None:
    work = "b = b'x' * 120_000_000\nimport time\nt = time.process_time\nwhile t() < 1.2: pass"
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}])"
    process = subprocess.Popen([sys.executable, "-c", outer], env=dict(os.environ))
    watch = Watch(process.pid)
    process.wait()
    used = watch.ended()
    assert 120_000_000 < used.total_bytes < 400_000_000
    assert used.cpu_s >= 0.5
    assert (used.java_bytes, used.worker_bytes) == (0, 0)

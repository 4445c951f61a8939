"""Logs that begin in the middle: outcomes are those of the whole log, bounded or unknown."""

import gzip
import json
import lzma
import shutil
from collections import Counter
from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path
from random import Random

import pytest
from small_logs import folder_of

from kip_replay.pipelines.ingest.recording import load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.replay import replay
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import TABLES

from .recorded import ENGINE, OPTIONS, STEPS, Row, outcomes, quiet, rows_of

pytestmark = pytest.mark.golden

#: By table the columns that are compared, and how many rows known on the whole log may be unknown.
COMPARED = {
    "fetch_session_outcomes": (
        *("request_partitions", "response_partitions", "request_bytes", "response_bytes"),
    ),
    "produce_ack_outcomes": (
        *("request_acks_all_latency_ms", "request_min_isr_latency_ms"),
        *("acks_all_error", "min_isr_error"),
    ),
    "metadata_write_outcomes": ("applied_everywhere_at", "known_at"),
    "heartbeat_outcomes": ("lowest_acknowledged_offset",),
    "closest_replica_outcomes": ("replica_id", "is_cross_zone", "added_ms"),
}
#: One of each kind of cluster and of its troubles.
NAMES = (
    "acks-not-enough",
    "failover-4.0",
    "freeze-4.1",
    "metadata-3.9",
    "mixed-4.2",
    "racks-aware",
)
#: Rows of the beginning may differ: a FETCH that was in flight, a topic that was just created.
DIFFERENT_MAX = 0.005


def begun_later(
    name: str, seconds: float, folder: Path, tables: Collection[str]
) -> dict[str, list[Row]]:
    """Outcomes of a recording without its first seconds, cut as a log that begins there."""
    shutil.copytree(folder_of(name), folder)
    manifest = json.loads((folder / "recording.json").read_text())
    logs = [folder / node["log"] for node in manifest["nodes"]]
    unpacked = {log: (lzma if log.suffix == ".xz" else gzip).decompress for log in logs}
    lines = {log: unpacked[log](log.read_bytes()).splitlines(keepends=True) for log in logs}
    first = min(line[:24] for of_log in lines.values() for line in of_log)
    begin = datetime.fromisoformat(first[1:].decode().replace(",", ".")) + timedelta(0, seconds)
    stamp = f"[{begin:%Y-%m-%d %H:%M:%S,%f}".encode()[:24]
    for log, of_log in lines.items():
        at = next((n for n, line in enumerate(of_log) if line[:24] >= stamp), len(of_log))
        log.write_bytes(gzip.compress(b"".join(of_log[at:]), 1))
    manifest["name"] = f"{name}-later"
    (folder / "recording.json").write_text(json.dumps(manifest))
    recording, engine = load_recording(folder), ENGINE.on(Warehouse(folder / "warehouse"))
    ingest([recording], engine, say=quiet)
    wanted = {rule for rule in STEPS if {*tables} & {t.name for t in STEPS[rule].outcomes}}
    wanted |= {follows for rule in wanted for follows in STEPS[rule].file.follows}
    replay([recording], engine, [STEPS[rule] for rule in STEPS if rule in wanted], OPTIONS, quiet)
    found = {}
    for table in tables:
        rows = engine.warehouse.rows(TABLES[table], [recording.name]).drop_columns("recording")
        found[table] = [row for batch in rows.to_batches() for row in rows_of(batch)]
    return found


def compared(table: str, whole: list[Row], later: list[Row]) -> Counter[str]:
    """Rows that the whole log decides: the same, between bounds, different or unknown."""
    key = [name for name in TABLES[table].key if name != "recording"]
    of_whole = {tuple(map(row.get, key)): row for row in whole if row["verdict"] == "replayed"}
    counts: Counter[str] = Counter()
    for row in later:
        there = of_whole.get(tuple(map(row.get, key)))
        if there is None or row["parameter"] != "none":
            continue
        values = [(row[name], there[name]) for name in COMPARED[table]]
        if row["verdict"] == "bounded":
            room = row["bytes_open"]
            is_within = all(0 <= its - own <= room for own, its in values[2:])
            counts["bounded" if is_within and values[0][0] == values[0][1] else "different"] += 1
        elif row["verdict"] == "unknown":
            counts["unknown"] += 1
        else:
            counts["same" if all(own == its for own, its in values) else "different"] += 1
    return counts


def held_against_the_whole(
    name: str, seconds: float, folder: Path, tables: Collection[str] = COMPARED
) -> dict[str, Counter[str]]:
    later = begun_later(name, seconds, folder, tables)
    return {t: compared(t, outcomes(name, TABLES[t]), rows) for t, rows in later.items()}


#: By table the rows that may be unknown, in shares.
UNKNOWN_MAX = {
    "acks-slow-follower": {"produce_ack_outcomes": 0.01, "fetch_session_outcomes": 0.0},
    "sessions-on": {"fetch_session_outcomes": 0.0},
    "metadata-4.0": {"metadata_write_outcomes": 0.2, "heartbeat_outcomes": 0.1},
    "racks-leader": {"closest_replica_outcomes": 0.01},
    "two-fetchers": {"fetch_session_outcomes": 0.01, "produce_ack_outcomes": 0.05},
}


@pytest.mark.parametrize("name", UNKNOWN_MAX)
def test_what_held_before_is_told_by_what_came_later(name: str, tmp_path: Path) -> None:
    found = held_against_the_whole(name, 20, tmp_path / "later", UNKNOWN_MAX[name])
    for table, unknown_max in UNKNOWN_MAX[name].items():
        counts = found[table]
        assert counts["unknown"] <= unknown_max * counts.total(), table
        assert counts["different"] <= DIFFERENT_MAX * counts.total(), table


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_recordings_that_begin_anywhere_are_what_the_whole_ones_are(
    name: str, tmp_path: Path
) -> None:
    manifest = json.loads((folder_of(name) / "recording.json").read_text())
    seconds = Random(name).uniform(2, min(45, manifest.get("duration_s", 50) - 5))
    for table, counts in held_against_the_whole(name, seconds, tmp_path / "later").items():
        assert counts["different"] <= DIFFERENT_MAX * counts.total(), (table, seconds, counts)

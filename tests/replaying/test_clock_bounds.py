"""Clocks of a real cluster: 15 s of all its logs, as they are and with one node's clock set off."""

import gzip
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_logs import folder_of, lines_of, moved

from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.recording import Recording, load_recording
from kip_replay.pipelines.ingest.step import ingest
from kip_replay.pipelines.replaying.clocks import clock_sentences, find_clock_bounds, nodes_apart
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.tables import ClockBounds

SAMPLE = folder_of("metadata-4.0")
BROKERS, ACTIVE, STANDBYS = (11, 12, 13), 2, (1, 3)
VOTERS = (1, 2, 3)
#: Brokers whose clock is off, one at a time, and by how many seconds.
OFF = ((11, 5), (12, -90), (13, 5))


def cut(
    folder: Path,
    node: int | None = None,
    off_s: float = 0,
    which: slice = slice(None),
    api: bytes = b"",
    **entries: object,
) -> Recording:
    """The lines of 15 s in which brokers connect; a node's clock off, for some of its log's lines.

    ``which``: of those of an ``api``. ``entries``: what the manifest has of that node besides.
    """
    manifest = json.loads((SAMPLE / "recording.json").read_text())
    folder.mkdir()
    for entry in manifest["nodes"]:
        log = lines_of(gzip.decompress((SAMPLE / entry["log"]).read_bytes()))
        lines = [x for x in log if b"2026-11-20 20:36:05" <= x[1:20] < b"2026-11-20 20:36:20"]
        if entry["node_id"] == node:
            for n in [n for n, line in enumerate(lines) if api in line][which]:
                lines[n] = moved(lines[n], off_s)
            entry |= entries
        (folder / entry["log"]).write_bytes(gzip.compress(b"".join(lines), 1))
    (folder / "recording.json").write_text(json.dumps(manifest | {"name": folder.name}))
    return load_recording(folder)


Rows = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def bounds(tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows of each recording by its name, all found at once."""
    folder = tmp_path_factory.mktemp("clocks")
    recordings = [
        cut(folder / "agree"),
        *(cut(folder / f"{node} off by {off_s}", node, off_s) for node, off_s in OFF),
        cut(folder / "active off", ACTIVE, -5),
        cut(folder / "set", 12, 5, which=slice(70, None)),
        cut(folder / "corrected", 12, 5, clock_offset_ms=-5000),
        cut(folder / "late", 12, 0.09, which=slice(2), api=b'"CREATE_TOPICS"'),
    ]
    warehouse = Warehouse(folder / "warehouse")
    ingest(recordings, Local(warehouse), say=lambda _: None)
    names = [recording.name for recording in recordings]
    find_clock_bounds(Local(warehouse), dict.fromkeys(names, VOTERS))
    rows = warehouse.rows(ClockBounds, names).sort_by("node_id").to_pylist()
    return {name: [row for row in rows if row["recording"] == name] for name in names}


def test_clocks_that_agree_are_bounded_around_nothing(bounds: Rows) -> None:
    rows = bounds["agree"]
    assert {row["node_id"]: row["clocks"] for row in rows} == {
        **dict.fromkeys(STANDBYS, "not_bounded"),
        **dict.fromkeys(BROKERS, "same"),
    }
    assert {row["reference_id"] for row in rows} == {ACTIVE}
    assert (clock_sentences(rows), nodes_apart(rows)) == ([], {})
    (forwards,) = (row for row in rows if row["forwarded_pairs"])
    assert -100 < forwards["offset_earliest_ms"] <= 0 <= forwards["offset_latest_ms"] < 100


@pytest.mark.parametrize(("node", "off_s"), OFF)
def test_a_broker_whose_clock_is_off_is_named(bounds: Rows, node: int, off_s: int) -> None:
    name = f"{node} off by {off_s}"
    assert nodes_apart(bounds[name]) == {name: (node,)}
    (row,) = (row for row in bounds[name] if row["node_id"] == node)
    assert row["offset_earliest_ms"] <= off_s * 1000 <= row["offset_latest_ms"]
    (sentence,) = clock_sentences(bounds[name])
    assert f"the clock of node {node} was " in sentence
    assert f"s {'ahead of' if off_s > 0 else 'behind'} that of node {ACTIVE}." in sentence


def test_the_active_controller_whose_clock_is_off_is_named_itself(bounds: Rows) -> None:
    """All brokers are apart from it, and one clock explains that."""
    assert nodes_apart(bounds["active off"]) == {"active off": BROKERS}
    (sentence,) = clock_sentences(bounds["active off"])
    assert re.search(r"node 2 was 4\.9\d to 5\.0\d s behind that of nodes 11, 12, 13", sentence)
    assert re.search(r'add (49[5-9]|50[0-4])\d to "clock_offset_ms" .* of node 2 ', sentence)


def test_a_clock_that_is_set_meanwhile_is_no_offset(bounds: Rows) -> None:
    assert nodes_apart(bounds["set"]) == {"set": (12,)}
    (sentence,) = clock_sentences(bounds["set"])
    assert "node 12 was set while it logged" in sentence


def test_two_lines_that_were_written_late_are_no_offset(bounds: Rows) -> None:
    """Of forwarded requests, whose events on both nodes are hardly a millisecond apart."""
    assert {row["clocks"] for row in bounds["late"] if row["is_compared"]} == {"same"}


def test_a_clock_that_is_corrected_agrees(bounds: Rows) -> None:
    as_it_was, corrected = (
        [{**row, "recording": ""} for row in bounds[name]] for name in ("agree", "corrected")
    )
    assert corrected == as_it_was


def test_a_node_is_not_read_with_two_offsets(tmp_path: Path) -> None:
    warehouse, first = Warehouse(tmp_path / "warehouse"), cut(tmp_path / "r")
    ingest([first], Local(warehouse), say=lambda _: None)
    nodes = tuple(
        replace(node, clock_offset_ms=-5000 * (node.node_id == 12)) for node in first.nodes
    )
    with pytest.raises(UserError, match=r"node 12 .* clock_offset_ms 0, .* now has -5000: delete"):
        ingest([replace(first, nodes=nodes)], Local(warehouse), say=lambda _: None)


@pytest.mark.parametrize("offset_ms", ["-5000", 1.5, True, 86_400_001, None])
def test_an_offset_is_milliseconds_within_a_day(tmp_path: Path, offset_ms: object) -> None:
    with pytest.raises(UserError, match=r"node 12 .* - at `\$\.clock_offset_ms`"):
        cut(tmp_path / "r", 12, clock_offset_ms=offset_ms)

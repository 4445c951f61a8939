"""A log that is given for another node is refused, where its lines show it."""

import gzip
import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from small_logs import folder_of, lines_of, write_recording

from kip_replay.jobs import ingest as job
from kip_replay.jobs import plan
from kip_replay.pipelines.engines.local import Local
from kip_replay.pipelines.errors import UserError
from kip_replay.pipelines.ingest.recording import Recording
from kip_replay.pipelines.ingest.step import IngestSettings, ingest
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import Requests

GROWING = IngestSettings(final=False)


def given(
    folder: Path, whose: Mapping[int, int], first: int = 0, last: int | None = None
) -> Recording:
    """A recording with the logs of other nodes for some, or these lines of them. Node 2 leads."""
    logs = {node_id: f"{node_id}.log" for node_id in (1, 2, 3, 11, 12, 13)}
    files = {}
    for node_id, name in logs.items():
        owner = whose.get(node_id, node_id)
        kind = "broker" if owner > 10 else "controller"
        log = gzip.decompress((folder_of("metadata-4.0") / f"{kind}-{owner}.log.gz").read_bytes())
        files[name] = b"".join(lines_of(log)[first:last])
    return write_recording(folder, files, logs, voters=[1, 2, 3])


@pytest.mark.parametrize(
    ("whose", "sentence"),
    [
        ({11: 12, 12: 11}, r"node 11 of .*11.log\) is that of node 12: it has 109 requests of nod"),
        ({1: 2, 2: 1}, r"node 1 of .* that of node 2: it has .* itself \(successful metadata FE"),
        ({1: 13, 13: 1}, r"node 1 of .* that of node 13: .* no controller responds to \(METADATA"),
        ({13: 11}, "node 11 and node 13 of .* same content: give each node its own in recording"),
    ],
)
def test_another_nodes_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], whose: dict[int, int], sentence: str
) -> None:
    folder = str(given(tmp_path / "r", whose).path)
    assert job.main([folder, "--warehouse", str(tmp_path / "w")]) == 2
    printed = capsys.readouterr().err.splitlines()[-1]
    assert not [*tmp_path.rglob("*.parquet")]
    assert plan.main([folder, "--format", "json"]) == 2
    refused = json.loads(capsys.readouterr().out)["recordings"][0]["refused"]
    assert f"error: {refused[0]}" == printed
    assert any(re.search(sentence, each) for each in refused)


def test_a_log_that_was_swapped_while_it_grew(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path / "w")
    (read,) = ingest([given(tmp_path / "r", {}, 0, 200)], Local(warehouse), GROWING)
    with pytest.raises(UserError, match=r"node 12 of .* is that of node 13"):
        ingest([given(tmp_path / "r", {12: 13, 13: 12}, 200)], Local(warehouse), GROWING)
    assert len(warehouse.rows(Requests, ["r"])) == read.requests


def test_where_lines_do_not_decide_nothing_is_said(tmp_path: Path) -> None:
    few = given(tmp_path / "few", {11: 12, 12: 11}, 0, 6)
    standby = given(tmp_path / "standby", {1: 3, 3: 1})
    both = given(tmp_path / "both", {1: 13, 13: 1})
    nodes = [replace(node, role="broker,controller") for node in both.nodes]
    recordings = [few, standby, replace(both, nodes=tuple(nodes))]
    assert len(ingest(recordings, Local(Warehouse(tmp_path / "w")))) == 3

"""What clients and brokers saw is read from beside the logs, as far as it can be read."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from kip_replay.pipelines.ingest.client_observations import ingest_client_observations
from kip_replay.pipelines.ingest.recording import Node, Recording
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import (
    APPLIED_OBSERVATIONS,
    CLIENT_OBSERVATIONS,
    LOWEST_ACKED_OBSERVATIONS,
)
from kip_replay.replay.table import Table

BEGIN = datetime(2026, 11, 22, tzinfo=UTC)
BEGIN_US = round(BEGIN.timestamp() * 1_000_000)


def read(folder: Path, *tables: Table, nodes: tuple[Node, ...] = ()) -> list[list[dict[str, Any]]]:
    """Rows of both tables by key, after the folder was read into a warehouse beside it."""
    warehouse = Warehouse(folder.parent / "warehouse")
    ingest_client_observations([Recording("r", "UTC", nodes, path=folder)], warehouse)
    return [
        sorted(
            warehouse.rows(table, ["r"]).to_pylist(), key=lambda row: [row[k] for k in table.key]
        )
        for table in tables
    ]


def folder_with(tmp_path: Path, **texts: str) -> Path:
    folder = tmp_path / "recording"
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        (folder / name.replace("_", "-", 1)).with_suffix(".txt").write_text(text)
    return folder


def test_brokers_note_offsets_that_they_have_applied(tmp_path: Path) -> None:
    """The first line of an offset counts, and none that was cut; other files are nothing."""
    lines = [f"{offset} {BEGIN_US + ms * 1000}" for offset, ms in ((7, 1), (9, 250), (7, 400))]
    text = "\n".join([*lines, "11 17953"]) + "\n"
    folder = folder_with(tmp_path, applied_11=text, applied_12=lines[0], applied_x=lines[0])
    of: dict[str, Any] = {"recording": "r"}
    expected = [
        {**of, "broker_id": broker, "metadata_offset": offset, "applied_at": BEGIN + later}
        for broker, offset, later in (
            (11, 7, timedelta(milliseconds=1)),
            (11, 9, timedelta(milliseconds=250)),
            (12, 7, timedelta(milliseconds=1)),
        )
    ]
    assert read(folder, APPLIED_OBSERVATIONS) == [expected]


def test_controllers_note_lowest_acknowledged_offsets(tmp_path: Path) -> None:
    """None where no broker counts; nothing of a line that was cut."""
    lines = [f"11 9 7 {BEGIN_US}", f"12 9 {2**63 - 1} {BEGIN_US + 1}", "11 9 9 17"]
    folder = folder_with(tmp_path, **{"lowest_acked-2": "\n".join(lines)})
    found = read(folder, LOWEST_ACKED_OBSERVATIONS)[0]
    assert [list(row.values()) for row in found] == [
        ["r", 2, BEGIN, 11, 9, 7],
        ["r", 2, BEGIN + timedelta(microseconds=1), 12, 9, None],
    ]


def test_both_kinds_stand_beside_each_other_and_are_read_again_if_one_changed(
    tmp_path: Path,
) -> None:
    folder = folder_with(tmp_path, applied_11=f"7 {BEGIN_US}\n")
    seen = {"op": "create", "topic": "t", "requested_at": 1.5, "visible": {"11": 2.5, "12": None}}
    (folder / "client_ops.jsonl").write_text(json.dumps(seen) + "\n" + '{"op": "cre')
    clients, applied = read(folder, CLIENT_OBSERVATIONS, APPLIED_OBSERVATIONS)
    assert [(row["broker_id"], row["topic"]) for row in clients] == [(11, "t"), (12, "t")]
    assert [row["metadata_offset"] for row in applied] == [7]
    folder_with(tmp_path, applied_11=f"8 {BEGIN_US}\n")
    clients, applied = read(folder, CLIENT_OBSERVATIONS, APPLIED_OBSERVATIONS)
    assert [row["metadata_offset"] for row in applied] == [8]
    assert len(clients) == 2


def test_what_no_column_takes_and_what_lies_elsewhere_is_left_out(tmp_path: Path) -> None:
    folder = folder_with(tmp_path)
    at, sound = BEGIN.timestamp(), {"11": BEGIN.timestamp()}
    operations = [
        ("fine", at, sound),
        ("too late", 1e300, sound),
        ("no text \ud800", at, sound),
        ("no broker", at, {"-1": at, "99999999999": at}),
    ]
    lines = [
        json.dumps({"op": name, "topic": "t", "requested_at": requested_at, "visible": visible})
        for name, requested_at, visible in operations
    ]
    (folder / "client_ops.jsonl").write_text("\n".join([*lines, "[" * 100_000]))
    (tmp_path / "elsewhere.txt").write_text(f"7 {BEGIN_US}\n")
    (folder / "applied-11.txt").symlink_to(tmp_path / "elsewhere.txt")
    node = Node(1, None, ("c.log",), "UTC")
    clients, applied = read(folder, CLIENT_OBSERVATIONS, APPLIED_OBSERVATIONS, nodes=(node,))
    assert [row["operation"] for row in clients] == ["fine"]
    assert applied == []

"""From damaged logs to the page: what is the matter with them, and which advice is withheld."""

import gzip
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from markupsafe import escape
from small_logs import folder_of

from kip_replay.jobs import report, run


def damaged(folder: Path, node: int, damage: Callable[[bytes], bytes | None]) -> str:
    """A copy of failover-4.0 of which one node's log is otherwise, or missing."""
    shutil.copytree(folder_of("failover-4.0"), folder)
    manifest = json.loads((folder / "recording.json").read_text())
    manifest["name"] = folder.name
    [log] = [folder / each["log"] for each in manifest["nodes"] if each["node_id"] == node]
    content = damage(log.read_bytes())
    if content is None:
        log.unlink()
        manifest["nodes"] = [each for each in manifest["nodes"] if each["node_id"] != node]
    else:
        log.write_bytes(content)
    (folder / "recording.json").write_text(json.dumps(manifest))
    return str(folder)


def in_the_middle(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    """Changes 20 lines in the middle of a log."""

    def damage(content: bytes) -> bytes:
        lines = gzip.decompress(content).splitlines(keepends=True)
        middle = slice(len(lines) // 2, len(lines) // 2 + 20)
        lines[middle] = map(change, lines[middle])
        return gzip.compress(b"".join(lines))

    return damage


@pytest.mark.slow
def test_bad_logs_are_on_top_and_what_rests_on_them_is_withheld(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sessions, changes, applied = "incremental_fetch", "hwm_parking", "lowest_acked_offset"
    cut = in_the_middle(lambda line: b"")
    shortened = in_the_middle(lambda line: line[: len(line) // 2] + b"\n")
    cases = {
        # Four ids of them controller 1 had used before its restart, 45 s ago: they show no gap.
        "cut-controller": (2, cut, "15 lines or more are missing", {changes, applied}),
        "rejected": (11, shortened, "20 of 3,530 lines", {sessions}),
        "truncated": (12, lambda log: log[: len(log) * 2 // 3], "ends in the middle", {sessions}),
        # Writes arrived at 13: how long their clients would wait is unknown.
        "no-log": (13, lambda _: None, "has no log", {sessions, applied}),
    }
    logs = tmp_path / "logs"
    paths = [damaged(logs / name, *of[:2]) for name, of in cases.items()]
    arguments = [*paths, "--warehouse", str(tmp_path / "warehouse")]
    assert run.main(arguments) == 3
    capsys.readouterr()
    assert report.main([*arguments, "--format", "json"]) == 0
    found = {page["recording"]: page for page in json.loads(capsys.readouterr().out)["recordings"]}
    html = (tmp_path / "warehouse" / "report.html").read_text()
    for name, (_, _, phrase, withheld) in cases.items():
        texts = [alert["text"] for alert in found[name]["alerts"] if alert["is_critical"]]
        assert any(phrase in text for text in texts[:-1]), texts
        assert texts[-1].startswith("advice is withheld on ")
        [page] = re.findall(f"(?s)<h2><bdi>{name}</bdi></h2>.*?<h3", html)
        assert all(escape(text) in page for text in texts)
        rules = found[name]["rules"].items()
        assert {rule for rule, of in rules if of["advice"] == "withheld"} == withheld

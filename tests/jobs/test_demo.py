"""The first ten minutes: demo, its page, and the notebook on what it leaves."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ran import ran

import kip_replay as kr
from kip_replay.pipelines.errors import UserError

NOTEBOOK = Path(__file__).resolve().parents[2] / "docs" / "notebook.ipynb"


def test_a_first_look_needs_neither_java_nor_spark_and_a_notebook_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = (
        "import sys, webbrowser; from kip_replay.jobs import demo\n"
        "webbrowser.open = lambda page: print('opened', page)\n"
        "status = demo.main(['--warehouse', 'demo'])\n"
        "heavy = {'pyspark', 'py4j', 'great_expectations', 'sqlalchemy'}\n"
        "sys.exit(status or bool(heavy & {*sys.modules}))"
    )
    nowhere = {"PATH": "", "JAVA_HOME": str(tmp_path)}
    done = ran(sys.executable, "-c", program, cwd=tmp_path, **nowhere)
    assert done.returncode == 0, done.stderr
    assert f"\nopened {(tmp_path / 'demo' / 'report.html').as_uri()}\n" in done.stdout
    assert "no browser was found" in done.stdout  # print returns None

    monkeypatch.chdir(tmp_path)
    cells = [c for c in json.loads(NOTEBOOK.read_text())["cells"] if c["cell_type"] == "code"]
    assert all(cell["outputs"] == [] for cell in cells)
    names: dict[str, Any] = {}
    for cell in cells:
        exec("".join(cell["source"]), names)
    assert {*names["fetches"].variant} == {*names["lag"].variant}
    assert str(names["fetches"].fetch_offset.dtype) == "Int64"  # exact where some are missing
    assert len(names["slowest"]) == 5

    w = kr.open("demo")
    sweeps = w.outcomes("hwm_parking", ["metadata-4.0"], where="true", as_="arrow")
    assert sweeps.num_rows > len(names["fetches"])
    assert "topic name" in [*w.columns("topic_names").comment]
    for mistake, sentence in (
        (lambda: w.table("requestz"), "is requests or request_errors meant?"),
        (lambda: w.table("requests", "friday"), "there are: metadata-4.0"),
        (lambda: w.outcomes("parking"), "there are: closest_replica, hwm_parking"),
        (lambda: w.sql("SELECT 1", as_="polars"), "write pandas, arrow or spark"),
        (lambda: kr.open("nowhere"), "there are no tables in the warehouse"),
    ):
        with pytest.raises(UserError, match=sentence):
            mistake()

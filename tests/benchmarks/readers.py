"""Programs that read a recording's logs, each in a process of its own; they print JSON last.

All get the same files and say how many lines they read and the sum of ``totalTimeMs`` in
microseconds, so that nobody can skip the work. ``seconds`` is the work alone: imports come before,
and checking what was written comes after.

    python -m benchmarks.readers NAME RECORDING OUT
"""

import json
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from .processes import CORES

ON_ONE_CORE = {"line_parser"}
#: Text behind the JSON of a line.
_BEHIND = " (kafka.request.logger)"
#: What the envelope gives as it stands: 16 columns of ``requests``, and DuckDB's types of them.
ENVELOPE = {
    "requestHeader": {
        **dict.fromkeys(("requestApiKey", "requestApiVersion", "correlationId"), "INTEGER"),
        **dict.fromkeys(("requestApiKeyName", "clientId"), "VARCHAR"),
    },
    "isForwarded": "BOOLEAN",
    **dict.fromkeys(("connection", "listener", "principal"), "VARCHAR"),
    **dict.fromkeys(("totalTimeMs", "requestQueueTimeMs", "localTimeMs"), "DOUBLE"),
    **dict.fromkeys(("remoteTimeMs", "throttleTimeMs"), "DOUBLE"),
    **dict.fromkeys(("responseQueueTimeMs", "sendTimeMs"), "DOUBLE"),
}


class Work(NamedTuple):
    """What a reader has done."""

    seconds: float
    rows: int
    total_us: int


def duckdb_transform(recording: Path, out: Path) -> Work:
    """Lines, one ``json_transform`` into a struct, 17 columns, Parquet."""
    import duckdb

    query = f"""
        COPY (
            SELECT completed_at, unnest(json_transform(json, '{json.dumps(ENVELOPE)}'),
                recursive := true)
            FROM (
                SELECT strptime(line[2:24], '%Y-%m-%d %H:%M:%S,%g') AS completed_at,
                    line[instr(line, '{{') : -{len(_BEHIND) + 1}] AS json
                FROM read_csv('{recording}/*.log', columns = {{'line': 'VARCHAR'}},
                    delim = '\\x01', quote = '', escape = '', header = false,
                    auto_detect = false, max_line_size = 100000000)
            )
        ) TO '{out}' (FORMAT parquet)"""
    connection = duckdb.connect(config={"threads": CORES, "preserve_insertion_order": False})
    begin = time.perf_counter()
    connection.execute(query)
    return _of_parquet(time.perf_counter() - begin, out, "totalTimeMs")


def line_parser(recording: Path, out: Path) -> Work:
    """Ours: every line to typed Arrow rows, partitions of FETCHes included; one core."""
    import numpy as np

    from kip_replay.pipelines.ingest.log_files import LogFile
    from kip_replay.pipelines.ingest.parse_range import ParsedRange, parse_together
    from kip_replay.pipelines.ingest.survey import survey

    files = [
        survey(LogFile("bench", node["node_id"], "UTC", node["log"], str(recording / node["log"])))
        for node in json.loads((recording / "recording.json").read_text())["nodes"]
    ]
    ranges = [replace(ParsedRange.of(file, file.ranges[0]), end=file.end) for file in files]
    rows = total_us = 0
    begin = time.perf_counter()
    for each in ranges:
        for batch, _ in parse_together([each]):
            request = batch.column("request")
            rows += len(request) - request.null_count
            total_ms = request.field("total_ms").to_numpy(zero_copy_only=False)
            total_us += int(np.rint(total_ms * 1000).sum())
    return Work(time.perf_counter() - begin, rows, total_us)


def ingest_job(recording: Path, out: Path) -> Work:
    """Ours: ``kip-replay ingest`` as a whole, from the files to all Delta tables."""
    import deltalake

    from kip_replay.jobs.ingest import main

    begin = time.perf_counter()
    status = main([str(recording), "--warehouse", str(out)])
    seconds = time.perf_counter() - begin
    if status:
        raise RuntimeError(f"kip-replay ingest ended with status {status}")
    # Read past delta-rs: its file system may abort a process that ends right after.
    return _of_parquet(seconds, deltalake.DeltaTable(out / "requests").file_uris(), "total_ms")


#: By name, in the order of the page.
READERS: dict[str, Callable[[Path, Path], Work]] = {
    "duckdb_transform": duckdb_transform,
    "line_parser": line_parser,
    "ingest": ingest_job,
}


def _of_parquet(seconds: float, files: Any, column: str) -> Work:
    import numpy as np
    from pyarrow import dataset

    table = dataset.dataset(files).to_table(columns=[column])
    total_us = int(np.rint(table.column(column).to_numpy() * 1000).sum())
    return Work(seconds, table.num_rows, total_us)


def cores_of(name: str) -> int:
    """How many cores a reader may use."""
    return 1 if name in ON_ONE_CORE else CORES


def main() -> None:
    name, recording, out = sys.argv[1:]
    with redirect_stdout(sys.stderr):
        work = READERS[name](Path(recording), Path(out))
    print(json.dumps(work._asdict()), flush=True)


if __name__ == "__main__":
    main()

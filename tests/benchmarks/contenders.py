"""Programs that read a request log, each in a process of its own; the last line it prints is JSON.

All get the same file and say how many lines they read and the sum of ``totalTimeMs`` in
microseconds, so that nobody can skip the work. ``seconds`` is the work alone: imports come before,
and checking what was written comes after.

    python -m benchmarks.contenders NAME LOG OUT
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

from .real_lines import NODE_ID

CORES = 2
ON_ONE_CORE = {"line_parser"}
RECORDING = "bench"
#: Text before and behind the JSON of the lines that ``real_lines`` writes.
JSON_BEGIN = len("[2026-01-05 00:00:00,000] DEBUG Completed request:")
JSON_TAIL = len(" (kafka.request.logger)")

#: The 17 columns of ``requests`` that the envelope gives as they stand, and DuckDB's types of them;
#: first the stamp, which is not in the JSON.
HEADER = {
    "requestApiKey": "INTEGER",
    "requestApiKeyName": "VARCHAR",
    "requestApiVersion": "INTEGER",
    "correlationId": "INTEGER",
    "clientId": "VARCHAR",
}
ENVELOPE = {
    "isForwarded": "BOOLEAN",
    "connection": "VARCHAR",
    "listener": "VARCHAR",
    "principal": "VARCHAR",
    "totalTimeMs": "DOUBLE",
    "requestQueueTimeMs": "DOUBLE",
    "localTimeMs": "DOUBLE",
    "remoteTimeMs": "DOUBLE",
    "throttleTimeMs": "DOUBLE",
    "responseQueueTimeMs": "DOUBLE",
    "sendTimeMs": "DOUBLE",
}


class Work(NamedTuple):
    """What a contender has done."""

    seconds: float
    rows: int
    total_us: int


def duckdb_transform(log: Path, out: Path) -> Work:
    """Lines, one ``json_transform`` into a struct, 17 columns, Parquet."""
    import duckdb

    shape = json.dumps({"requestHeader": HEADER, **ENVELOPE})
    columns = [f"found.requestHeader.{name}" for name in HEADER]
    columns += [f"found.{name}" for name in ENVELOPE]
    query = f"""
        COPY (
            SELECT completed_at, {", ".join(columns)} FROM (
                SELECT completed_at, json_transform(json, '{shape}') AS found FROM (
                    SELECT strptime(line[2:24], '%Y-%m-%d %H:%M:%S,%g') AS completed_at,
                        line[{JSON_BEGIN + 1}:-{JSON_TAIL + 1}]::JSON AS json
                    FROM read_csv('{log}', columns = {{'line': 'VARCHAR'}}, delim = '\\x01',
                        quote = '', escape = '', header = false, auto_detect = false,
                        max_line_size = 100000000)
                )
            )
        ) TO '{out}' (FORMAT parquet)"""
    connection = duckdb.connect(config={"threads": CORES, "preserve_insertion_order": False})
    begin = time.perf_counter()
    connection.execute(query)
    return _of_parquet(time.perf_counter() - begin, out, "totalTimeMs")


def line_parser(log: Path, out: Path) -> Work:
    """Ours: every line to typed Arrow rows, partitions of FETCHes included; one core."""
    from dataclasses import replace

    import numpy as np

    from kip_replay.pipelines.ingest.log_files import LogFile
    from kip_replay.pipelines.ingest.parse_range import ParsedRange, parse_together
    from kip_replay.pipelines.ingest.survey import survey

    found = survey(LogFile(RECORDING, NODE_ID, "UTC", log.name, str(log)))
    whole = replace(ParsedRange.of(found, found.ranges[0]), end=found.end)
    rows = total_us = 0
    begin = time.perf_counter()
    for batch, _ in parse_together([whole]):
        request = batch.column("request")
        rows += len(request) - request.null_count
        total_ms = request.field("total_ms").to_numpy(zero_copy_only=False)
        total_us += int(np.rint(total_ms * 1000).sum())
    return Work(time.perf_counter() - begin, rows, total_us)


def ingest_job(log: Path, out: Path) -> Work:
    """Ours: ``kip-replay ingest`` as a whole, from the file to all Delta tables."""
    import deltalake

    from kip_replay.jobs.ingest import main

    words = ["--name", RECORDING, "--timezone", "UTC", "--kafka-version", "4.0.0"]
    begin = time.perf_counter()
    status = main([*words, "--node", f"{NODE_ID}={log}", "--warehouse", str(out)])
    seconds = time.perf_counter() - begin
    if status:
        raise RuntimeError(f"kip-replay ingest ended with status {status}")
    # Read past delta-rs: its file system may abort a process that ends right after.
    return _of_parquet(seconds, deltalake.DeltaTable(out / "requests").file_uris(), "total_ms")


#: By name, in the order of the page.
CONTENDERS: dict[str, Callable[[Path, Path], Work]] = {
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
    """How many cores a contender may use."""
    return 1 if name in ON_ONE_CORE else CORES


def use_cores(count: int) -> None:
    """From now on this process, and what it starts, has so many cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def main() -> None:
    name, log, out = sys.argv[1:]
    with redirect_stdout(sys.stderr):
        work = CONTENDERS[name](Path(log), Path(out))
    print(json.dumps(work._asdict()), flush=True)


if __name__ == "__main__":
    main()

"""Programs that read a request log, each in a process of its own; the last line it prints is JSON.

All get the same file and say how many lines they read and the sum of ``totalTimeMs`` in
microseconds, so that nobody can skip the work. ``seconds`` is the work alone: imports, the start of
the JVM and of Spark come before, and checking what was written comes after.

    python -m benchmarks.contenders NAME LOG OUT
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

from .real_lines import NODE_ID

CORES = 2
ON_ONE_CORE = {"orjson", "line_parser"}
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


def spark_from_json(log: Path, out: Path) -> Work:
    """Lines, ``from_json``, 17 columns, Parquet; plain Spark, no Python workers."""
    from pyspark.sql import functions as F

    from kip_replay.pipelines.engines.session import spark_session

    header = ", ".join(f"{name}: {_spark_type(type_)}" for name, type_ in HEADER.items())
    fields = ", ".join(f"{name} {_spark_type(type_)}" for name, type_ in ENVELOPE.items())
    shape = f"requestHeader struct<{header}>, {fields}"
    spark = spark_session("bench", conf_overrides={"spark.master": f"local[{CORES}]"})
    spark.range(10).count()
    begin = time.perf_counter()
    line = F.col("value")
    text = F.substring(line, JSON_BEGIN + 1, F.length(line) - F.lit(JSON_BEGIN + JSON_TAIL))
    stamp = F.to_timestamp(F.substring(line, 2, 23), "yyyy-MM-dd HH:mm:ss,SSS")
    spark.read.text(str(log)).select(
        stamp.alias("completed_at"), F.from_json(text, shape).alias("j")
    ).select(
        "completed_at", "j.requestHeader.*", *(f"j.{name}" for name in ENVELOPE)
    ).write.parquet(str(out))
    return _of_parquet(time.perf_counter() - begin, out, "totalTimeMs")


def orjson_loop(log: Path, out: Path) -> Work:
    """Parsing only, one core."""
    import orjson

    rows = total_us = 0
    begin = time.perf_counter()
    with log.open("rb", buffering=1 << 20) as lines:
        for line in lines:
            parsed = orjson.loads(line[JSON_BEGIN : -JSON_TAIL - 1])
            rows += 1
            total_us += round(parsed["totalTimeMs"] * 1000)
    return Work(time.perf_counter() - begin, rows, total_us)


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
    import numpy as np
    from pyarrow import dataset

    from kip_replay.jobs.ingest import main
    from kip_replay.pipelines.engines.session import spark_session

    spark = spark_session("bench", conf_overrides={"spark.master": f"local[{CORES}]"})
    spark.range(10).count()
    words = ["--name", RECORDING, "--timezone", "UTC", "--kafka-version", "4.0.0"]
    begin = time.perf_counter()
    status = main([*words, "--node", f"{NODE_ID}={log}", "--warehouse", str(out)])
    seconds = time.perf_counter() - begin
    if status:
        raise RuntimeError(f"kip-replay ingest ended with status {status}")
    # Read past delta-rs: its file system may abort a process that ends right after.
    files = deltalake.DeltaTable(out / "requests").file_uris()
    table = dataset.dataset(files).to_table(columns=["total_ms"])
    total_us = int(np.rint(table.column("total_ms").to_numpy() * 1000).sum())
    return Work(seconds, table.num_rows, total_us)


#: By name, in the order of the page.
CONTENDERS: dict[str, Callable[[Path, Path], Work]] = {
    "duckdb_transform": duckdb_transform,
    "spark": spark_from_json,
    "orjson": orjson_loop,
    "line_parser": line_parser,
    "ingest": ingest_job,
}


def _of_parquet(seconds: float, out: Path, column: str) -> Work:
    import numpy as np
    import pyarrow.parquet as pq

    table = pq.read_table(out, columns=[column])
    total_us = int(np.rint(table.column(column).to_numpy() * 1000).sum())
    return Work(seconds, table.num_rows, total_us)


def _spark_type(duckdb_type: str) -> str:
    return {"INTEGER": "int", "VARCHAR": "string"}.get(duckdb_type, duckdb_type.lower())


def cores_of(name: str) -> int:
    """How many cores a contender may use."""
    return 1 if name in ON_ONE_CORE else CORES


def use_cores(count: int) -> None:
    """From now on this process, and what it starts, has so many cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def main() -> None:
    name, log, out = sys.argv[1:]
    use_cores(cores_of(name))
    with redirect_stdout(sys.stderr):
        work = CONTENDERS[name](Path(log), Path(out))
    print(json.dumps(work._asdict()), flush=True)


if __name__ == "__main__":
    main()

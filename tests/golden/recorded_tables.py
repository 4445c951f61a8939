"""A recording in DuckDB, without Spark: our parser's rows, and replays of naive readers' events.

What the naive readers call a line is its digest; here it is the parser's ``request_id``.
"""

import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

import duckdb
import pyarrow as pa
from duckdb_tables import Row, database_of, rows_in
from parsed_lines import parsed
from recorded_logs import folder_of

from kip_replay.pipelines.ingest.log_tables import tables_of
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

_IDS = ("request_id", "recorded_request_id", "acks_all_fetch_id", "min_isr_fetch_id")


class Log:
    """A recording's lines, their rows in the tables of the log, and request_id by digest."""

    def __init__(self, recording: str) -> None:
        self.recording = recording
        self.tables: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        self.ids: dict[str, str] = {}
        self._lines: dict[str, list[bytes]] = {}
        self._read: dict[str, dict[str, Any]] = {}
        folder = folder_of(recording)
        for node in json.loads((folder / "recording.json").read_text())["nodes"]:
            lines = gzip.decompress((folder / node["log"]).read_bytes()).splitlines(keepends=True)
            self._lines[node["log"]] = lines
            digests = (_digest(node["node_id"], line) for line in lines)
            batch = parsed(lines, node["node_id"], file=node["log"], recording=recording)
            ids = batch.column("line_id").to_pylist()
            self.ids.update(zip(islice(digests, len(ids)), ids, strict=True))
            for table, rows in tables_of(batch):
                self.tables[table.name].append(rows)

    def text(self, source: str) -> str:
        """The line that 'file:line' names."""
        file, _, number = source.rpartition(":")
        return self._lines[file][int(number) - 1].decode()

    def line(self, source: str) -> dict[str, Any]:
        if source not in self._read:
            text = self.text(source)
            self._read[source] = json.loads(text[text.index("{") : text.rindex("}") + 1])
        return self._read[source]

    def lines(self, source: str, having: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """The lines of its file that have a text."""
        file, _, _ = source.rpartition(":")
        for number, text in enumerate(self._lines[file], 1):
            if having.encode() in text:
                yield f"{file}:{number}", self.line(f"{file}:{number}")

    def stamp_ms(self, source: str) -> float:
        """When it was written, milliseconds of its day."""
        hours, minutes, seconds = self.text(source)[12:24].split(":")
        return (int(hours) * 60 + int(minutes)) * 60_000 + float(seconds.replace(",", ".")) * 1000


def _digest(node_id: int, line: bytes) -> str:
    """As ``naive_log`` has it."""
    return hashlib.sha256(f"{node_id} {line.decode()}".encode()).hexdigest()[:16]


@cache
def log_of(recording: str) -> Log:
    return Log(recording)


def session(log: Log, outcomes: Mapping[Table, Iterable[Row]]) -> duckdb.DuckDBPyConnection:
    """DuckDB with a recording's tables; times of ``outcomes`` may be microseconds."""
    filled = {TABLES[name]: pa.Table.from_batches(rows) for name, rows in log.tables.items()}
    for table, rows in outcomes.items():
        filled[table] = rows_in(table, (_renamed(log, row) for row in rows))
    return database_of(filled)


def _renamed(log: Log, row: Row) -> Row:
    ids = {name: log.ids[row[name]] for name in _IDS if row.get(name) is not None}
    return {"recording": log.recording, **row, **ids}

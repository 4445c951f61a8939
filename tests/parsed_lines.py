"""Physical lines in any layout as rows, all at once."""

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from kip_replay.replay.kafka.request_log import LineParser, Rows
from kip_replay.replay.kafka.request_log.layouts import LineReader
from kip_replay.replay.kafka.request_log.line import without_line_end
from kip_replay.replay.log_tables import LINE_TABLES

REQUEST_LOG = Path(__file__).parent / "data" / "request_log"
#: Recorded lines: every API and version, and long lines of full FETCHes.
LINES = gzip.decompress((REQUEST_LOG / "lines.log.gz").read_bytes()).splitlines()
#: Columns that a table has of its lines.
SHARED = ("recording", "request_id", "line_id", "node_id", "source_file", "line_number")
#: Tables with at most one row of a line.
SINGLE = {"requests": "request", "rejected_lines": "rejected", "metadata_writes": "metadata_write"}
SINGLE |= {"fetches": "fetch", "produces": "produce", "broker_heartbeats": "broker_heartbeat"}
SINGLE |= {"producer_ids": "producer_id"}
LISTS = [table.name for table in LINE_TABLES if table.name not in SINGLE]


def parsed(
    lines: Iterable[bytes],
    node_id: int = 11,
    zone: str = "UTC",
    file: str = "f",
    first: int = 1,
    fold_changes_at_line: int | None = None,
    recording: str = "r",
) -> list[dict[str, Any]]:
    """A row for each line that is or should be a request, with those of its tables in it.

    Lines may end in LF, CR LF or nothing.
    """
    reader = LineReader(zone)
    read = reader.read([without_line_end(line) for line in lines], first)
    read.add(reader.ended())
    parser = LineParser(recording, node_id, zone)
    return by_line(parser.parse_batch(read, [file] * len(read.lines), fold_changes_at_line))


def by_line(rows: Rows) -> list[dict[str, Any]]:
    """A row for each line, with those of its tables in it."""
    lines = rows["lines"].to_pylist()
    found = [dict.fromkeys(SINGLE.values()) | {name: [] for name in LISTS} | line for line in lines]
    for table in LINE_TABLES:
        batch = rows[table.name]
        batch.validate(full=True)
        assert batch.drop_columns(["position"]).schema == table.arrow_schema
        for row in batch.to_pylist():
            line = found[row.pop("position")]
            for name in row.keys() & {*SHARED}:
                assert row.pop(name) == line["request_id" if name == "line_id" else name]
            if (single := SINGLE.get(table.name)) is None:
                line[table.name].append(row)
            else:
                assert line[single] is None
                line[single] = row
    return found


def line_of(
    api: tuple[str, int, int],
    request: Any,
    response: Any,
    stamp: str = "2026-11-20 20:30:34,831",
    correlation_id: int = 7,
    **envelope: object,
) -> bytes:
    """The line that logs a request of an API (name, key, version) with these bodies."""
    name, key, version = api
    header = {"requestApiKey": key, "requestApiVersion": version, "requestApiKeyName": name}
    times = ("requestQueueTimeMs", "localTimeMs", "remoteTimeMs", "responseQueueTimeMs")
    logged = {
        "isForwarded": False,
        "requestHeader": {**header, "correlationId": correlation_id, "clientId": "c"},
        "request": request,
        "response": response,
        "connection": "a:1-b:2-0-0",
        **dict.fromkeys(times, 0.0),
        **dict.fromkeys(("totalTimeMs", "sendTimeMs"), 1.0),
    }
    text = json.dumps(logged | envelope, separators=(",", ":"))
    return f"[{stamp}] DEBUG Completed request:{text} (kafka.request.logger)".encode()

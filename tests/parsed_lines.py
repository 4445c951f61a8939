"""Physical lines in any layout as rows, all at once."""

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from kip_replay.replay.kafka.request_log import LineParser
from kip_replay.replay.kafka.request_log.layouts import LineReader
from kip_replay.replay.kafka.request_log.line import without_line_end


def parsed(
    lines: Iterable[bytes],
    node_id: int = 11,
    zone: str = "UTC",
    file: str = "f",
    first: int = 1,
    fold_changes_at_line: int | None = None,
    recording: str = "r",
    **options: Any,
) -> pa.RecordBatch:
    """A row for each line that is or should be a request; they may end in LF, CR LF or nothing."""
    reader = LineReader(zone)
    read = reader.read([without_line_end(line) for line in lines], first)
    read.add(reader.ended())
    parser = LineParser(recording, node_id, zone, **options)
    return parser.parse_batch(read, file, fold_changes_at_line)

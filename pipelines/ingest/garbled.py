"""Where a damaged gzip begins to give what was not in it.

Where a byte is altered, inflating mostly goes on until a code is met that cannot be, or to the end,
where the checksum does not fit. What comes out meanwhile is not what went in, and zlib returns only
where it noticed. So of the damaged member, lines are read up to the first that is no sound line. An
altered letter that leaves its line sound is not found: there is no checksum of less than a member.
"""

from __future__ import annotations

from itertools import accumulate, islice

import pyarrow.compute as pc

from kip_replay.pipelines.ingest.log_bytes import (
    CHUNK_BYTES,
    Damage,
    LogBytes,
    LongLine,
    split_lines,
)
from kip_replay.pipelines.ingest.log_files import LogFile
from kip_replay.replay.kafka.request_log import LineParser, Reason
from kip_replay.replay.kafka.request_log.line import without_line_end

#: Other lines that a sound log may have.
_SOUND = frozenset({None, Reason.blank.name, Reason.not_a_request_line.name})
_BATCH_LINES = 1000


def first_garbled_byte(file: LogFile, damage: Damage) -> int | None:
    """Where, uncompressed, the first damaged line begins; None if there is none."""
    if damage.unsure_from_byte is None:
        return None
    parser = LineParser(file.recording, file.node_id, file.timezone)
    lines = split_lines(LogBytes(file.path).chunks(), CHUNK_BYTES)
    begin = 0
    while batch := list(islice(lines, _BATCH_LINES)):
        sizes = [1 + (x.line_bytes if isinstance(x, LongLine) else len(x)) for x in batch]
        ends = list(accumulate(sizes, initial=begin))
        begin = ends[-1]
        if begin <= damage.unsure_from_byte:
            continue
        texts = [x.head if isinstance(x, LongLine) else without_line_end(x) for x in batch]
        parsed = parser.parse_batch(texts, file.source_file, 1)
        reasons = pc.struct_field(parsed.column("rejected"), "reason").to_pylist()
        for start, end, reason in zip(ends, ends[1:], reasons, strict=False):
            if end > damage.unsure_from_byte and reason not in _SOUND:
                return start
    return None

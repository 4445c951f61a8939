"""What a rule makes of a damaged log, beside what it makes of the whole one."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import pyarrow as pa
from emitted import rows_of

from kip_replay.replay.log_gaps import LogGap
from kip_replay.replay.rule import Rule, Settings

Row = dict[str, Any]
RECORDING = "damaged"


def outcomes(
    rule: Rule,
    rows: Sequence[Sequence[Any]],
    voters: Sequence[int],
    gaps: Sequence[LogGap] = (),
    **key: int,
) -> dict[str, list[Row]]:
    """What a rule makes of its input rows, by table; times as integers."""
    settings = Settings(
        voters={RECORDING: voters},
        recorded_heartbeat_interval_ms={RECORDING: 2_000},
        log_gaps={RECORDING: gaps} if gaps else {},
    )
    replay = rule.started(settings, {"recording": RECORDING, **key}, None)
    columns = list(zip(*rows, strict=True)) or [()] * len(rule.input_schema)
    arrays = [pa.array(c, f.type) for c, f in zip(columns, rule.input_schema, strict=True)]
    batch = pa.RecordBatch.from_arrays(arrays, schema=rule.input_schema)
    found: dict[str, list[Row]] = {table.name: [] for table in rule.tables}
    for emitted in (replay.feed(batch), replay.finish()):
        for table, each in zip(rule.tables, emitted, strict=True):
            found[table.name] += rows_of(each)
    return found


def compared(
    whole: Iterable[Row],
    left: Iterable[Row],
    key: Callable[[Row], Hashable],
    same: Callable[[Row, Row], bool],
) -> Counter[str]:
    """How many rows of a damaged log are equal, unknown, different, or in no row of the whole."""
    of_whole = {key(row): row for row in whole}
    counts: Counter[str] = Counter()
    for row in left:
        if row["verdict"] == "unknown":
            counts["unknown"] += 1
        elif key(row) not in of_whole:
            counts["new"] += 1
        else:
            counts["equal" if same(row, of_whole[key(row)]) else "different"] += 1
    return counts

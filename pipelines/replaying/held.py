"""Accounts for what held when logs began, and what gaps leave open, once for all rules.

A log begins in the middle of a cluster's life. What held then often shows later: METADATA that
names an ISR tells that of the beginning, if no line between changed it. A gap in another node's
log leaves open what it would show. The texts say which evidence counts, and what refutes it.
"""

from collections.abc import Collection, Mapping

import pyarrow as pa

from kip_replay.pipelines.engines import NO_INPUTS, Engine, Inputs
from kip_replay.pipelines.engines.text import Text
from kip_replay.pipelines.replaying.log_gaps import log_gaps, voters_table
from kip_replay.pipelines.replaying.rule_texts import HELD, SHARED
from kip_replay.pipelines.warehouse.steps import (
    Covered,
    Step,
    contents_of,
    fingerprint,
    readings_of,
)
from kip_replay.replay.log_tables import HELD_TABLES, Uncertainties
from kip_replay.replay.model.brokers import FENCED_AFTER_US, SESSION_TIMEOUT_US
from kip_replay.replay.model.partition import REPLICA_LAG_TIME_MAX_US
from kip_replay.replay.model.raft import METADATA_MAX_IDLE_INTERVAL_US
from kip_replay.replay.table import Table

STEP = Step(
    name="held",
    writes=HELD_TABLES,
    modules=(__name__,),
    queries=(*HELD, *SHARED.values()),
)
#: How old METADATA may be: brokers apply a change within it.
_STALE_US = 2_000_000
#: Topic.MAX_NAME_LENGTH
_TOPIC_NAME_MAX = 249
_VALUES = {
    "stale_us": _STALE_US,
    "silence_us": SESSION_TIMEOUT_US,
    # Until a response has the fencing.
    "fenced_us": FENCED_AFTER_US + 600_000,
    # A node fetches at least so often: a FETCH waits 500 ms.
    "pause_us": 2_000_000,
    # How far two of its records may be off, and how long a gap may be so that their number is
    # certain.
    "idle_us": METADATA_MAX_IDLE_INTERVAL_US,
    "idle_slack_us": 60_000,
    "counted_us_max": 20_000_000,
    "lag_us_max": REPLICA_LAG_TIME_MAX_US,
    # Of a name's characters in Java's hash code, from the last one on.
    "powers_of_31": [31**n % (1 << 32) for n in range(_TOPIC_NAME_MAX)],
    # Later than all lines.
    "never_us": 1 << 52,
}


def account(
    engine: Engine,
    voters: Mapping[str, Collection[int]],
    inputs: Inputs = NO_INPUTS,
    *,
    has_gaps: bool = True,
    **values: int,
) -> dict[Table, pa.Table]:
    """Rows of the account's tables, given each recording's voters; ``has_gaps``: any has."""
    read = {**inputs, "voters": voters_table(voters)}
    rows: dict[Table, pa.Table] = {}
    for table, file in zip(HELD_TABLES, HELD, strict=True):
        # Without a gap nothing is uncertain.
        if table is Uncertainties and not has_gaps:
            rows[table] = table.arrow_schema.empty_table()
            continue
        filled = engine.rows(Text.read(file, SHARED, **_VALUES, **values), voters, read)
        rows[table] = filled.select(table.arrow_schema.names).cast(table.arrow_schema)
    return rows


def find_what_held(engine: Engine, voters: Mapping[str, Collection[int]], evidence_us: int) -> None:
    """Writes the account of recordings, given their voters, where logs or this code changed.

    ``evidence_us``: how long after a beginning a line may still tell of it.
    """
    warehouse, code = engine.warehouse, STEP.code()
    readings, gaps = readings_of(warehouse, voters), log_gaps(warehouse, voters)
    wanted = {
        name: Covered(
            identity=fingerprint(code, evidence_us, sorted(ids)),
            inputs=fingerprint(contents_of(readings[name]), gaps.get(name)),
        )
        for name, ids in voters.items()
    }
    if due := STEP.due(warehouse, wanted):
        ids, has_gaps = {name: voters[name] for name in due}, bool(due.keys() & gaps.keys())
        rows = account(engine, ids, has_gaps=has_gaps, evidence_us=evidence_us)
        warehouse.replace(STEP.name, {name: str(wanted[name]) for name in due}, rows)

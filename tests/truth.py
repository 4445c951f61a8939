"""Holds outcomes against the truth beside recordings of this project, prints docs/accuracy.md.

    PYTHONPATH=tests:. python -m truth WAREHOUSE RECORDING...

``client_ops.jsonl``: operations with seconds since 1970, and when clients first saw a topic at each
broker. ``applied-<broker>.txt``: offsets, and when the broker's publishers had run on them.
``lowest-acked-<controller>.txt``: heartbeats, and the lowest offset of all that count when it
handled them (2^63-1: none does). ``deliveries.jsonl``: records, when they were sent and when
readers had them. No run reads any; what is held against them, texts in data/truth say.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from constructed import OnTables
from small_logs import REPOSITORY

from kip_replay.pipelines.analysis.accuracy import (
    Judgement,
    accuracy_rows,
    in_order,
    prediction_accuracy,
)
from kip_replay.pipelines.analysis.summarize import comparable_pairs
from kip_replay.pipelines.engines.text import read_texts
from kip_replay.pipelines.ingest.recording import Recording, load_recordings
from kip_replay.pipelines.replaying.states import steady_phases
from kip_replay.pipelines.rule_files import Kind, Tolerance, read_toml
from kip_replay.pipelines.rules import RULES
from kip_replay.pipelines.warehouse.tables import Warehouse
from tools.accuracy import print_pages

_TEXTS = REPOSITORY / "tests" / "data" / "truth"
#: A node that is killed cuts its last line.
_NOTES = """(SELECT *, CAST(regexp_extract(filename, '-(\\d+).txt$', 1) AS INT) AS node_id
    FROM read_csv($files, delim = ' ', header = false, columns = {columns}, auto_detect = false,
        filename = true, ignore_errors = true) WHERE at_us > 1e15)"""
#: By table its files, and its rows.
_ROWS = {
    "client_observations": (
        "client_ops.jsonl",
        """SELECT op AS operation, topic, CAST(seen.key AS INT) AS broker_id,
            moment(requested_at * 1e6) AS requested_at, moment(responded_at * 1e6) AS responded_at,
            moment(seen.value * 1e6) AS visible_at
        FROM (SELECT *, unnest(map_entries(visible)) AS seen FROM read_ndjson($files, columns = {
            op: 'VARCHAR', topic: 'VARCHAR', requested_at: 'DOUBLE', responded_at: 'DOUBLE',
            visible: 'MAP(VARCHAR, DOUBLE)'}))""",
    ),
    "applied_observations": (
        "applied-*.txt",
        "SELECT node_id AS broker_id, metadata_offset, moment(min(at_us)) AS applied_at FROM "
        + _NOTES.format(columns="{metadata_offset: 'BIGINT', at_us: 'BIGINT'}")
        + " GROUP BY ALL",
    ),
    "lowest_acked_observations": (
        "lowest-acked-*.txt",
        "SELECT node_id AS controller_id, moment(at_us) AS noted_at, broker_id, metadata_offset, "
        "nullif(lowest, 9223372036854775807) AS lowest_active_offset FROM "
        + _NOTES.format(
            columns="{broker_id: 'INT', metadata_offset: 'BIGINT', lowest: 'BIGINT', "
            "at_us: 'BIGINT'}"
        ),
    ),
    "delivery_observations": (
        "deliveries.jsonl*",
        """SELECT reader AS client_id, topic, "partition", "offset" AS record_offset,
            moment(sent_at * 1e6) AS sent_at, moment(received_at * 1e6) AS received_at
        FROM read_ndjson($files, columns = {reader: 'VARCHAR', topic: 'VARCHAR', "partition": 'INT',
            "offset": 'BIGINT', sent_at: 'DOUBLE', received_at: 'DOUBLE'})""",
    ),
}


def observations(recordings: Sequence[Recording]) -> dict[str, pa.Table]:
    """What there is beside recordings, a table of each kind."""
    tables = {}
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.execute(
            "CREATE MACRO moment(us) AS make_timestamptz(CAST(floor(us + 0.5) AS INT8))"
        )
        for name, (pattern, text) in _ROWS.items():
            parts = []
            for recording in recordings:
                files = [str(file) for file in Path(str(recording.path)).glob(pattern)]
                query = f"SELECT '{recording.name}' AS recording, * FROM ({text})"
                params = {"files": files or ["/dev/null"]}
                parts.append(database.sql(query, params=params).to_arrow_table())
            tables[name] = pa.concat_tables(parts)
    return tables


def judged(warehouse: Warehouse, recordings: Sequence[Recording]) -> list[dict[str, Any]]:
    """Rows as those of prediction_accuracy, of outcomes that were held against the truth."""
    judgements = {}
    for steps in RULES:
        if (file := _TEXTS / f"{steps.name}.sql").is_file():
            stated = read_toml(file.with_suffix(".toml"), dict[str, list[Tolerance]])
            texts = {**steps.texts, **read_texts(file)}
            judgements[steps.name] = Judgement.read(texts, stated["tolerances"], steps.constants)
    engine = OnTables(warehouse, tables=observations(recordings))
    phases = steady_phases(engine, [recording.name for recording in recordings])
    rows = prediction_accuracy(engine, judgements, phases, comparable_pairs(recordings))
    # Shares that are of a run alone have no tolerance here.
    return [r for r in rows.to_pylist() if r["tolerance"] or r["kind"] != Kind.SELF_CHECK]


def all_judged(warehouse: Warehouse, recordings: Sequence[Recording]) -> list[dict[str, Any]]:
    """Those of a run too."""
    of_run = accuracy_rows(warehouse, [recording.name for recording in recordings])
    return in_order([*of_run, *judged(warehouse, recordings)])


if __name__ == "__main__":
    print_pages(all_judged(Warehouse(sys.argv[1]), load_recordings(sys.argv[2:])))

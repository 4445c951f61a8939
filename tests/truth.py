"""Truth beside the logs of this project's own recordings, into tables that judgements read.

    PYTHONPATH=tests python -m truth WAREHOUSE RECORDING...

Before the recordings are run. ``client_ops.jsonl``: operations with seconds since 1970, and when
clients first saw a topic at each broker. ``applied-<broker>.txt``: offsets, and when the broker's
publishers had run on them. ``lowest-acked-<controller>.txt``: heartbeats, and the lowest offset of
all that count when it handled them (2^63-1: none does). ``deliveries.jsonl``: records, when they
were sent and when readers had them. No replay reads any.
"""

import sys
from pathlib import Path

import duckdb

from kip_replay.pipelines.ingest.recording import load_recordings
from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.log_tables import (
    APPLIED_OBSERVATIONS,
    CLIENT_OBSERVATIONS,
    DELIVERY_OBSERVATIONS,
    LOWEST_ACKED_OBSERVATIONS,
)

#: A node that is killed cuts its last line.
_NOTES = """(SELECT *, CAST(regexp_extract(filename, '-(\\d+).txt$', 1) AS INT) AS node_id
    FROM read_csv($files, delim = ' ', header = false, columns = {columns}, auto_detect = false,
        filename = true, ignore_errors = true) WHERE at_us > 1e15)"""
#: By table its files, and its rows.
_ROWS = {
    CLIENT_OBSERVATIONS: (
        "client_ops.jsonl",
        """SELECT op AS operation, topic, CAST(seen.key AS INT) AS broker_id,
            moment(requested_at * 1e6) AS requested_at, moment(responded_at * 1e6) AS responded_at,
            moment(seen.value * 1e6) AS visible_at
        FROM (SELECT *, unnest(map_entries(visible)) AS seen FROM read_ndjson($files, columns = {
            op: 'VARCHAR', topic: 'VARCHAR', requested_at: 'DOUBLE', responded_at: 'DOUBLE',
            visible: 'MAP(VARCHAR, DOUBLE)'}))""",
    ),
    APPLIED_OBSERVATIONS: (
        "applied-*.txt",
        "SELECT node_id AS broker_id, metadata_offset, moment(min(at_us)) AS applied_at FROM "
        + _NOTES.format(columns="{metadata_offset: 'BIGINT', at_us: 'BIGINT'}")
        + " GROUP BY ALL",
    ),
    LOWEST_ACKED_OBSERVATIONS: (
        "lowest-acked-*.txt",
        "SELECT node_id AS controller_id, moment(at_us) AS noted_at, broker_id, metadata_offset, "
        "nullif(lowest, 9223372036854775807) AS lowest_active_offset FROM "
        + _NOTES.format(
            columns="{broker_id: 'INT', metadata_offset: 'BIGINT', lowest: 'BIGINT', "
            "at_us: 'BIGINT'}"
        ),
    ),
    DELIVERY_OBSERVATIONS: (
        "deliveries.jsonl*",
        """SELECT reader AS client_id, topic, "partition", "offset" AS record_offset,
            moment(sent_at * 1e6) AS sent_at, moment(received_at * 1e6) AS received_at,
            bytes AS record_bytes
        FROM read_ndjson($files, columns = {reader: 'VARCHAR', topic: 'VARCHAR', "partition": 'INT',
            "offset": 'BIGINT', sent_at: 'DOUBLE', received_at: 'DOUBLE', bytes: 'BIGINT'})""",
    ),
}


def load(warehouse: Warehouse, *folders: Path) -> None:
    """Writes what there is beside these recordings."""
    for recording in load_recordings(folders):
        rows = {table: table.arrow_schema.empty_table() for table in _ROWS}
        with duckdb.connect() as database:
            database.execute(
                "CREATE MACRO moment(us) AS make_timestamp(CAST(floor(us + 0.5) AS INT8))"
            )
            for table, (names, text) in _ROWS.items():
                if files := [str(file) for file in Path(str(recording.path)).glob(names)]:
                    named = f"SELECT '{recording.name}' AS recording, * FROM ({text})"
                    made = database.sql(named, params={"files": files}).to_arrow_table()
                    schema = table.arrow_schema
                    rows[table] = made.select(schema.names).cast(schema)
        if any(map(len, rows.values())):
            warehouse.replace("truth", {recording.name: "truth"}, rows)


if __name__ == "__main__":
    load(Warehouse(sys.argv[1]), *map(Path, sys.argv[2:]))

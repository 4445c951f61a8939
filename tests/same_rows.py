"""Holds the rows of two warehouses against each other, to the last digit.

    PYTHONPATH=tests python -m same_rows ONE OTHER RECORDING...

What follows from other recordings too, such as predictions, from truth beside recordings, or from
how often such tables were written is left out: one may have more.
"""

import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import duckdb

from kip_replay.pipelines.warehouse.tables import Warehouse
from kip_replay.replay.table import Table
from kip_replay.replay.tables import (
    TABLES,
    Decisions,
    Headlines,
    Lineage,
    PredictionAccuracy,
    QualityResult,
)

#: Columns that say when a file was written, and which engine's state they are.
VOLATILE = {"began_at", "committed_at", "files_written", "bytes_written"}
VOLATILE |= {"state", "checksum", "fingerprint"}
_OF_OTHERS = {Decisions, Headlines, Lineage, PredictionAccuracy, QualityResult}


def differing(
    one: Warehouse, other: Warehouse, recordings: Collection[str], but: Collection[Table] = ()
) -> Iterator[str]:
    """A sentence on each table that differs, with a row that one of the two lacks."""
    for table in (each for each in TABLES.values() if each not in but):
        columns = [name for name in table.arrow_schema.names if name not in VOLATILE]
        with duckdb.connect() as database:
            database.execute("SET TimeZone = 'UTC'")
            for name, warehouse in (("one", one), ("other", other)):
                database.register(name, warehouse.rows(table, recordings).select(columns))
            for name, beside in (("one", "other"), ("other", "one")):
                query = f"FROM {name} EXCEPT ALL FROM {beside} LIMIT 1"
                for row in database.sql(query).to_arrow_table().to_pylist():
                    yield f"{table.name}: only {name} has {row}"


if __name__ == "__main__":
    names = [Path(folder).name for folder in sys.argv[3:]]
    found = [*differing(Warehouse(sys.argv[1]), Warehouse(sys.argv[2]), names, _OF_OTHERS)]
    sys.exit("\n".join(found) or 0)

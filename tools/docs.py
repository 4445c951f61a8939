"""Prints docs/tables.md from the schema: ``python -m tools.docs > docs/tables.md``."""

import sys
from collections.abc import Iterator

import pyarrow as pa

from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

_HEAD = """# Tables

Printed from the tables of `replay/` by `make docs`; do not edit. Each table is a Delta table at
`<warehouse>/<table>`. Times are UTC with microseconds. A key is unique, and none of its columns
is ever null. A table with a `parameter` also has rows for other values of settings: in SQL, its
view `<table>_as_configured` leaves these out.
"""


def table_page() -> str:
    return "\n".join([_HEAD, *(line for table in TABLES.values() for line in _section(table))])


def _section(table: Table) -> Iterator[str]:
    key = ", ".join(f"`{name}`" for name in table.key)
    yield f"## {table.name}\n\n{table.comment}.\n\nKey: {key}.\n"
    yield "| column | type | what it says |\n|---|---|---|"
    for column in table.columns:
        comment = column.comment.replace("|", "\\|")
        yield f"| `{column.name}` | {_type_name(column.type)} | {comment} |"
    yield ""


def _type_name(data_type: pa.DataType) -> str:
    if pa.types.is_list(data_type):
        return f"array of {_type_name(data_type.value_type)}"
    if pa.types.is_struct(data_type):
        fields = ", ".join(f"{field.name} {_type_name(field.type)}" for field in data_type)
        return f"struct({fields})"
    names = {"timestamp[us, tz=UTC]": "timestamp", "int32": "int", "int64": "bigint"}
    return names.get(str(data_type), str(data_type))


if __name__ == "__main__":
    sys.stdout.write(table_page())

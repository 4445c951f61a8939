"""Prints docs/tables.md from the schema, and with ``steps`` those into docs/architecture.md."""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from kip_replay.jobs._steps import STEPS
from kip_replay.pipelines.engines.text import read_texts, tables_in
from kip_replay.pipelines.warehouse.steps import Step
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES

DOCS = Path(__file__).resolve().parents[1] / "docs"
_END = "<!-- until here -->\n"


def fill(page: Path, text: str, by: str = "make docs") -> None:
    """Prints ``text`` into the page's part of a command. Raises ValueError if it has none."""
    before, begin, rest = page.read_text(encoding="utf-8").partition(f"<!-- printed by {by} -->\n")
    _, end, after = rest.partition(_END)
    if not (begin and end):
        raise ValueError(f"{page} has no part that is printed")
    page.write_text(f"{before}{begin}{text.rstrip()}\n{end}{after}", encoding="utf-8")


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


def tables_of(step: Step) -> set[Table]:
    """Returns the tables that a step reads."""
    names = {n for file in step.queries for t in read_texts(file).values() for n in tables_in(t)}
    return {*step.reads, *(TABLES[name] for name in names & TABLES.keys())}


def step_graph(steps: Sequence[Step]) -> str:
    """Draws steps in Mermaid: an arrow from each to those that read what it wrote last.

    Left out is an arrow where others lead the same way.
    """
    needs: dict[str, set[str]] = {}
    for place, step in enumerate(steps):
        earlier = steps[:place]
        read = tables_of(step)
        direct = {other.name for other in earlier if read & {*other.writes}}
        needs[step.name] = direct.union(*(needs[name] for name in direct))
    lines = ["```mermaid", "flowchart TD"]
    for step in steps:
        tables = len({*step.writes})
        wrote = f"{tables} table{'s' if tables != 1 else ''}" if tables else "one page"
        lines.append(f'    {step.name}["{step.name}<br/>{step.kind}, {wrote}"]')
        behind = set().union(*(needs[name] for name in needs[step.name]))
        lines += [f"    {name} --> {step.name}" for name in sorted(needs[step.name] - behind)]
    return "\n".join([*lines, "```"])


if __name__ == "__main__":
    if sys.argv[1:] == ["steps"]:
        fill(DOCS / "architecture.md", step_graph(STEPS))
    else:
        sys.stdout.write(table_page())

"""Draws the steps into docs/architecture.md from their declarations.

python -m tools.step_graph
"""

from collections.abc import Sequence

from kip_replay.jobs._steps import STEPS
from kip_replay.pipelines.engines.text import tables_in
from kip_replay.pipelines.warehouse.steps import Step
from kip_replay.replay.table import Table
from kip_replay.replay.tables import TABLES
from tools.printed import DOCS, fill


def tables_of(step: Step) -> set[Table]:
    """Returns the tables that a step reads."""
    names = {name for file in step.queries for name in tables_in(file.read_text("utf-8"))}
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
    fill(DOCS / "architecture.md", step_graph(STEPS))

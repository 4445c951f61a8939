"""Pages hold together, and hold what the code has: links, keys, reasons, messages."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TypeGuard

import pytest
from markdown_pages import PAGES, named
from recorded_logs import REPOSITORY

from kip_replay.jobs._cli import Exit
from kip_replay.jobs._steps import STEPS
from kip_replay.jobs.run import PARSER
from kip_replay.pipelines.ingest.manifest import ENTRIES, FACTS, NODE_ENTRIES, RULE_KEYS
from kip_replay.replay.kafka.request_log.line import Reason
from kip_replay.replay.tables import LINEAGE, TABLES
from tools.docs import step_graph

DOCS = REPOSITORY / "docs"
_LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)]*))?\)")


def slugs(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    for path, anchor in _LINK.findall(page.read_text(encoding="utf-8")):
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), path
        if anchor:
            assert anchor in slugs(target), f"{path}#{anchor}"


def test_every_page_is_reached_from_the_readme() -> None:
    reached, left = set(), {REPOSITORY / "README.md"}
    while left:
        page = left.pop()
        reached.add(page)
        links = {(page.parent / path).resolve() for path, _ in _LINK.findall(page.read_text())}
        left |= {link for link in links if link.suffix == ".md"} - reached
    assert reached >= {*PAGES}


def test_the_architecture_page_has_the_graph_of_the_steps() -> None:
    assert step_graph(STEPS) in (DOCS / "architecture.md").read_text(encoding="utf-8")
    arrows = re.findall(r"(\w+) --> (\w+)", step_graph(STEPS))
    names = [step.name for step in STEPS]
    assert {"ingest", "report"} < {name for arrow in arrows for name in arrow} == {*names}
    written = {*TABLES.values()} - {LINEAGE}
    assert written == {table for step in STEPS for table in step.writes}


def keys_of_tables(text: str) -> set[str]:
    return {*re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)}


def test_the_manifest_page_has_the_keys_that_are_read() -> None:
    text = (DOCS / "manifest.md").read_text(encoding="utf-8")
    of_recording, _, rest = text.partition("Of a node:")
    of_node, _, rest = rest.partition("## How it was made")
    made, _, command_line = rest.partition("## Without a manifest")
    assert keys_of_tables(of_recording) == ENTRIES
    of_rules = [key for keys in RULE_KEYS.values() for key in keys.items()]
    assert all(f"| `{n}` | {key.says} | {key.missing} |" in of_recording for n, key in of_rules)
    assert keys_of_tables(of_node) == NODE_ENTRIES
    facts = made.rpartition("\n\n`")[2]
    assert {*re.findall(r"\w+", facts)} == FACTS
    options = {*re.findall(r"^\| `(--[a-z-]+)", command_line, re.MULTILINE)}
    [group] = [group for group in PARSER._action_groups if "manifest" in str(group.title)]
    assert options == {action.option_strings[0] for action in group._group_actions}


# --- docs/troubleshooting.md

TROUBLE = (DOCS / "troubleshooting.md").read_text(encoding="utf-8")


def texts(node: ast.AST) -> Iterator[str]:
    """Texts of a module, `…` where an f-string has a value."""
    for each in ast.walk(node):
        if isinstance(each, ast.JoinedStr):
            yield "".join(str(part.value) if is_text(part) else "…" for part in each.values)
        elif is_text(each):
            yield str(each.value)


def is_text(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def test_quoted_messages_are_those_of_the_code() -> None:
    files = [file for top in ("jobs", "pipelines") for file in (REPOSITORY / top).rglob("*.py")]
    said = [text for file in files for text in texts(ast.parse(file.read_text(encoding="utf-8")))]
    quoted = re.findall(r"\*\*`([^`]+)`\*\*", TROUBLE)
    assert len(quoted) > 20
    assert [message for message in quoted if not any(message in text for text in said)] == []


def test_every_reason_and_exit_status_is_explained() -> None:
    assert keys_of_tables(TROUBLE) == {reason.name for reason in Reason}
    statuses = re.findall(r"^\| (\d) \|", TROUBLE, re.MULTILINE)
    assert [*map(int, statuses)] == [*Exit]

"""Typed rows of constructed lines: versions and errors that no recording has (``bodies.txt``)."""

import json
import re
from typing import Any, NamedTuple

import pytest
from parsed_lines import REQUEST_LOG, line_of, parsed

CASES_FILE = REQUEST_LOG / "bodies.txt"
ID = "YkSpcwHCQGiqAR6cTJn52w"
SENDER = ("client_id", "connection", "api_version", "is_forwarded")


class Case(NamedTuple):
    """A logged request and what must stand in columns of its line."""

    title: str
    api: str
    key: int
    version: int
    is_forwarded: bool
    request: Any
    response: Any
    columns: list[tuple[str, Any]]


def cases() -> list[Case]:
    text = re.sub(r"^#.*\n", "", CASES_FILE.read_text(), flags=re.MULTILINE).replace("\n  ", " ")
    return [case(block.split("\n")) for block in text.strip().split("\n\n")]


def case(block: list[str]) -> Case:
    title, api, *rest = block
    name, key, version, *forwarded = api.split()
    named = [part.replace('"ID"', f'"{ID}"').split(" ", 1) for part in rest]
    (_, request), (_, response), *columns = [(key, json.loads(value)) for key, value in named]
    sent = name, int(key), int(version), forwarded == ["forwarded"]
    return Case(title, *sent, request, response, columns)


CASES = cases()
WRITE_APIS = ("DELETE_", "CREATE_P", "CREATE_A", "UP", "ALTER_CLIENT", "ALTER_USER", "ELECT")
WRITES = [c for c in CASES if c.api.startswith((*WRITE_APIS, "ALTER_PARTITION_REASSIGNMENTS"))]


def line(case: Case) -> bytes:
    of_api = case.api, case.key, case.version
    return line_of(of_api, case.request, case.response, isForwarded=case.is_forwarded)


def parse_all(*cases: Case) -> list[dict[str, Any]]:
    rows = parsed(map(line, cases))
    assert [row["rejected"] for row in rows] == [None] * len(rows)
    return rows


def like(found: Any, expected: Any) -> Any:
    """What was found, of structs only the expected fields."""
    if isinstance(expected, dict) and found is not None:
        return {name: like(found[name], value) for name, value in expected.items()}
    if isinstance(expected, list) and found is not None and len(found) == len(expected):
        return [like(*pair) for pair in zip(found, expected, strict=True)]
    return found


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_rows_of_a_body(case: Case) -> None:
    (row,) = parse_all(case)
    for column, expected in case.columns:
        assert like(row[column], expected) == expected
    lists = ("isr_changes", "topics", "configs", "metadata_offsets", "group_requests")
    typed = [element for column in lists for element in row[column]]
    typed += [row[column] for column in ("producer_id", "metadata_write") if row[column]]
    shared = {**row["request"], "source": case.api}
    for element in typed:
        for name in element.keys() & (*SENDER, "built_at", "source", "dequeued_at"):
            assert element[name] == shared[name]


@pytest.mark.parametrize("case", WRITES, ids=[case.title for case in WRITES])
def test_a_write_without_a_body_or_forwarded(case: Case) -> None:
    changes: list[dict[str, Any]] = [{"request": ""}, {"response": ""}, {"is_forwarded": True}]
    whole, *others = parse_all(case, *(case._replace(**change) for change in changes))
    no_request, no_response, forwarded = [row["metadata_write"] for row in others]
    assert no_request["validate_only"] is no_request["resources"] is None
    assert no_response["error_code"] is None
    assert no_response["validate_only"] == whole["metadata_write"]["validate_only"]
    assert all(resource["error_code"] is None for resource in no_response["resources"])
    assert forwarded == {**whole["metadata_write"], "is_forwarded": True}

"""Whatever the bytes: a row per request line, and no row that mixes two lines."""

from typing import Any

import parsed_lines
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from parsed_lines import LISTS, SINGLE, parsed

from kip_replay.replay.kafka.request_log import RejectReason

pytestmark = pytest.mark.property

LINES = sorted(parsed_lines.LINES, key=len)[:200]
lines = st.sampled_from(LINES)
garbage = st.binary(max_size=60) | st.sampled_from(
    [b"", b"[", b"]", b"{}", b'""', b"null", b"\0", b"\xff", b" Completed request:", b"[2026-"]
)


def parse(*given_lines: bytes, first: int = 1) -> list[dict[str, Any]]:
    rows = parsed(given_lines, zone="Europe/Berlin", first=first)
    for row in rows:
        del row["position"]
    return rows


def is_one_or_the_other(row: dict[str, Any]) -> bool:
    if row["rejected"] is None:
        return row["request"] is not None
    others = {name for name, value in row.items() if not value} - {"rejected"}
    says_nothing = {*SINGLE.values(), *LISTS} - {"rejected"} <= others
    return says_nothing and row["rejected"]["reason"] in RejectReason.__members__


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A real line with a part of it replaced."""
    line = draw(lines)
    start = draw(st.integers(0, len(line)))
    end = draw(st.integers(start, min(len(line), start + 40)))
    return line[:start] + draw(garbage) + line[end:]


@st.composite
def other_scalar(draw: st.DrawFn) -> bytes:
    """A real line with one number replaced by another kind of JSON."""
    line = draw(lines)
    numbers = [
        i for i in range(1, len(line)) if line[i - 1 : i] == b":" and line[i : i + 1].isdigit()
    ]
    start = draw(st.sampled_from(numbers))
    end = start
    while line[end : end + 1] in b"0123456789.":
        end += 1
    value = draw(
        st.sampled_from([b"null", b'"1"', b"[]", b"{}", b"1.5", b"1e400", b"9" * 30, b"true"])
    )
    return line[:start] + value + line[end:]


#: What is behind the marker was damaged, so that it looks like a field of CSV.
USUAL_BUT_CSV = (
    b'[2026-11-20 20:44:35,102] DEBUG Completed request:{""a":{}}} (kafka.request.logger)'
)


@example([b"", USUAL_BUT_CSV])
@given(st.lists(st.binary(max_size=200) | damaged() | other_scalar() | lines, max_size=8))
def test_every_line_is_one_row_at_most_and_nothing_is_raised(given_lines: list[bytes]) -> None:
    rows = parse(*given_lines)
    whole = {number for number, line in enumerate(given_lines, 1) if line in LINES}
    assert whole <= {row["line_number"] for row in rows if row["request"]}
    of_requests = [
        number
        for number, line in enumerate(given_lines, 1)
        if b"Completed request:" in line or line.rstrip().endswith(b"(kafka.request.logger)")
    ]
    # What only speaks of one may be a row: rejected, of a form that is not known.
    speaks = {number for number, line in enumerate(given_lines, 1) if b"requestApiKey" in line}
    numbers = [row["line_number"] for row in rows]
    assert [n for n in numbers if n in of_requests or n not in speaks] == of_requests
    assert all(is_one_or_the_other(row) for row in rows)
    alone = [parse(line, first=number) for number, line in enumerate(given_lines, 1)]
    assert [row for each in alone for row in each] == rows


@given(st.data())
def test_a_cut_line_is_a_request_where_its_json_and_stamp_are_whole(data: st.DataObject) -> None:
    line = data.draw(lines)
    cut = data.draw(st.integers(0, len(line) - 1) | st.integers(len(line) - 30, len(line) - 1))
    is_whole = cut in (0, *range(line.rindex(b"}") + 1, len(line)))
    assert requests(parse(line[:cut], line[cut + 1 :])) == requests(parse(line)) * is_whole


def requests(rows: list[dict[str, Any]]) -> list[Any]:
    of_place = {"line_number": 0, "request_id": ""}
    return [row | of_place for row in rows if row["request"]]


@given(st.data())
def test_interleaved_lines_never_mix(data: st.DataObject) -> None:
    """A second writer writes all or some of its line within another, with or without line end."""
    first, second = data.draw(lines), data.draw(lines)
    at = data.draw(st.integers(0, len(first)))
    # Fewer than six bytes, all of them digits of a year, could hide in a string of the JSON.
    upto = data.draw(st.integers(6, len(second)))
    torn = first[:at] + second[:upto] + first[at:] + second[upto:]
    ended = first[:at] + second + b"\n" + first[at:]
    pieces = [
        first[:at] + second[:upto],
        first[at:] + second[upto:],
        *torn.split(b"\n"),
        *ended.split(b"\n"),
    ]
    whole = requests(parse(first, second))
    assert all(request in whole for request in requests(parse(*pieces)))

"""Numbers as they are printed, and sentences that hold for any figures."""

from __future__ import annotations

import pytest

from kip_replay.pipelines.report import words
from kip_replay.pipelines.rules.hwm_parking.figures import MIXED_FROM, Protocol, protocol_of
from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP
from kip_replay.replay.incremental_fetch import FULL
from kip_replay.replay.outcomes import RECORDED


def plain(text: str) -> str:
    return text.replace(words.SPACE, " ")


@pytest.mark.parametrize(
    ("value", "decimals", "said"),
    [
        (None, 1, "–"),
        (1234567, 0, "1,234,567"),
        (-1.25, 1, "−1.2"),
        (-0.004, 2, "0.00"),
        (0.0, 0, "0"),
    ],
)
def test_number(value: float | None, decimals: int, said: str) -> None:
    assert words.number(value, decimals) == said


@pytest.mark.parametrize(
    ("value", "said"), [(4.5, "+4.50"), (-4.5, "−4.50"), (0.001, "0.00"), (None, "–")]
)
def test_signed(value: float | None, said: str) -> None:
    assert words.signed(value, 2) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (328.231, "328 ms"),
        (1.198, "1.2 ms"),
        (26.26, "26.3 ms"),
        (0.063, "0.06 ms"),
        (0, "0.00 ms"),
    ],
)
def test_milliseconds(value: float, said: str) -> None:
    assert plain(words.milliseconds(value)) == said


@pytest.mark.parametrize(
    ("value", "said"), [(812, "812 B"), (4505.6, "4.5 kB"), (-4505.6, "−4.5 kB"), (3.2e9, "3.2 GB")]
)
def test_size(value: float, said: str) -> None:
    assert plain(words.size(value)) == said


@pytest.mark.parametrize(
    ("values", "said"),
    [([1.2, 1.7], "1.2 to 1.7 ms"), ([1.21, 1.19], "1.2 ms"), ([0.5, 328.2], "0.50 to 328 ms")],
)
def test_range(values: list[float], said: str) -> None:
    assert plain(words.between(values)) == said


def test_range_of_sizes_names_both_units_where_they_differ() -> None:
    assert plain(words.between([900, 4500], "bytes")) == "900 B to 4.5 kB"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("Größe ≥ 日本", "Größe ≥ 日本"),
        ("a\0b", "a\\u0000b"),
        ("\u202eabc\u2069", "\\u202eabc\\u2069"),
        ("tab\tline\n", "tab\\u0009line\\u000a"),
        ("\ud800", "\\ud800"),
        ("\ufeffzero\u200bwidth", "\\ufeffzero\\u200bwidth"),
    ],
)
def test_invisible_characters_are_written_out(text: str, shown: str) -> None:
    assert words.visible(text) == shown
    words.visible(text).encode()


@pytest.mark.parametrize(
    ("share", "protocol"),
    [
        (0.0, Protocol.WITHOUT),
        (MIXED_FROM, Protocol.WITHOUT),
        (0.5, Protocol.MIXED),
        (1.0, Protocol.WITH),
    ],
)
def test_protocol_is_told_by_what_fetches_say(share: float, protocol: Protocol) -> None:
    assert protocol_of(share) is protocol


def test_two_sizes_share_a_unit_where_they_can() -> None:
    assert words.two_sizes(6200, 10700) == ("6.2", "10.7", "kB/s")
    first, second, unit = words.two_sizes(900, 10700)
    assert (plain(first), second, unit) == ("900 B/s", "10.7", "kB/s")


def test_variants_have_one_order_and_unknown_ones_come_last() -> None:
    found = words.in_order(["someday", FULL, WITH_KIP, RECORDED, WITHOUT_KIP, "another"])

    assert found == [RECORDED, WITHOUT_KIP, WITH_KIP, FULL, "another", "someday"]
    assert words.variant_name("someday") == "someday"
    assert words.variant_class("someday") == "other"


@pytest.mark.parametrize(
    ("names", "said"), [(["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_names_are_joined(names: list[str], said: str) -> None:
    assert words.joined(names) == said

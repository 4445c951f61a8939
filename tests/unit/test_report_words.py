"""Numbers as they are printed, and sentences that hold for any figures."""

from collections.abc import Callable
from typing import Any

import pytest
from report_examples import plain

from kip_replay.pipelines.page import words
from kip_replay.pipelines.rules.hwm_parking.figures import MIXED_FROM, Protocol, protocol_of


@pytest.mark.parametrize(
    ("function", "arguments", "printed"),
    [
        (words.number, (None, 1), "–"),
        (words.number, (1234567, 0), "1,234,567"),
        (words.number, (-0.004, 2), "0.00"),
        (words.milliseconds, (328.231,), "328 ms"),
        (words.milliseconds, (1.198,), "1.2 ms"),
        (words.milliseconds, (0.063,), "0.06 ms"),
        (words.milliseconds, (0,), "0.00 ms"),
        (words.size, (812,), "812 B"),
        (words.size, (-4505.6,), "−4.5 kB"),
        (words.size, (3.2e9,), "3.2 GB"),
        (words.between, ([1.2, 1.7],), "1.2 to 1.7 ms"),
        (words.between, ([1.21, 1.19],), "1.2 ms"),
        (words.between, ([900, 4500], "bytes"), "900 B to 4.5 kB"),
        (words.joined, (["a", "b", "c"],), "a, b and c"),
        (words.variant_name, ("someday",), "someday"),
    ],
)
def test_figures_and_names_as_printed(
    function: Callable[..., str], arguments: tuple[Any, ...], printed: str
) -> None:
    assert plain(function(*arguments)) == printed


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
    [(0.0, "WITHOUT"), (MIXED_FROM, "WITHOUT"), (0.5, "MIXED"), (1.0, "WITH")],
)
def test_protocol_follows_from_the_share_of_fetches(share: float, protocol: str) -> None:
    assert protocol_of(share) is Protocol[protocol]

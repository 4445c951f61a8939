"""Clocks of nodes: what orders of events bound."""

import pytest

from kip_replay.replay.kafka.clocks import (
    STAMP_ERROR_US,
    Offset,
    Order,
    off_from_all,
    offsets,
)

_MS = 1000
_ERROR_MS = STAMP_ERROR_US // _MS


def bounds(*orders: tuple[int, int, int]) -> dict[int, tuple[object, ...]]:
    """Bounds in milliseconds by node, the error of stamps taken off again."""
    nodes = sorted({node for before, after, _ in orders for node in (before, after)})
    found = offsets(1, nodes, [Order(b, a, "", 1, ms * _MS) for b, a, ms in orders])
    return {
        node: ("contradicted",)
        if offset.is_contradicted
        else tuple(
            None if us is None else us // _MS + error
            for us, error in zip(offset[:2], (_ERROR_MS, -_ERROR_MS), strict=True)
        )
        for node, offset in found.items()
    }


def test_bounds_of_neighbours_add_up() -> None:
    assert bounds((1, 11, 8), (11, 2, 4))[2] == (None, 12 + _ERROR_MS)


def test_a_clock_that_was_set_meanwhile_is_contradicted_and_bounds_no_other() -> None:
    stepped = ((11, 1, 2), (1, 11, 3), (11, 1, -90_000), (1, 11, 90_010))
    assert bounds(*stepped, (11, 12, 0), (1, 12, 7)) == {11: ("contradicted",), 12: (None, 7)}


def test_a_negative_cycle_of_bounds_is_a_contradiction() -> None:
    found = bounds((1, 11, 0), (11, 12, 0), (12, 1, -1000))
    assert found == {11: ("contradicted",), 12: ("contradicted",)}


@pytest.mark.parametrize(
    ("bounds_ms", "off_ms"),
    [
        ([(4900, 5100), (4000, 5050), (-10, 9000)], (4900, 5050)),
        ([(4900, 5100), (-40, 60), (-10, 9000)], None),
        ([(4900, 5100), (-10, 9000)], None),
        ([(4900, 5100), (5200, 5300)], None),
        ([(-9, 9), (-5, 20)], None),
    ],
    ids=["of the reference", "of another node", "of one of two", "of two", "of none"],
)
def test_whose_clock_is_off(
    bounds_ms: list[tuple[int, int]], off_ms: tuple[int, int] | None
) -> None:
    found = off_from_all(Offset(a * _MS, b * _MS, is_contradicted=False) for a, b in bounds_ms)
    assert (None if found is None else tuple(us // _MS for us in found[:2] if us)) == off_ms

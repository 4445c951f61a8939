"""Golden tests: recordings of real brokers, read by a reader of their own."""

from collections.abc import Iterable

import pytest


def some_of(names: Iterable[str], *fast: str) -> list[object]:
    """Recordings as parameters: all but the fast ones are left to ``make test-hard``."""
    return [pytest.param(name, marks=[pytest.mark.slow][name in fast :]) for name in names]

"""Values of any query as text or JSON.

Times and intervals are ISO 8601, times in UTC with microseconds; nested values JSON, bytes hex.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa


def as_text(value: Any) -> str:
    """A value as a cell of a table or of csv; null is empty."""
    if isinstance(value, bool | dict | list):
        return _json(value)
    return "" if value is None else str(value if isinstance(value, Decimal) else _plain(value))


def json_object(names: Sequence[str], row: Sequence[Any]) -> str:
    """A row as an object of JSON, nulls included; a name may occur twice."""
    pairs = zip(map(_json, names), map(_json, row), strict=True)
    return "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}"


def _json(value: Any) -> str:
    if isinstance(value, float) and value - value != 0:  # JSON has no NaN and no infinity
        value = str(value)
    return json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    match value:
        case datetime():  # all are UTC, with a zone or without
            return value.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        case Decimal():
            return int(value) if value == value.to_integral_value() else float(value)
        case bytes():
            return value.hex().upper()
        case pa.MonthDayNano():
            return f"P{value.months}M{value.days}DT{value.nanoseconds / 1e9:.6f}S"
    return value if isinstance(value, int | float) else str(value)

"""Values of any query as text or JSON.

Times and intervals are ISO 8601, times in UTC with microseconds; nested values JSON, bytes hex.

Names come from whoever sent a request. A terminal would obey the control characters in them, and
show others in another order; a spreadsheet would run what begins like a formula.
"""

import json
import re
from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")
_FORMULA_BEGINS = ("=", "+", "-", "@", "\t", "\r", "\n")


def visible(text: str) -> str:
    """A text in one line, each character that cannot be seen as its code."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def csv_text(value: Any) -> str:
    """``as_text`` for csv: a ' before what a spreadsheet would take for a formula. Numbers stay."""
    text = as_text(value)
    is_number = isinstance(value, int | float | Decimal) or _NUMBER.fullmatch(text)
    return f"'{text}" if text.startswith(_FORMULA_BEGINS) and not is_number else text


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
    text = json.dumps(value, default=_plain, ensure_ascii=False, separators=(",", ":"))
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in text)


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

"""Numbers and words that every part of the report shares, for any logs.

Text from logs (names, reasons, lines) is never put into a sentence here: the template escapes it.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from kip_replay.pipelines.folders import rule_pages
from kip_replay.replay.outcomes import RECORDED

NOT_KNOWN = "–"
MINUS = "−"
#: Between a figure and its unit, so that no line ends between them.
SPACE = "\N{NO-BREAK SPACE}"
#: Decimals of a unit, so that the figures of a column line up.
_DECIMALS = {"ms": 2, "1/s": 2, "count": 0, "bytes/s": 0, "bytes": 1, "partitions": 2}
UNITS = {"ms": "ms", "1/s": "/s", "count": "", "share": "%", "bytes/s": "B/s", "bytes": "B"}
#: Kinds of replicas and clients, in the plural.
_KINDS = {
    "broker": "brokers",
    "voter": "controllers",
    "follower": "followers",
    "consumer": "consumers",
    "consumer_without_sessions": "consumers without sessions",
}
#: Characters that show nothing or move others about: controls, formats (RTL marks), separators,
#: halves of surrogate pairs, private use.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


def number(value: float | None, decimals: int = 0) -> str:
    """With thousands separators and a true minus sign; – where it is not known."""
    if value is None:
        return NOT_KNOWN
    text = f"{value:,.{decimals}f}"
    return text.replace("-", MINUS if text.strip("-0.,") else "")


def milliseconds(value: float | None) -> str:
    """A duration for reading: as many digits as matter, and its unit."""
    if value is None:
        return "an unknown time"
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 1 else 2
    return f"{number(value, decimals)}{SPACE}ms"


def size(value: float | None) -> str:
    """Bytes for reading: B, kB (1,000 bytes), MB, GB."""
    if value is None:
        return "an unknown number of bytes"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= scale:
            return f"{number(value / scale, 1)}{SPACE}{unit}"
    return f"{number(value)}{SPACE}B"


def seconds(value: float) -> str:
    unit, scale = ("h", 3600) if value >= 7200 else ("min", 60) if value >= 120 else ("s", 1)
    return f"{number(value / scale, 1)}{SPACE}{unit}"


def in_unit(value: float | None, unit: str) -> str:
    """A figure of prediction_accuracy: shares as per cent, others with their usual decimals."""
    if unit == "share":
        return number(None if value is None else value * 100, 2)
    return number(value, _DECIMALS.get(unit, 3))


def count(amount: int, one: str, many: str | None = None) -> str:
    """'1 line', '2 lines'."""
    return f"{number(amount)} {one if amount == 1 else many or one + 's'}"


def visible(text: str) -> str:
    """The text with every character written out that is invisible or would reorder others: a log
    may hold anything, and it must neither be lost nor change how the page reads."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"\\u{ord(c):04x}" if unicodedata.category(c) in _INVISIBLE else c for c in text)


def shortened(text: str, characters: int) -> str:
    """At most this many characters, with … where some are missing."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


@cache
def _variants() -> Mapping[str, Sequence[str]]:
    """Names and CSS classes in the order of tables; what was recorded comes first."""
    named = {name: pair for of in rule_pages().values() for name, pair in of["variants"].items()}
    return {RECORDED: ("recorded", "recorded"), **named}


def variant_name(variant: str) -> str:
    return _variants().get(variant, (variant, ""))[0]


def variant_class(variant: str) -> str:
    return _variants().get(variant, ("", "other"))[1]


def kind_name(kind: str) -> str:
    """'brokers', 'consumers'."""
    return _KINDS.get(kind, kind)


def in_order(variants: Iterable[str]) -> list[str]:
    """Variants in a fixed order: those that are known as named above, then the others."""
    found = {*variants}
    named = [name for name in _variants() if name in found]
    return named + sorted(found - {*named})


def joined(names: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def metric_name(metric: str) -> str:
    names = (of["metrics"].get(metric) for of in rule_pages().values())
    return next(filter(None, names), metric)


def named(value: str) -> str:
    """A value of a table in words: a variant, a kind of client, a metric."""
    for name in (variant_name, kind_name, metric_name):
        if (found := name(value)) != value:
            return found
    return value

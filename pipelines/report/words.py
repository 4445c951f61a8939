"""Numbers and words that every part of the report shares, for any logs."""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import Any

from kip_replay.pipelines.analysis.accuracy import SHORT_S
from kip_replay.pipelines.rule_files import rule_pages
from kip_replay.replay.kafka.request_log.line import RejectReason
from kip_replay.replay.records import RECORDED, SAMPLES_MIN

NOT_KNOWN = "–"
MINUS = "−"
#: What is timed of requests, by API (``rates`` in overview.toml).
_TIMED = {"PRODUCE": "PRODUCE acks=all p99", "FETCH": "FETCH p99 without waiting for data"}
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
    return f"{number(value, decimals)} ms"


def size(value: float | None) -> str:
    """Bytes for reading: B, kB (1,000 bytes), MB, GB."""
    if value is None:
        return "an unknown number of bytes"
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if abs(value) >= scale:
            return f"{number(value / scale, 1)} {unit}"
    return f"{number(value)} B"


def seconds(value: float) -> str:
    unit, scale = ("h", 3600) if value >= 7200 else ("min", 60) if value >= 120 else ("s", 1)
    return f"{number(value / scale, 1)} {unit}"


def period(from_us: int, until_us: int) -> str:
    """'18:02 to 18:13 UTC (11.0 min)', with days where these are two."""
    begin, end = (datetime.fromtimestamp(us / 1e6, UTC) for us in (from_us, until_us))
    day = "" if begin.date() == end.date() else "%Y-%m-%d "
    length = seconds((until_us - from_us) / 1e6)
    return f"{begin:{day}%H:%M} to {end:{day}%H:%M} UTC ({length})"


def clock(at: datetime) -> str:
    return f"{at:%H:%M:%S}.{at.microsecond // 1000:03d} UTC"


def in_unit(value: float, unit: str) -> str:
    """A figure of ``headlines`` with its unit."""
    if unit == "ms":
        return milliseconds(value)
    return f"{size(value)}/s" if unit == "B/s" else f"{number(value, 1)} {unit}"


def is_known(effect: Mapping[str, Any] | None) -> bool:
    """Whether enough values are behind a figure to show it."""
    return effect is not None and None not in (effect["low"], effect["after"])


def change(effect: Mapping[str, Any]) -> str:
    """'327 ms less', '4.5 kB/s more', or how long it is where one side has none of it."""
    text = in_unit(abs(effect["difference"]), effect["unit"])
    if "none" in (effect["before_variant"], effect["after_variant"]):
        return text
    return f"{text} {'less' if effect['difference'] <= 0 else 'more'}"


def within(effect: Mapping[str, Any]) -> str:
    """The ends of the interval, the smaller change first, and how many of all are unknown."""
    low, high, unit = effect["low"], effect["high"], effect["unit"]
    ends = (low, high) if effect["difference"] > 0 else (-high, -low)
    least, most = (in_unit(end, unit) for end in ends)
    figure, _, own = least.partition(" ")
    text = f"{figure if most.split(' ')[1:] == [own] else least} to {most}"
    count, unknown = effect["count"], effect["unknown_count"]
    return f"{text}; {unknown:,} of {count + unknown:,} unknown" if unknown else text


def state(page: Mapping[str, Any]) -> str:
    """A cluster's state, in one line of figures."""
    facts, rates = page["facts"], page["rates"]
    stated, logged = facts["kafka_version_stated"], ", ".join(facts["kafka_versions"])
    version = f"Kafka {stated or logged}" if stated or logged else ""
    if stated and logged and stated != logged:
        version += f" as stated, {logged} in the logs"
    requests = count(facts["requests"], "request")
    if facts["span_s"] is not None:
        rate = sum(rate["per_second"] or 0 for rate in rates)
        begin = facts["first_at"][:16].replace("T", " ")
        is_rate = rate and facts["span_s"] >= SHORT_S and facts["requests"] >= SAMPLES_MIN
        requests += f" in {seconds(facts['span_s'])}{f' ({number(rate, 1)}/s)' * bool(is_rate)}"
        requests += f" from {begin} UTC"
    lines = facts["lines"] if facts["lines"] != facts["requests"] else 0
    since = facts["counted_since"]
    parts = [
        version,
        count(facts["nodes"], "node"),
        requests,
        count(lines, "line") if lines else "",
        *(
            f"{_TIMED.get(rate['api_name'], rate['api_name'])} {milliseconds(rate['p99_ms'])}"
            for rate in rates
            if rate["p99_ms"] is not None
        ),
        f"still growing: counted since {since}" if since else "",
    ]
    return " · ".join(filter(None, parts))


def count(amount: int, singular: str, many: str | None = None) -> str:
    """'1 line', '2 lines'."""
    return f"{number(amount)} {singular if amount == 1 else many or singular + 's'}"


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
    named = {
        name: pair for page in rule_pages().values() for name, pair in page["variants"].items()
    }
    return {RECORDED: ("recorded", "recorded"), **named}


def variant_class(variant: str) -> str:
    return _variants().get(variant, ("", "other"))[1]


def in_order(variants: Iterable[str]) -> list[str]:
    """Variants in a fixed order: those that are known as named above, then the others."""
    left = {*variants}
    known = [name for name in _variants() if name in left]
    return known + sorted(left - {*known})


def joined(names: Sequence[str]) -> str:
    """'a', 'a and b', 'a, b and c'."""
    return " and ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


@cache
def _names() -> Mapping[str, str]:
    """Names values of tables: metrics, kinds, variants, reasons of rejected lines."""
    metrics = (page["metrics"] for page in rule_pages().values())
    named = {code: name for page in metrics for code, name in page.items()}
    named |= {name: reason.value for name, reason in RejectReason.__members__.items()}
    return named | _KINDS | {code: name for code, (name, _) in _variants().items()}


def named(value: str) -> str:
    """A value of a table in words: a variant, a kind of client, a metric."""
    return _names().get(value, value)

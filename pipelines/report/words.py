"""Numbers and sentences of the report: what the figures mean, in words that hold for any logs.

Text from logs (names, reasons, lines) is never put into a sentence here: the template escapes it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from pipelines.report.data import (
    BROKERS,
    Check,
    Figures,
    Lag,
    Protocol,
    RecordingReport,
    Report,
)
from replay.outcomes import RECORDED
from replay.rules import WITH_KIP, WITHOUT_KIP

NOT_KNOWN = "–"
MINUS = "−"
#: Between a figure and its unit, so that no line ends between them.
SPACE = "\N{NO-BREAK SPACE}"
#: With at least this share of the lag left, a protocol makes no difference worth a headline.
NO_DIFFERENCE = 0.9
VARIANT_NAMES = {
    RECORDED: "recorded",
    WITHOUT_KIP: "without KIP-1166",
    WITH_KIP: "with KIP-1166",
}
_KINDS = {"all": "all replicas", "broker": "brokers", "voter": "controllers"}
_METRICS = {
    "high_watermark_lag_p50": "lag, median",
    "high_watermark_lag_p90": "lag, 90th percentile",
    "high_watermark_lag_p99": "lag, 99th percentile",
    "fetches_per_second": "FETCHes a second",
    "fetch_bytes_per_second": "bytes a second",
    "fetches": "FETCHes",
    "answers_explained": "answers that the rule explains",
    "answers_explained_or_woken": "answers that it or a wake of all explains",
}
#: Decimals of a unit, so that the figures of a column line up.
_DECIMALS = {"ms": 2, "1/s": 2, "count": 0, "bytes/s": 0}
_UNITS = {"ms": "ms", "1/s": "/s", "count": "", "share": "%", "bytes/s": "B/s"}
#: Characters that show nothing or move others about: controls, formats (RTL marks), separators,
#: halves of surrogate pairs, private use.
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})


# --- numbers -------------------------------------------------------------------------------------


def number(value: float | None, decimals: int = 0) -> str:
    """With thousands separators and a true minus sign; – where it is not known."""
    if value is None:
        return NOT_KNOWN
    said = f"{value:,.{decimals}f}"
    if float(said.replace(",", "")) == 0:
        return said.lstrip("-")
    return said.replace("-", MINUS)


def signed(value: float | None, decimals: int = 0) -> str:
    """Like ``number``, with a plus sign before what is above zero."""
    said = number(value, decimals)
    return f"+{said}" if value is not None and said.strip("0.,") and value > 0 else said


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
    """A span for reading."""
    if value >= 7200:
        return f"{number(value / 3600, 1)}{SPACE}h"
    if value >= 120:
        return f"{number(value / 60, 1)}{SPACE}min"
    return f"{number(value, 1)}{SPACE}s"


def in_unit(value: float | None, unit: str) -> str:
    """A figure of prediction_accuracy: shares as per cent, others with their usual decimals."""
    if value is None:
        return NOT_KNOWN
    if unit == "share":
        return number(value * 100, 2)
    return number(value, _DECIMALS.get(unit, 3))


def unit_name(unit: str) -> str:
    """The unit as printed beside a figure."""
    return _UNITS.get(unit, unit)


def count(amount: int, one: str, many: str | None = None) -> str:
    """'1 line', '2 lines'."""
    return f"{number(amount)} {one if amount == 1 else many or one + 's'}"


def between(values: Sequence[float], say: str = "ms") -> str:
    """'1.2 to 1.7 ms', or one figure where both ends read the same."""
    wording = {"ms": milliseconds, "bytes": size}.get(say, lambda v: number(v, 1))
    low, high = wording(min(values)), wording(max(values))
    if low == high:
        return low
    figure, _, unit = low.partition(SPACE)
    return SPACE.join((figure if unit == high.partition(SPACE)[2] else low, "to", high))


def visible(text: str) -> str:
    """The text with every character that would be invisible or reorder others written out.

    A log may hold anything; a NUL or a right-to-left mark in a client id must neither be lost nor
    change how the page reads.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(f"\\u{ord(c):04x}" if unicodedata.category(c) in _INVISIBLE else c for c in text)


def shortened(text: str, characters: int) -> str:
    """At most so many characters, with … where some are missing."""
    return text if len(text) <= characters else text[: characters - 1] + "…"


def kind_name(kind: str) -> str:
    """'brokers', 'controllers'."""
    return _KINDS.get(kind, kind)


def metric_name(check: Check) -> str:
    """What a row of prediction_accuracy measures, in words."""
    name = _METRICS.get(check.metric, check.metric)
    if check.group_kind == "replica_kind":
        return f"{name}, {kind_name(check.group_value)}"
    if check.group_kind == "replica_id":
        return f"{name} of replica {check.group_value}"
    if check.group_kind == "completion":
        said = check.group_value.replace("_", " ")
        return f"{name} answered at the {said}" if said == "timeout" else f"{name} answered: {said}"
    return name


def metric_rank(check: Check) -> tuple[int, str]:
    """Lags first, then rates, counts and the share explained."""
    order = list(_METRICS)
    place = order.index(check.metric) if check.metric in order else len(order)
    return (place, check.metric)


# --- what the figures say ------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """Both protocols side by side; where the cluster ran one, that side is what was recorded."""

    recording: RecordingReport
    without_kip: Figures
    with_kip: Figures

    @property
    def lags(self) -> tuple[Lag, Lag] | None:
        """Lag without and with the KIP; None unless both have values."""
        kind = self.recording.lag_kind
        without, with_kip = self.without_kip.lag.get(kind), self.with_kip.lag.get(kind)
        if without is None or with_kip is None or not without.count or not with_kip.count:
            return None
        return without, with_kip

    @property
    def medians(self) -> tuple[float, float] | None:
        """Median lag in ms without and with the KIP; None unless both are known."""
        if self.lags is None or self.lags[0].p50 is None or self.lags[1].p50 is None:
            return None
        return self.lags[0].p50, self.lags[1].p50

    @property
    def fetches_per_second(self) -> tuple[float, float] | None:
        """FETCHes a second without and with the KIP."""
        traffic = self.without_kip.total_traffic, self.with_kip.total_traffic
        rates = [t.fetches_per_second if t else None for t in traffic]
        return None if rates[0] is None or rates[1] is None else (rates[0], rates[1])

    @property
    def bytes_per_second(self) -> tuple[float, float] | None:
        """Bytes a second, both directions, without and with the KIP."""
        traffic = self.without_kip.total_traffic, self.with_kip.total_traffic
        rates = [t.bytes_per_second if t else None for t in traffic]
        return None if rates[0] is None or rates[1] is None else (rates[0], rates[1])

    @property
    def makes_a_difference(self) -> bool:
        """The KIP takes a tenth or more off the median."""
        return self.medians is not None and self.medians[1] < NO_DIFFERENCE * self.medians[0]


def comparison(recording: RecordingReport) -> Comparison:
    """Both protocols of a recording."""
    return Comparison(
        recording,
        recording.of(recording.source_of(WITHOUT_KIP)),
        recording.of(recording.source_of(WITH_KIP)),
    )


def title(report: Report) -> str:
    """The page's headline."""
    told = [c for c in map(comparison, report.recordings) if c.medians]
    medians = [c.medians for c in told if c.medians]
    if not medians:
        return "KIP-1166: these logs do not tell what it changes"
    slow, fast = between([m[0] for m in medians]), between([m[1] for m in medians])
    who = _who(c.recording for c in told)
    if not any(c.makes_a_difference for c in told):
        return f"KIP-1166 changes little here: {who} learn of a commit in {fast}, {slow} without it"
    return f"With KIP-1166, {who} learn a committed metadata change in {fast} instead of {slow}"


def price(report: Report) -> str | None:
    """What it costs, over all recordings; None where no rate is known."""
    told = [c for c in map(comparison, report.recordings) if c.fetches_per_second]
    extra = [b - a for a, b in (c.fetches_per_second for c in told if c.fetches_per_second)]
    if not extra:
        return None
    size_rates = [c.bytes_per_second for c in told if c.bytes_per_second]
    more_bytes = [b - a for a, b in size_rates]
    if min(extra) < 0 or min(more_bytes, default=0) < 0:
        return None
    said = f"The price: {between(extra, 'rate')} more FETCHes a second on the active controller"
    return f"{said}, {between(more_bytes, 'bytes')} a second more." if more_bytes else f"{said}."


def lag_sentence(recording: RecordingReport) -> Markup:
    """What the KIP does to the lag in this recording."""
    both = comparison(recording)
    if not recording.metadata_fetches:
        return Markup(
            "These logs hold no FETCH of the metadata log, so they say nothing about KIP-1166. "
            "Such FETCHes are in the request logs of the <em>controllers</em>."
        )
    if both.lags is None:
        return Markup(
            "FETCHes of the metadata log are here, but none of them tells when a replica learned "
            "of a change in the steady phase. Why is told under <a href='#read'>What was read</a>."
        )
    if both.medians is None:
        lacking = [
            f"{number(lag.unknown)} of {number(lag.count + lag.unknown)} {name} KIP-1166"
            for lag, name in zip(both.lags, ("without", "with"), strict=True)
            if lag.p50 is None
        ]
        return Markup(
            "The median lag cannot be told: of too many changes it is unknown when they were "
            "learned ({})."
        ).format(", ".join(lacking))
    return _lag_compared(both)


def _lag_compared(both: Comparison) -> Markup:
    assert both.medians is not None
    slow, fast = (milliseconds(median) for median in both.medians)
    who = kind_name(both.recording.lag_kind)
    protocol = both.recording.protocol
    if not both.makes_a_difference:
        return Markup(
            "KIP-1166 changes little here: {} learn a committed metadata change in "
            "<strong>{}</strong> with it and in <strong>{}</strong> without it (median)."
        ).format(who, fast, slow)
    wording = {
        Protocol.WITHOUT: "With KIP-1166, {} would learn a committed metadata change in "
        "<strong>{}</strong> instead of <strong>{}</strong> (median).",
        Protocol.WITH: "Thanks to KIP-1166, which this cluster runs, {} learn a committed metadata "
        "change in <strong>{}</strong> instead of <strong>{}</strong> (median).",
    }.get(
        protocol,
        "If every node ran KIP-1166, {} would learn a committed metadata change in "
        "<strong>{}</strong> instead of <strong>{}</strong> with none running it (median).",
    )
    return Markup(wording).format(who, fast, slow)


def cost_sentence(recording: RecordingReport) -> Markup | None:
    """What the KIP costs in this recording; None where no rate is known."""
    both = comparison(recording)
    if both.fetches_per_second is None:
        return None
    costs = "costs" if recording.protocol is Protocol.WITH else "would cost"
    parts = [_extra(*both.fetches_per_second, lambda v: number(v, 1), "FETCHes a second")]
    if both.bytes_per_second is not None:
        parts.append(_extra(*both.bytes_per_second, size, "a second"))
    return Markup("It {} {}.").format(costs, Markup(" and ").join(parts))


def _extra(without: float, with_kip: float, say: object, unit: str) -> Markup:
    assert callable(say)
    more = with_kip - without
    word = "more" if more >= 0 else "fewer" if unit.startswith("FETCH") else "less"
    shown = (
        f"{say(abs(more))} {word} {unit}"
        if unit.startswith("FETCH")
        else (f"{say(abs(more))} {unit} {word}")
    )
    return Markup("<strong>{}</strong> ({} instead of {})").format(
        shown, say(with_kip), say(without)
    )


def unknown_sentence(recording: RecordingReport) -> str | None:
    """How many changes of the steady phase are unknown, where some are."""
    both = comparison(recording)
    if both.lags is None or not any(lag.unknown for lag in both.lags):
        return None
    without, with_kip = both.lags
    return (
        f"Of {number(without.unknown)} changes without and {number(with_kip.unknown)} with "
        "KIP-1166 it is unknown when they were learned; they count as the slowest."
    )


def protocol_sentence(recording: RecordingReport) -> str:
    """Which protocol the recorded cluster ran, and how that is known."""
    share = number(recording.protocol_share * 100)
    return {
        Protocol.WITHOUT: "runs without KIP-1166",
        Protocol.WITH: "runs KIP-1166",
        Protocol.MIXED: f"runs KIP-1166 in part: {share} % of its FETCHes say a high watermark",
        Protocol.UNKNOWN: "not known whether it runs KIP-1166",
    }[recording.protocol]


def version_sentence(recording: RecordingReport) -> str | None:
    """The Kafka version, as the manifest states it and as the logs show it."""
    logged = ", ".join(recording.logged_versions)
    stated = recording.stated_version
    if stated is None:
        return f"Kafka {logged}" if logged else None
    if not logged or recording.logged_versions == (stated,):
        return f"Kafka {stated}"
    return f"Kafka {stated} as stated, {logged} in the logs"


def accuracy_sentence(checks: Sequence[Check]) -> str:
    """How many predictions passed."""
    if not checks:
        return "No prediction was held against a recording."
    passed = sum(check.passed for check in checks)
    said = f"{number(passed)} of {count(len(checks), 'prediction')} "
    said += "lies" if passed == 1 else "lie"
    said += " within tolerance"
    missed = len(checks) - passed
    return (
        f"{said}; {number(missed)} {'does' if missed == 1 else 'do'} not." if missed else f"{said}."
    )


def baseline_sentence(checks: Sequence[Check]) -> str | None:
    """How often a naive guess would have been good enough."""
    guesses = [check for check in checks if check.baseline_passed is not None]
    if not guesses:
        return None
    good = sum(bool(check.baseline_passed) for check in guesses)
    replayed = sum(check.passed for check in guesses)
    return (
        f"Where there is a naive guess to compare with ({number(len(guesses))}), the guess is "
        f"within tolerance {count(good, 'time')}, the replay {count(replayed, 'time')}."
    )


def _who(recordings: Iterable[RecordingReport]) -> str:
    kinds = {recording.lag_kind for recording in recordings}
    return kind_name(kinds.pop()) if len(kinds) == 1 else kind_name(BROKERS)

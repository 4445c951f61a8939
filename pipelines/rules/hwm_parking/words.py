"""hwm_parking in words: what a commit that is told at once changes, and how that is known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup

from kip_replay.pipelines.report import words
from kip_replay.pipelines.report.data import Report
from kip_replay.pipelines.report.sections import bold
from kip_replay.pipelines.report.values import Percentiles
from kip_replay.pipelines.report.view import Source
from kip_replay.pipelines.rules.hwm_parking.figures import (
    BROKERS,
    VOTERS,
    Figures,
    HwmParking,
    Protocol,
    Traffic,
)
from kip_replay.replay.rules import WITH_KIP, WITHOUT_KIP

#: With at least this share of the lag left, a protocol makes no difference worth a headline.
NO_DIFFERENCE = 0.9
_KIND_NAMES = {"all": "all replicas", BROKERS: "brokers", VOTERS: "controllers"}


def kind_name(kind: str) -> str:
    """'brokers', 'controllers'."""
    return _KIND_NAMES.get(kind, kind)


# --- what the figures mean -----------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """The two protocols of one recording; what was recorded stands for the one it ran."""

    recording: HwmParking
    without: Figures
    with_kip: Figures

    @property
    def lags(self) -> tuple[Percentiles, Percentiles] | None:
        """The lag without and with the KIP; None unless both are there."""
        kind = self.recording.lag_kind
        pair = self.without.lag.get(kind), self.with_kip.lag.get(kind)
        return None if pair[0] is None or pair[1] is None else (pair[0], pair[1])

    @property
    def medians(self) -> tuple[float, float] | None:
        """Median lag without and with the KIP; None unless both are known."""
        if self.lags is None or self.lags[0].p50 is None or self.lags[1].p50 is None:
            return None
        return self.lags[0].p50, self.lags[1].p50

    @property
    def fetches_per_second(self) -> tuple[float, float] | None:
        """FETCHes a second without and with the KIP; None unless both are known."""
        pair = rates(self.without.total_traffic)[0], rates(self.with_kip.total_traffic)[0]
        return None if pair[0] is None or pair[1] is None else (pair[0], pair[1])

    @property
    def bytes_per_second(self) -> tuple[float, float] | None:
        """Bytes a second without and with the KIP; None unless both are known."""
        pair = rates(self.without.total_traffic)[1], rates(self.with_kip.total_traffic)[1]
        return None if pair[0] is None or pair[1] is None else (pair[0], pair[1])

    @property
    def makes_a_difference(self) -> bool:
        """The KIP takes a tenth or more off the median."""
        return self.medians is not None and self.medians[1] < NO_DIFFERENCE * self.medians[0]


def comparison(found: HwmParking) -> Comparison:
    """Both protocols of a recording."""
    return Comparison(
        found, found.of(found.source_of(WITHOUT_KIP)), found.of(found.source_of(WITH_KIP))
    )


def rates(traffic: Traffic | None) -> tuple[float | None, float | None]:
    """FETCHes and bytes a second; None where not known."""
    if traffic is None:
        return None, None
    return traffic.fetches_per_second, traffic.bytes_per_second


# --- sentences -----------------------------------------------------------------------------------


def answer(report: Report) -> Markup:
    """What the KIP does, over all recordings."""
    told = [c for c in (comparison(r.hwm_parking) for r in report.recordings) if c.medians]
    medians = [c.medians for c in told if c.medians]
    if not medians:
        return Markup("These logs do not tell how soon a metadata change is known.")
    slow = bold(words.between([m[0] for m in medians]))
    fast = bold(words.between([m[1] for m in medians]))
    who = _who(c.recording for c in told)
    if not any(c.makes_a_difference for c in told):
        return Markup(
            "Telling replicas of a commit at once changes little here: {} learn of it in {}, "
            "without it in {} (median)."
        ).format(who, fast, slow)
    return Markup(
        "{} learn a committed metadata change in {} instead of {} (median) if the controller "
        "tells them at once."
    ).format(who.capitalize(), fast, slow)


def price(report: Report) -> Markup | None:
    """What it costs, over all recordings; None where no rate is known or it costs nothing."""
    told = [comparison(r.hwm_parking) for r in report.recordings]
    extra = [b - a for a, b in (c.fetches_per_second for c in told if c.fetches_per_second)]
    more_bytes = [b - a for a, b in (c.bytes_per_second for c in told if c.bytes_per_second)]
    if not extra or min(extra) < 0 or min(more_bytes, default=0) < 0:
        return None
    said = Markup("The price: {} more FETCHes a second on the active controller").format(
        words.between(extra, "rate")
    )
    if not more_bytes:
        return said + "."
    return Markup("{}, {} a second more.").format(said, words.between(more_bytes, "bytes"))


def _who(recordings: Iterable[HwmParking]) -> str:
    kinds = {recording.lag_kind for recording in recordings}
    return kind_name(kinds.pop()) if len(kinds) == 1 else kind_name(BROKERS)


def lag_sentence(found: HwmParking) -> Markup:
    """What the KIP does to the lag in one recording that has one."""
    both = comparison(found)
    assert both.lags is not None
    if both.medians is None:
        lacking = [
            f"{words.number(lag.unknown)} of {words.number(lag.count + lag.unknown)} {name} "
            "KIP-1166"
            for lag, name in zip(both.lags, ("without", "with"), strict=True)
            if lag.p50 is None
        ]
        return Markup(
            "The median lag cannot be told: of too many changes it is unknown when they were "
            "learned ({})."
        ).format(", ".join(lacking))
    slow, fast = (bold(words.milliseconds(median)) for median in both.medians)
    who = kind_name(found.lag_kind)
    if not both.makes_a_difference:
        return Markup(
            "KIP-1166 changes little here: {} learn a committed metadata change in {} with it and "
            "in {} without it (median)."
        ).format(who, fast, slow)
    wording = {
        Protocol.WITHOUT: "With KIP-1166, {} would learn a committed metadata change in {} instead "
        "of {} (median).",
        Protocol.WITH: "Thanks to KIP-1166, which this cluster runs, {} learn a committed metadata "
        "change in {} instead of {} (median).",
    }.get(
        found.protocol,
        "If every node ran KIP-1166, {} would learn a committed metadata change in {} instead of "
        "{} with none running it (median).",
    )
    return Markup(wording).format(who, fast, slow)


def cost_sentence(found: HwmParking) -> Markup:
    """What the KIP costs in this recording; empty where no rate is known."""
    both = comparison(found)
    if both.fetches_per_second is None:
        return Markup("")
    costs = "costs" if found.protocol is Protocol.WITH else "would cost"
    without, with_kip = both.fetches_per_second
    parts = [
        _extra(
            f"{words.number(abs(with_kip - without), 1)} "
            f"{'more' if with_kip >= without else 'fewer'} FETCHes a second",
            words.number(with_kip, 1),
            words.number(without, 1),
        )
    ]
    if both.bytes_per_second is not None:
        without, with_kip = both.bytes_per_second
        word = "more" if with_kip >= without else "less"
        said = f"{words.size(abs(with_kip - without))} a second {word}"
        parts.append(_extra(said, words.size(with_kip), words.size(without)))
    return Markup(" It {} {}.").format(costs, Markup(" and ").join(parts))


def _extra(said: str, with_kip: str, without: str) -> Markup:
    return Markup("{} ({} instead of {})").format(bold(said), with_kip, without)


def sources(found: HwmParking) -> str:
    """Where the figures of one recording come from, and how many are unknown."""
    said = {
        Protocol.WITHOUT: "Without: recorded in this cluster. With: replayed from its logs.",
        Protocol.WITH: "With: recorded in this cluster. Without: replayed from its logs.",
    }.get(found.protocol, "Both are replayed from the logs of this cluster.")
    both = comparison(found)
    if both.lags is None or not any(lag.unknown for lag in both.lags):
        return said
    without, with_kip = both.lags
    return (
        f"{said} Of {words.number(without.unknown)} changes without and "
        f"{words.number(with_kip.unknown)} with KIP-1166 it is unknown when they were learned; "
        "they count as the slowest."
    )


def protocol_sentence(found: HwmParking) -> str:
    """Which protocol the recorded cluster ran, and how that is known."""
    share = words.number(found.protocol_share * 100)
    return {
        Protocol.WITHOUT: "runs without KIP-1166",
        Protocol.WITH: "runs KIP-1166",
        Protocol.MIXED: f"runs KIP-1166 in part: {share} % of its FETCHes say a high watermark",
        Protocol.UNKNOWN: "not known whether it runs KIP-1166",
    }[found.protocol]


def unexplained_sentence(found: HwmParking) -> str:
    """How many recorded answers nothing explains."""
    if not found.judged_answers:
        return "No FETCH of the metadata log was answered by a leader."
    share = words.number(100 * found.unexplained_answers / found.judged_answers, 2)
    return (
        f"{words.number(found.unexplained_answers)} of {words.number(found.judged_answers)} "
        f"recorded answers ({share} %) are explained by no rule."
    )


# --- method --------------------------------------------------------------------------------------

METHOD = (
    Markup(
        "The lag is the time from the moment the active controller commits a change until it "
        "answers a replica with word of it; the way through the network comes on top, for both "
        "protocols alike."
    ),
    Markup(
        "When the leader appended, and how long each replica takes from an answer to its next "
        "FETCH, is taken from the log: the replica’s own gap nearest in time. Nothing is drawn at "
        "random."
    ),
    Markup(
        "All else follows from the rule: who is parked, who is answered when and why, when the "
        "high watermark moves, which FETCHes exist at all. Both protocols are simulated from the "
        "same log."
    ),
    Markup(
        "Why an answer came, how long the rule made it wait and which high watermark it told is "
        "never read by the simulation; that is only what it is held against."
    ),
    Markup(
        "It assumes that a replica’s gap does not depend on the protocol, and that the leader "
        "answers one FETCH at a time, as fast as the log shows."
    ),
    Markup(
        "A replica that was silent for over a second is away: it does not count for the changes it "
        "slept through."
    ),
    Markup(
        "Leaders sometimes answer early with nothing. No rule says why; such answers are counted "
        "as unexplained and left out of both protocols."
    ),
)
WORDS = (
    (
        "FETCH of the metadata log",
        "The request with which a replica asks the active controller for the metadata log’s next "
        "records.",
    ),
    ("High watermark", "The offset up to which a log is committed: most voters have it."),
    ("Parked", "Held back by the leader since there is nothing to tell yet."),
    (
        "Controllers, brokers",
        "Controllers vote on what is committed; brokers only follow. Both FETCH alike. The tables "
        "call them voters and brokers.",
    ),
)
SOURCES = (
    Source(
        "lags",
        "latency_summary",
        Markup(
            "<code>p50_ms … max_ms, count, unknown_count</code> of metric "
            "<code>high_watermark_lag</code>, by <code>replica_kind</code>"
        ),
    ),
    Source(
        "lines of its distribution",
        "high_watermark_lag",
        Markup("<code>lag_ms</code> where <code>phase</code> is steady, at most 200 points a line"),
    ),
    Source(
        "FETCHes and bytes a second",
        "bandwidth_summary",
        Markup(
            "<code>requests</code> (direction request) and <code>bytes</code> (both) / "
            "<code>span_s</code>, summed over <code>node_id</code>"
        ),
    ),
    Source("other waits", "the same", Markup("rows with <code>parameter</code> max_wait_ms")),
    Source(
        "unexplained, not judged",
        "fetch_parking_outcomes",
        Markup("<code>completion, verdict, reason</code>"),
    ),
)

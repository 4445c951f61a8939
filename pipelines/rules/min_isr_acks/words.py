"""min_isr_acks in words: how much sooner producers are answered, and what that exposes."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kip_replay.pipelines.report import sections, words
from kip_replay.pipelines.report.data import RecordingReport, Report
from kip_replay.pipelines.report.sections import bold
from kip_replay.pipelines.report.values import Percentiles
from kip_replay.pipelines.report.view import Source
from kip_replay.pipelines.rules.min_isr_acks.figures import MinIsrAcks
from kip_replay.replay.rules import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS

#: With at least this share of the wait left, the change makes no difference worth a headline.
NO_DIFFERENCE = 0.9
_Pair = tuple[Percentiles, Percentiles]


# --- sentences -----------------------------------------------------------------------------------


def waits(found: MinIsrAcks) -> _Pair | None:
    """How long is waited with acks=all and with acks=min.insync.replicas; None unless both."""
    both = found.latency.get(ACKS_ALL), found.latency.get(ACKS_MIN_INSYNC_REPLICAS)
    return None if both[0] is None or both[1] is None else (both[0], both[1])


def _medians(found: MinIsrAcks) -> tuple[float, float] | None:
    pair = waits(found)
    if pair is None or pair[0].p50 is None or pair[1].p50 is None:
        return None
    return pair[0].p50, pair[1].p50


def answer(report: Report) -> Markup:
    """How much sooner producers are answered, over all recordings, or where most and least."""
    told = _telling(report)
    if not told:
        return Markup("These logs do not tell how much sooner producers could be answered.")
    if all(_share_left(recording) >= NO_DIFFERENCE for recording in told):
        return Markup(
            "Waiting for fewer replicas changes little here: producers are answered in {}, waiting "
            "for all in {} (median)."
        ).format(*(bold(_between(told, place)) for place in (1, 0)))
    both = sections.most_and_least(told, _share_left)
    said = Markup(
        "Producers that wait for all in-sync replicas would be answered in {} instead of {} "
        "(median) if they waited for min.insync.replicas only."
    ).format(*(bold(_between(told if both is None else both[:1], place)) for place in (1, 0)))
    if both is None:
        return said
    return said + sections.whereabouts(both, *(_between(both[1:], place) for place in (1, 0)))


def _telling(report: Report) -> list[RecordingReport]:
    """Recordings whose medians are known, those with few answers only if there are no others."""
    told = [r for r in report.recordings if _medians(r.min_isr_acks)]
    return sections.enough(told, lambda r: r.min_isr_acks.latency[ACKS_ALL].count)


def _between(told: Sequence[RecordingReport], place: int) -> str:
    """Median waits with acks=all (0) or with acks=min.insync.replicas (1)."""
    medians = [m for m in (_medians(r.min_isr_acks) for r in told) if m]
    return words.between([m[place] for m in medians])


def _share_left(recording: RecordingReport) -> float:
    medians = _medians(recording.min_isr_acks)
    assert medians is not None
    return medians[1] / medians[0] if medians[0] else 1.0


def saved(recording: RecordingReport) -> float:
    """Milliseconds off the median; what has none comes last."""
    medians = _medians(recording.min_isr_acks)
    return medians[0] - medians[1] if medians else -1.0


def price(report: Report) -> Markup | None:
    """How long records are exposed at most; None where that is not known."""
    exposed = [recording.min_isr_acks.exposure for recording in _telling(report)]
    late = [one.p90 for one in exposed if one is not None and one.p90 is not None]
    if not late:
        return None
    return Markup(
        "The price: after such an answer it takes up to {} (9 in 10 times) until every in-sync "
        "replica has the records."
    ).format(words.milliseconds(max(late)))


def said(found: MinIsrAcks) -> Markup:
    """What one recording says of waits and exposure."""
    pair = waits(found)
    assert pair is not None
    medians = _medians(found)
    if medians is None:
        unknown = max(one.unknown for one in pair)
        every = max(one.count + one.unknown for one in pair)
        return Markup(
            "The median wait cannot be told: of {} of {} answers it is unknown when they would "
            "come."
        ).format(words.number(unknown), words.number(every))
    before, after = (bold(words.milliseconds(median)) for median in medians)
    if medians[1] >= NO_DIFFERENCE * medians[0]:
        said = Markup(
            "Waiting for min.insync.replicas only changes little here: producers would be answered "
            "in {}, with acks=all in {} (median)."
        ).format(after, before)
    else:
        said = Markup(
            "With acks=min.insync.replicas, producers would be answered in {} instead of {} "
            "(median)."
        ).format(after, before)
    if found.exposure is None or found.exposure.p50 is None:
        return said
    return Markup(
        "{} For {} (median; 9 in 10: at most {}) after that not every in-sync replica has the "
        "records."
    ).format(
        said,
        bold(words.milliseconds(found.exposure.p50)),
        words.milliseconds(found.exposure.p90),
    )


# --- prose ---------------------------------------------------------------------------------------

ABOUT = Markup(
    "With acks=all a producer is answered once every in-sync replica has its records, so the "
    "slowest follower sets the pace. With acks=min.insync.replicas it would be answered as soon as "
    "that many replicas have them, the leader included: as safe as the topic’s configuration asks "
    "for. Until the other in-sync replicas have the records too, they are exposed: fewer failures "
    "can lose them than with acks=all. Consumers see them no sooner than today."
)
NOTES = (
    "Per partition of PRODUCEs with acks=all, in the whole recording, from their arrival until the "
    "answer. Recorded: the whole request’s answer. Exposure: from the early answer until the whole "
    "ISR has the records.",
)
METHOD = (
    Markup(
        "A follower’s FETCH at an offset says that it has all before it. From those FETCHes in the "
        "leader’s log, and from the in-sync replicas and min.insync.replicas over time, the replay "
        "tells when each replica had each batch."
    ),
    Markup(
        "acks=all is replayed too and must come out as recorded; when it was answered, and with "
        "which error, is never read by the replay."
    ),
    Markup(
        "Open loop: a producer that is answered sooner sends sooner, and the log cannot tell how "
        "much more it would send. The rates of PRODUCEs stand beside every comparison of two "
        "recordings."
    ),
    Markup(
        "The KIP leaves open whether replicas outside the ISR count; here only its members do. "
        "Today’s brokers refuse acks=min.insync.replicas with INVALID_REQUIRED_ACKS (21)."
    ),
)
WORDS = (
    ("ISR", "In-sync replicas: those that the leader waits for with acks=all."),
    ("min.insync.replicas", "How many in-sync replicas a topic asks for at the least."),
    ("Exposure", "How long records that were answered for are not yet on every in-sync replica."),
)
SOURCES = (
    Source(
        "waits, exposure",
        "latency_summary",
        Markup(
            "metrics <code>produce_latency, produce_request_latency, exposure</code>, of all and "
            "by <code>node_id</code>"
        ),
    ),
    Source(
        "another min.insync.replicas",
        "the same",
        Markup("rows with <code>parameter</code> min_insync_replicas"),
    ),
    Source(
        "errors, not judged",
        "produce_ack_outcomes",
        Markup(
            "<code>recorded_error, acks_all_error, min_isr_error, verdict, reason</code> where "
            "<code>acks</code> is −1"
        ),
    ),
)

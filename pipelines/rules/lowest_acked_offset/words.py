"""lowest_acked_offset in words: when a metadata write is everywhere, and who knows it."""

from __future__ import annotations

from markupsafe import Markup

from kip_replay.pipelines.report import sections, words
from kip_replay.pipelines.report.data import Report
from kip_replay.pipelines.report.sections import bold
from kip_replay.pipelines.report.values import Percentiles
from kip_replay.pipelines.report.view import Source
from kip_replay.pipelines.rules.lowest_acked_offset.figures import LowestAckedOffset, Visibility
from kip_replay.replay.rules import FINEST_EVIDENCE

#: What clients saw, beside what heartbeats show (metric of prediction_accuracy).
SEEN = "create_topics_stale_window_p50"
#: What reads after writes should stay below, 9 in 10 times, to look for the interval it takes.
_GOALS_MS = (500, 100)


# --- sentences -----------------------------------------------------------------------------------


def stale_window(found: LowestAckedOffset) -> Percentiles | None:
    """The stale window by the best evidence there is."""
    finest = found.by_variant.get(FINEST_EVIDENCE, Visibility()).stale
    return finest or found.headline.stale


def _medians(found: LowestAckedOffset) -> tuple[float, float] | None:
    """Median stale window and median read-after-write; None unless both are known."""
    stale, told = stale_window(found), found.headline.read_after_write
    if stale is None or told is None or stale.p50 is None or told.p50 is None:
        return None
    return stale.p50, told.p50


def answer(report: Report) -> Markup:
    """How late writes are everywhere and known to be, over all recordings."""
    told = [r for r in report.recordings if _medians(r.lowest_acked_offset)]
    told = sections.enough(told, lambda r: r.lowest_acked_offset.writes)
    medians = [m for m in (_medians(r.lowest_acked_offset) for r in told) if m]
    if not medians:
        return Markup("These logs do not tell when every broker shows a metadata change.")
    stale, known = (bold(words.between([m[place] for m in medians])) for place in (0, 1))
    return Markup(
        "After the answer to a metadata change, some broker may show the old state for up to {} "
        "(median), and nobody is told when that is over. Told in heartbeats, the broker that was "
        "asked would know {} after the request."
    ).format(stale, known)


def as_clients_saw(report: Report) -> Markup:
    """What clients that watched really saw, where a recording has it."""
    seen = [
        check
        for check in report.checks
        if check.metric == SEEN and check.is_self_check and check.recorded is not None
    ]
    if not seen:
        return Markup("")
    return Markup(
        " Clients that watched saw a new topic on every broker {} after the answer (median of {}): "
        "the logs prove it only later."
    ).format(
        words.between([check.recorded for check in seen if check.recorded is not None]),
        words.count(len(seen), "recording"),
    )


def price(report: Report) -> Markup | None:
    """What the new field costs; None where no heartbeat was replayed."""
    sent = [r.lowest_acked_offset.heartbeats for r in report.recordings]
    heartbeats = sum(one.heartbeats for one in sent)
    if not heartbeats:
        return None
    before, after = (
        sum(getattr(one, name) for one in sent) / heartbeats
        for name in ("recorded_bytes", "replayed_bytes")
    )
    return Markup(
        "The price: {} bytes more in each answer to a heartbeat ({} instead of {})."
    ).format(words.number(after - before), words.number(after), words.number(before))


def said(found: LowestAckedOffset) -> Markup:
    """What one recording says of the stale window and of read-after-write."""
    medians = _medians(found)
    if medians is None:
        spreads = [s for s in (found.headline.stale, found.headline.read_after_write) if s]
        unknown = max(one.unknown for one in spreads)
        return Markup(
            "The medians cannot be told: of {} of {} metadata writes it is unknown when every "
            "broker had them, or when that was known."
        ).format(words.number(unknown), words.number(found.writes))
    stale, told = (bold(words.milliseconds(median)) for median in medians)
    return Markup(
        "After the answer to a metadata write, some broker may have shown the old state for up to "
        "{} (median). With the draft, the broker that was asked would have known that it was over "
        "{} after the request."
    ).format(stale, told)


def interval_sentence(found: LowestAckedOffset) -> str | None:
    """Which heartbeat interval would bring reads after writes below the goals."""
    if not found.sweep:
        return None
    variants = words.in_order(v for point in found.sweep for v in point.by_variant)
    said = []
    for goal in _GOALS_MS:
        enough = [
            (point.interval_ms, variant)
            for point in found.sweep
            for variant in variants
            if (told := point.by_variant.get(variant, Visibility()).read_after_write)
            and told.p90 is not None
            and told.p90 <= goal
        ]
        limit = f"{words.number(goal)}{words.SPACE}ms"
        if not enough:
            said.append(f"below {limit} with none of the intervals tried")
            continue
        longest = max(interval for interval, _ in enough)
        how = [words.variant_name(variant) for interval, variant in enough if interval == longest]
        said.append(
            f"below {limit} with a heartbeat every {words.number(longest)}{words.SPACE}ms "
            f"({words.joined(how)})"
        )
    return f"9 in 10 reads after writes: {'; '.join(said)}."


# --- prose ---------------------------------------------------------------------------------------

ABOUT = Markup(
    "Who creates a topic or changes a config is answered once the controller has committed it. Any "
    "broker may then still answer from what it knew before: the stale window. Brokers say in their "
    "heartbeats how far they have applied the metadata log. The draft has the controller tell back "
    "the lowest offset that every unfenced broker has applied, so that a broker knows when a "
    "change can be read everywhere: read-after-write."
)
NOTES = (
    "Stale window: from the controller’s answer until the log proves the write applied on every "
    "unfenced broker, by heartbeats or by the finest evidence there is. Brokers have it before "
    "they say so, so it is an upper bound. Read-after-write: from the request until the broker "
    "that forwarded it is told (else, until every broker is).",
)
METHOD = (
    Markup(
        "A metadata write’s offset is not logged. It lies between the controllers’ high watermarks "
        "before and after, recomputed from the voters’ FETCHes; claims take the upper end."
    ),
    Markup(
        "Brokers that are fenced or shutting down do not count. The offset that is told never "
        "falls, though what a controller computes can."
    ),
    Markup(
        "Other intervals are simulated: each broker keeps the phase of its heartbeats, and applies "
        "changes when the log shows, or, with and without KIP-1166, when that replay says it "
        "learns of them."
    ),
    Markup(
        "After an upgrade of the metadata version the brokers’ renegotiation of ApiVersions waits "
        "for the same moment."
    ),
)
WORDS = (
    ("Heartbeat", "What each broker sends to the active controller every 2 s, unless configured."),
    ("Fenced", "Taken out by the controller: not heard of for too long, or not caught up yet."),
    ("Stale window", "How long after the answer some broker may still show the old state."),
    ("Read-after-write", "When a client can rely on reading what it wrote, from any broker."),
)
SOURCES = (
    Source(
        "stale window, read-after-write",
        "latency_summary",
        Markup(
            "metrics <code>stale_window, read_after_write</code>, of all and by "
            "<code>api_name</code>"
        ),
    ),
    Source(
        "other intervals",
        "the same",
        Markup("rows with <code>parameter</code> broker_heartbeat_interval_ms"),
    ),
    Source(
        "writes not judged",
        "metadata_write_outcomes",
        Markup("<code>verdict, reason</code>"),
    ),
    Source(
        "bytes of heartbeats",
        "heartbeat_outcomes",
        Markup("<code>response_bytes, replayed_response_bytes</code>"),
    ),
)

"""incremental_fetch in words: what fetch sessions save, and how that is known."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from kip_replay.pipelines.report import sections, words
from kip_replay.pipelines.report.data import RecordingReport, Report
from kip_replay.pipelines.report.sections import bold
from kip_replay.pipelines.report.view import Source
from kip_replay.pipelines.rules.incremental_fetch.figures import (
    CONSUMER,
    FOLLOWER,
    WITHOUT_SESSIONS,
    IncrementalFetch,
    SessionTraffic,
    SlotsPoint,
)
from kip_replay.replay.rules import FULL, INCREMENTAL

#: With at least this share of the bytes left, sessions make no difference worth a headline.
NO_DIFFERENCE = 0.9
_KIND_NAMES = {
    FOLLOWER: "followers",
    CONSUMER: "consumers",
    WITHOUT_SESSIONS: "consumers without sessions",
}
_ONE = {FOLLOWER: "a follower’s", CONSUMER: "a consumer’s", WITHOUT_SESSIONS: "a consumer’s"}


def kind_name(kind: str) -> str:
    """'followers', 'consumers'."""
    return _KIND_NAMES.get(kind, kind)


# --- sentences -----------------------------------------------------------------------------------


def both_ways(found: IncrementalFetch) -> tuple[SessionTraffic, SessionTraffic] | None:
    """All FETCHes in full and with sessions; None unless both are known."""
    full, sessions = found.of(FULL), found.of(INCREMENTAL)
    if full is None or sessions is None or not full.overhead_per_second:
        return None
    return None if sessions.overhead_per_second is None else (full, sessions)


def _partitions(found: IncrementalFetch) -> tuple[float, float] | None:
    """Partitions that a FETCH of the leading kind of client lists, in full and with sessions."""
    full, sessions = (found.of(variant, found.lead_kind) for variant in (FULL, INCREMENTAL))
    if full is None or sessions is None:
        return None
    pair = full.request_partitions_mean, sessions.request_partitions_mean
    return None if pair[0] is None or pair[1] is None else (pair[0], pair[1])


def answer(report: Report) -> Markup:
    """What sessions save, over all recordings, or where they save most and least."""
    told = [r for r in report.recordings if both_ways(r.incremental_fetch)]
    if not told:
        return Markup("These logs do not tell what fetch sessions save.")
    told = sections.enough(told, _fetches)
    if all(_share_left(recording) >= NO_DIFFERENCE for recording in told):
        return Markup(
            "Fetch sessions save little here: FETCHes and their answers take {} a second besides "
            "records, without sessions {}."
        ).format(*(_sizes(told, place) for place in (1, 0)))
    both = sections.most_and_least(told, _share_left)
    if both is None:
        return in_figures(told)
    most, least = ([recording] for recording in both)
    where = sections.whereabouts(both, f"{_sizes(least, 1)} a second", _sizes(least, 0))
    return in_figures(most) + where


def in_figures(told: Sequence[RecordingReport]) -> Markup:
    """What FETCHes list and take with sessions, and without."""
    listed = [pair for pair in (_partitions(r.incremental_fetch) for r in told) if pair]
    bytes_left = Markup("{} a second besides records instead of {}").format(
        bold(_sizes(told, 1)), bold(_sizes(told, 0))
    )
    if not listed:
        return Markup("With fetch sessions, FETCHes and their answers take {}.").format(bytes_left)
    many, few = (words.between([pair[place] for pair in listed], "rate") for place in (0, 1))
    kinds = {recording.incremental_fetch.lead_kind for recording in told}
    whose = _ONE.get((kinds.pop() if len(kinds) == 1 else None) or "", "a client’s")
    return Markup(
        "With fetch sessions {} FETCH lists {} partitions instead of {}, and FETCHes and their "
        "answers take {}."
    ).format(whose, bold(few), bold(many), bytes_left)


def _sizes(told: Sequence[RecordingReport], place: int) -> str:
    """Bytes a second besides records, without sessions (0) or with them (1)."""
    pairs = [pair for pair in (both_ways(r.incremental_fetch) for r in told) if pair]
    return words.between([pair[place].overhead_per_second or 0.0 for pair in pairs], "bytes")


def _share_left(recording: RecordingReport) -> float:
    pair = both_ways(recording.incremental_fetch)
    assert pair is not None
    return (pair[1].overhead_per_second or 0.0) / (pair[0].overhead_per_second or 1.0)


def saved(recording: RecordingReport) -> float:
    """Bytes a second that sessions save."""
    pair = both_ways(recording.incremental_fetch)
    assert pair is not None
    return (pair[0].overhead_per_second or 0.0) - (pair[1].overhead_per_second or 0.0)


def _fetches(recording: RecordingReport) -> int:
    pair = both_ways(recording.incremental_fetch)
    return pair[0].fetches if pair else 0


def price(report: Report) -> Markup | None:
    """How many slots are enough; None where no number of slots was tried."""
    swept = [r.incremental_fetch.sweep for r in report.recordings if r.incremental_fetch.sweep]
    if not swept:
        return None
    enough = [slots for slots in map(_enough, swept) if slots is not None]
    most = words.number(max(point.slots for points in swept for point in points))
    if len(enough) < len(swept):
        return Markup(
            "The price is a slot on the broker for each session; even {} slots were too few here."
        ).format(most)
    return Markup(
        "The price is a slot on the broker for each session: of the numbers tried, {} is the least "
        "with which none was refused or evicted."
    ).format(words.number(max(enough)))


def _enough(points: Sequence[SlotsPoint]) -> int | None:
    """The least number of slots from which on no session is refused or evicted."""
    enough = None
    for point in sorted(points, key=lambda one: -one.slots):
        # No slot at all: every client sends everything, and that is no refusal by lack of room.
        if point.slots == 0 or point.events.get("refused") or point.events.get("evicted"):
            break
        enough = point.slots
    return enough


def as_recorded(found: IncrementalFetch) -> str | None:
    """How many FETCHes come out as recorded; None where none could be compared."""
    if not found.compared:
        return None
    return (
        f"{words.number(found.equal)} of {words.number(found.compared)} recorded incremental "
        "FETCHes come out of the replay the same: partitions, their order, and every byte."
    )


# --- prose ---------------------------------------------------------------------------------------

ABOUT = Markup(
    "Followers and consumers ask a broker again and again for all of their partitions, most of "
    "which have nothing new. With a fetch session the broker remembers the list: a FETCH names "
    "only the partitions of which something changed, and so does its answer. Sessions take slots "
    "of a cache on the broker; who gets none sends everything each time. The KIP’s draft would "
    "have given sessions to followers only."
)
NOTES = (
    "Means of the steady phase; bytes are those on the wire, both ways, less the records, which "
    "are the same in every variant. Unknown: FETCHes of the whole recording that could not be "
    "replayed, most often since their session began before the log.",
)
METHOD = (
    Markup(
        "Each session is rebuilt from the log: which partitions it holds, what was last sent of "
        "each, what changed. What a full FETCH, a session’s FETCH and the draft’s would carry "
        "follows from that, and so does its exact size on the wire."
    ),
    Markup(
        "Open loop: every variant answers the FETCHes that were logged, when they were logged. A "
        "smaller FETCH is answered a little sooner, and the next one comes sooner; that is not "
        "replayed."
    ),
    Markup(
        "Clients that never asked for a session (librdkafka’s, for instance) stay without one. The "
        "draft does not say how partitions come and go: there a full FETCH follows, with the 8 "
        "bytes more that its answer would have."
    ),
)
WORDS = (
    ("FETCH", "The request with which followers and consumers read from a broker."),
    ("Fetch session", "A list of partitions that client and broker both remember."),
    ("Slot", "Room for one session in a broker’s cache; followers go before consumers."),
)
SOURCES = (
    Source(
        "partitions and bytes",
        "bandwidth_summary",
        Markup(
            "<code>partitions, bytes, record_bytes</code> by <code>client_kind</code> and "
            "<code>direction</code>, summed over <code>node_id</code>"
        ),
    ),
    Source("other slots", "the same", Markup("rows with <code>parameter</code> session_slots")),
    Source(
        "sessions refused, evicted",
        "fetch_session_evictions",
        Markup("<code>event</code>, counted by <code>parameter_value</code>"),
    ),
    Source(
        "come out the same, not judged",
        "fetch_session_outcomes",
        Markup("<code>equals_recorded, verdict, reason</code>"),
    ),
)

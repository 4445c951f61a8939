"""incremental_fetch in words and pictures: what fetch sessions save, and what N slots do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from markupsafe import Markup

from pipelines.report import sections, words
from pipelines.report.data import RecordingReport, Report
from pipelines.report.incremental_fetch import (
    CONSUMER,
    EVENTS,
    FOLLOWER,
    RULE,
    WITHOUT_SESSIONS,
    IncrementalFetch,
    SessionTraffic,
    SlotsPoint,
)
from pipelines.report.sections import bold
from pipelines.report.view import (
    Block,
    Column,
    Detail,
    Figure,
    Group,
    KeyFigure,
    Note,
    Row,
    Section,
    Source,
    Table,
)
from replay.outcomes import RECORDED
from replay.rules import FULL, INCREMENTAL, INCREMENTAL_DRAFT

#: With at least this share of the bytes left, sessions make no difference worth a headline.
NO_DIFFERENCE = 0.9
_REPLAYED = (FULL, INCREMENTAL, INCREMENTAL_DRAFT)
_VARIANTS = (RECORDED, *_REPLAYED)
_KIND_NAMES = {
    FOLLOWER: "followers",
    CONSUMER: "consumers",
    WITHOUT_SESSIONS: "consumers without sessions",
}
_ONE = {FOLLOWER: "a follower’s", CONSUMER: "a consumer’s", WITHOUT_SESSIONS: "a consumer’s"}
_NOTHING = "hold no FETCH of topic partitions. Such FETCHes are in the request logs of the brokers."
_NOT_STEADY = "hold no FETCH of topic partitions in the steady phase that could be replayed."


def kind_name(kind: str) -> str:
    """'followers', 'consumers'."""
    return _KIND_NAMES.get(kind, kind)


# --- sentences -----------------------------------------------------------------------------------


def _pair(found: IncrementalFetch) -> tuple[SessionTraffic, SessionTraffic] | None:
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
    told = [r for r in report.recordings if _pair(r.incremental_fetch)]
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
        return _in_figures(told)
    most, least = ([recording] for recording in both)
    where = sections.whereabouts(both, f"{_sizes(least, 1)} a second", _sizes(least, 0))
    return _in_figures(most) + where


def _in_figures(told: Sequence[RecordingReport]) -> Markup:
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
    pairs = [pair for pair in (_pair(r.incremental_fetch) for r in told) if pair]
    return words.between([pair[place].overhead_per_second or 0.0 for pair in pairs], "bytes")


def _share_left(recording: RecordingReport) -> float:
    pair = _pair(recording.incremental_fetch)
    assert pair is not None
    return (pair[1].overhead_per_second or 0.0) / (pair[0].overhead_per_second or 1.0)


def _saved(recording: RecordingReport) -> float:
    """Bytes a second that sessions save."""
    pair = _pair(recording.incremental_fetch)
    assert pair is not None
    return (pair[0].overhead_per_second or 0.0) - (pair[1].overhead_per_second or 0.0)


def _fetches(recording: RecordingReport) -> int:
    pair = _pair(recording.incremental_fetch)
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


def _as_recorded(found: IncrementalFetch) -> str | None:
    if not found.compared:
        return None
    return (
        f"{words.number(found.equal)} of {words.number(found.compared)} recorded incremental "
        "FETCHes come out of the replay the same: partitions, their order, and every byte."
    )


# --- the section ---------------------------------------------------------------------------------


def section(report: Report) -> Section:
    """The rule's section."""
    told = [r for r in report.recordings if _why_silent(r.incremental_fetch) is None]
    ranked = sections.most_telling(told, _saved)
    details = (partial(_detail, recording, place) for place, recording in enumerate(ranked))
    doubts = [(r.name, r.incremental_fetch.doubts) for r in report.recordings]
    return Section(
        rule=RULE,
        short="Fetch sessions",
        question="What do fetch sessions save?",
        proposal="KIP-227, in Kafka since 1.1, and its draft beside it",
        answer=answer(report),
        price=price(report),
        about=_ABOUT,
        table=_overview(told) if told else None,
        notes=_NOTES if told else [],
        silent=sections.silent((r, _why_silent(r.incremental_fetch)) for r in report.recordings),
        details=sections.shown(details),
        left_out=[recording.name for recording in ranked[sections.MOST_DETAILS :]],
        sure=sections.sure(report, RULE),
        doubts_said=sections.doubts_said(doubts),
        doubts=sections.doubt_table(
            doubts,
            {"fetches": "FETCHes"},
            "fetch_session_outcomes",
        ),
        method=_METHOD,
        words=_WORDS,
        sources=_SOURCES,
    )


def _why_silent(found: IncrementalFetch) -> str | None:
    if not found.fetches:
        return _NOTHING
    return _NOT_STEADY if _pair(found) is None else None


def _overview(told: Sequence[RecordingReport]) -> Table:
    replayed = [Column("full", "gap"), Column("sessions", "with"), Column("draft")]
    return Table(
        "What a FETCH carries in full, with sessions, and with the draft’s",
        [Column("recording"), Column("of", "left"), *replayed * 3, Column("unknown", "soft gap")],
        [_overview_row(recording) for recording in told],
        [
            Group("", 2),
            Group("partitions in a FETCH", 3, "gap"),
            Group("partitions in its answer", 3, "gap"),
            Group("B/s besides records, all clients", 3, "gap"),
            Group("", 1),
        ],
    )


def _overview_row(recording: RecordingReport) -> Row:
    found = recording.incremental_fetch
    kind = found.lead_kind or ""
    lead = [found.of(variant, kind) for variant in _REPLAYED]
    every = [found.of(variant) for variant in _REPLAYED]
    cells = [_cell(one, "request_partitions_mean", 1) for one in lead]
    cells += [_cell(one, "response_partitions_mean", 1) for one in lead]
    cells += [_cell(one, "overhead_per_second") for one in every]
    unknown = max((found.unknown.get(variant, 0) for variant in _REPLAYED), default=0)
    return Row(recording.name, [kind_name(kind), *cells, words.number(unknown)])


def _cell(traffic: SessionTraffic | None, figure: str, decimals: int = 0) -> str:
    return words.number(getattr(traffic, figure) if traffic else None, decimals)


# --- one recording -------------------------------------------------------------------------------


def _detail(recording: RecordingReport, place: int) -> Detail:
    found = recording.incremental_fetch
    spans = [one.span_s for of_kind in found.figures.values() for one in of_kind.values()]
    ran = "uses fetch sessions" if found.uses_sessions else "uses no fetch session"
    as_recorded = _as_recorded(found)
    return Detail(
        name=recording.name,
        facts=sections.facts(recording, ran, sections.steady(max(spans, default=0.0))),
        said=_in_figures([recording]),
        keys=_key_figures(found),
        keys_note=Markup(
            "<span class='without'>Full FETCHes</span> → <span class='with'>fetch sessions</span>. "
            "Both follow from what changed between the FETCHes that were logged."
        ),
        blocks=[
            _picture(recording, f"session-{place}"),
            *_tables(found),
            *_sweep(found),
            *([Note(as_recorded)] if as_recorded else []),
        ],
    )


def _key_figures(found: IncrementalFetch) -> list[KeyFigure]:
    pair = _pair(found)
    kind = found.lead_kind
    lead = [found.of(variant, kind) for variant in (FULL, INCREMENTAL)]
    keys = []
    for name, figure in (
        ("Partitions in a FETCH", "request_partitions_mean"),
        ("Partitions in its answer", "response_partitions_mean"),
    ):
        full, sessions = (_cell(one, figure, 1) for one in lead)
        keys.append(KeyFigure(f"{name}, {kind_name(kind or '')}", full, sessions, ""))
    if pair is not None:
        for name, figure in (
            ("Besides records, all", "overhead_per_second"),
            ("Bytes, all", "bytes_per_second"),
        ):
            sizes = words.two_sizes(*(getattr(one, figure) or 0.0 for one in pair))
            keys.append(KeyFigure(name, *sizes))
    return keys


def _picture(recording: RecordingReport, name: str) -> Figure:
    found = recording.incremental_fetch
    parts = {}
    # The longest bar first: its parts have room for their names.
    for variant in (FULL, INCREMENTAL_DRAFT, INCREMENTAL, RECORDED):
        traffic = found.of(variant)
        if traffic is not None:
            parts[variant] = [
                ("FETCHes", traffic.request_bytes_per_second or 0.0),
                ("answers", traffic.answer_overhead_per_second or 0.0),
            ]
    drawing = sections.bars(name, recording.name, parts, True, "Bytes a second besides records")
    return Figure("Bytes a second besides records", "all clients", drawing)


def _tables(found: IncrementalFetch) -> list[Table]:
    """A table for each kind of client."""
    columns = [
        Column("FETCHes/s"),
        Column("in a FETCH", "gap"),
        Column("in its answer"),
        Column("FETCHes", "gap"),
        Column("answers"),
        Column("all, with records"),
    ]
    groups = [
        Group("", 2),
        Group("partitions", 2, "gap"),
        Group("bytes/s (answers: besides records)", 3, "gap"),
    ]
    return [
        Table(
            kind_name(kind).capitalize(),
            [Column(""), *columns],
            [
                _traffic_row(variant, traffic)
                for variant in _VARIANTS
                if (traffic := found.of(variant, kind)) is not None
            ],
            groups,
        )
        for kind in found.kinds
    ]


def _traffic_row(variant: str, traffic: SessionTraffic) -> Row:
    return Row(
        words.variant_name(variant),
        [
            _cell(traffic, "fetches_per_second", 1),
            _cell(traffic, "request_partitions_mean", 2),
            _cell(traffic, "response_partitions_mean", 2),
            _cell(traffic, "request_bytes_per_second"),
            _cell(traffic, "answer_overhead_per_second"),
            _cell(traffic, "bytes_per_second"),
        ],
        f"variant {words.variant_class(variant)}",
    )


def _sweep(found: IncrementalFetch) -> list[Block]:
    if not found.sweep:
        return []
    kinds = [kind for kind in found.kinds if kind != WITHOUT_SESSIONS]
    enough = found.figures.get(INCREMENTAL, {})
    rows = [
        _sweep_row(words.number(point.slots), point.traffic, point.events, kinds)
        for point in found.sweep
    ]
    rows.append(_sweep_row("enough for all", enough, found.events, kinds))
    return [
        Table(
            "So many slots for sessions on each broker (max.incremental.fetch.session.cache.slots; "
            "fewer than 8 are none)",
            [
                Column("slots"),
                *(Column(kind_name(kind), "gap" if n == 0 else "") for n, kind in enumerate(kinds)),
                Column("FETCHes/s", "gap"),
                Column("B/s besides records"),
                *(Column(name, "gap" if n == 0 else "") for n, name in enumerate(EVENTS)),
            ],
            rows,
            [
                Group("", 1),
                *([Group("partitions in a FETCH", len(kinds), "gap")] if kinds else []),
                Group("all clients", 2, "gap"),
                Group("sessions", len(EVENTS), "gap"),
            ],
        )
    ]


def _sweep_row(
    name: str,
    traffic: Mapping[str, SessionTraffic],
    events: Mapping[str, int],
    kinds: Sequence[str],
) -> Row:
    total = sum(traffic.values(), SessionTraffic())
    return Row(
        name,
        [
            *(_cell(traffic.get(kind), "request_partitions_mean", 1) for kind in kinds),
            _cell(total, "fetches_per_second", 1),
            _cell(total, "overhead_per_second"),
            *(words.number(events.get(event, 0)) for event in EVENTS),
        ],
    )


# --- prose ---------------------------------------------------------------------------------------

_ABOUT = Markup(
    "Followers and consumers ask a broker again and again for all of their partitions, most of "
    "which have nothing new. With a fetch session the broker remembers the list: a FETCH names "
    "only the partitions of which something changed, and so does its answer. Sessions take slots "
    "of a cache on the broker; who gets none sends everything each time. The KIP’s draft would "
    "have given sessions to followers only."
)
_NOTES = (
    "Means of the steady phase; bytes are those on the wire, both ways, less the records, which "
    "are the same in every variant. Unknown: FETCHes of the whole recording that could not be "
    "replayed, most often since their session began before the log.",
)
_METHOD = (
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
_WORDS = (
    ("FETCH", "The request with which followers and consumers read from a broker."),
    ("Fetch session", "A list of partitions that client and broker both remember."),
    ("Slot", "Room for one session in a broker’s cache; followers go before consumers."),
)
_SOURCES = (
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

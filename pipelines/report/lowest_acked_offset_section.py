"""lowest_acked_offset in words and pictures: when a metadata write is everywhere, who knows it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from markupsafe import Markup

from pipelines.report import sections, words
from pipelines.report.data import RecordingReport, Report
from pipelines.report.lowest_acked_offset import (
    READ_AFTER_WRITE,
    RULE,
    STALE,
    LowestAckedOffset,
    Visibility,
)
from pipelines.report.sections import bold
from pipelines.report.values import Percentiles
from pipelines.report.view import (
    Beside,
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
from replay.rules import FINEST_EVIDENCE, LOWEST_ACKED

_NOTHING = "hold no metadata write. Those are in the request logs of the controllers."
_NOT_TOLD = (
    "hold metadata writes, but none in the steady phase of which it could be told when every "
    "broker had it."
)
#: What clients saw, beside what heartbeats show (metric of prediction_accuracy).
SEEN = "create_topics_stale_window_p50"
#: What reads after writes should stay below, 9 in 10 times, to look for the interval it takes.
_GOALS_MS = (500, 100)


# --- sentences -----------------------------------------------------------------------------------


def _stale(found: LowestAckedOffset) -> Percentiles | None:
    """The stale window by the best evidence there is."""
    finest = found.by_variant.get(FINEST_EVIDENCE, Visibility()).stale
    return finest or found.headline.stale


def _medians(found: LowestAckedOffset) -> tuple[float, float] | None:
    """Median stale window and median read-after-write; None unless both are known."""
    stale, told = _stale(found), found.headline.read_after_write
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


def _as_clients_saw(report: Report) -> Markup:
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


def _said(found: LowestAckedOffset) -> Markup:
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


def _interval_sentence(found: LowestAckedOffset) -> str | None:
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


# --- the section ---------------------------------------------------------------------------------


def section(report: Report) -> Section:
    """The rule's section."""
    told = [r for r in report.recordings if _why_silent(r.lowest_acked_offset) is None]
    ranked = sections.most_telling(told, lambda r: r.lowest_acked_offset.writes)
    details = (partial(_detail, recording, place) for place, recording in enumerate(ranked))
    doubts = [(r.name, r.lowest_acked_offset.doubts) for r in report.recordings]
    return Section(
        rule=RULE,
        short="Changes everywhere",
        question="When does every broker show a metadata change?",
        proposal="The draft of LowestAcknowledgedOffset in heartbeats, in no Kafka release",
        answer=answer(report),
        price=price(report),
        about=_ABOUT,
        table=_overview(told) if told else None,
        notes=_NOTES if told else [],
        silent=sections.silent((r, _why_silent(r.lowest_acked_offset)) for r in report.recordings),
        details=sections.shown(details),
        left_out=[recording.name for recording in ranked[sections.MOST_DETAILS :]],
        sure=sections.sure(report, RULE) + _as_clients_saw(report),
        doubts_said=sections.doubts_said(doubts),
        doubts=sections.doubt_table(
            doubts,
            {"writes": "metadata writes"},
            "metadata_write_outcomes",
        ),
        method=_METHOD,
        words=_WORDS,
        sources=_SOURCES,
    )


def _why_silent(found: LowestAckedOffset) -> str | None:
    if not found.writes:
        return _NOTHING
    headline = found.headline
    return _NOT_TOLD if headline.stale is None and headline.read_after_write is None else None


def _overview(told: Sequence[RecordingReport]) -> Table:
    spread = [Column("median", "gap"), Column("90 %")]
    return Table(
        "How late a metadata write is applied everywhere, and known to be, ms",
        [
            Column("recording"),
            *spread * 2,
            *(Column(name, f"{style} with") for name, style in spread),
            Column("writes", "soft gap"),
            Column("unknown", "soft"),
        ],
        [_overview_row(recording) for recording in told],
        [
            Group("", 1),
            Group("stale, by finest evidence", 2, "gap without"),
            Group("stale, by heartbeats", 2, "gap without"),
            Group("read-after-write", 2, "gap with"),
            Group("", 2),
        ],
    )


def _overview_row(recording: RecordingReport) -> Row:
    found = recording.lowest_acked_offset
    finest = found.by_variant.get(FINEST_EVIDENCE, Visibility()).stale
    spreads = [finest, found.headline.stale, found.headline.read_after_write]
    return Row(
        recording.name,
        [
            *(cell for one in spreads for cell in sections.ms_cells(one, "p50", "p90")),
            words.number(found.writes),
            sections.unknown_cell(*spreads),
        ],
    )


# --- one recording -------------------------------------------------------------------------------


def _detail(recording: RecordingReport, place: int) -> Detail:
    found = recording.lowest_acked_offset
    intervals = _interval_sentence(found)
    return Detail(
        name=recording.name,
        facts=sections.facts(recording, words.count(found.writes, "metadata write")),
        said=_said(found),
        keys=_key_figures(found),
        keys_note="The stale window begins with the answer and ends with the finest evidence that "
        "it is over; read-after-write begins with the request.",
        blocks=[
            *_visibility(recording, f"known-{place}"),
            *_by_api(found),
            *_sweep(found),
            *([Note(intervals)] if intervals else []),
        ],
    )


def _key_figures(found: LowestAckedOffset) -> list[KeyFigure]:
    return [
        KeyFigure(f"{name}, {which}", None, words.short_ms(getattr(spread, p)), "ms")
        for name, spread in (
            ("Stale window", _stale(found)),
            ("Read-after-write", found.headline.read_after_write),
        )
        if spread is not None
        for which, p in (("median", "p50"), ("90 %", "p90"))
    ]


def _visibility(recording: RecordingReport, name: str) -> list[Block]:
    found = recording.lowest_acked_offset
    finest = found.by_variant.get(FINEST_EVIDENCE, Visibility()).stale
    lines = [
        ("other", "stale, finest evidence", found.curves.get((FINEST_EVIDENCE, STALE)), finest),
        ("without", "stale window", found.curves.get((LOWEST_ACKED, STALE)), found.headline.stale),
        (
            "with",
            "read-after-write",
            found.curves.get((LOWEST_ACKED, READ_AFTER_WRITE)),
            found.headline.read_after_write,
        ),
    ]
    picture = sections.distribution(
        name,
        recording.name,
        lines,
        "ms after the answer (stale window) or the request (read-after-write)",
        "How late metadata writes are everywhere",
    )
    tables = [
        _spread_table("Stale window, from the answer, ms", found, "stale"),
        _spread_table("Read-after-write, from the request, ms", found, "read_after_write"),
    ]
    if picture is None:
        return [*tables]
    return [Beside([Figure("Metadata writes", "share after so long", picture), *tables])]


def _spread_table(caption: str, found: LowestAckedOffset, metric: str) -> Table:
    spreads = {
        variant: spread
        for variant in words.in_order(found.by_variant)
        if (spread := getattr(found.by_variant[variant], metric)) is not None
    }
    return Table(
        caption,
        [
            Column(""),
            *map(Column, ("median", "90 %", "99 %", "longest")),
            Column("writes", "soft"),
            Column("unknown", "soft"),
        ],
        [
            Row(
                words.variant_name(variant),
                [
                    *sections.ms_cells(spread, "p50", "p90", "p99", "max"),
                    words.number(spread.count),
                    words.number(spread.unknown),
                ],
                f"variant {words.variant_class(variant)}",
            )
            for variant, spread in spreads.items()
        ],
    )


def _by_api(found: LowestAckedOffset) -> list[Block]:
    if len(found.by_api) < 2:
        return []
    both = [Column("median", "gap"), Column("90 %")]
    return [
        Table(
            "By kind of write, ms",
            [Column("request"), *both * 2, Column("writes", "soft gap"), Column("unknown", "soft")],
            [_api_row(name, of_api) for name, of_api in found.by_api.items()],
            [
                Group("", 1),
                Group("stale window", 2, "gap without"),
                Group("read-after-write", 2, "gap with"),
                Group("", 2),
            ],
        )
    ]


def _api_row(name: str, found: Visibility) -> Row:
    spreads = [found.stale, found.read_after_write]
    known = [one for one in spreads if one]
    return Row(
        name,
        [
            *(cell for one in spreads for cell in sections.ms_cells(one, "p50", "p90")),
            words.number(max(one.count + one.unknown for one in known)),
            sections.unknown_cell(*spreads),
        ],
    )


def _sweep(found: LowestAckedOffset) -> list[Block]:
    if not found.sweep:
        return []
    variants = words.in_order(v for point in found.sweep for v in point.by_variant)
    points = [
        *((f"{words.number(point.interval_ms)} ms", point.by_variant) for point in found.sweep),
        *([("as recorded", found.by_variant)] if {*variants} & {*found.by_variant} else []),
    ]
    both = [Column("median", "gap"), Column("90 %")]
    return [
        Table(
            "Read-after-write in ms if brokers sent a heartbeat every so many ms "
            "(broker.heartbeat.interval.ms)",
            [Column("interval"), *both * len(variants)],
            [
                Row(
                    name,
                    [
                        cell
                        for variant in variants
                        for cell in sections.ms_cells(
                            by_variant.get(variant, Visibility()).read_after_write, "p50", "p90"
                        )
                    ],
                )
                for name, by_variant in points
            ],
            [
                Group("", 1),
                *(
                    Group(words.variant_name(v), 2, f"gap {words.variant_class(v)}")
                    for v in variants
                ),
            ],
        )
    ]


# --- prose ---------------------------------------------------------------------------------------

_ABOUT = Markup(
    "Who creates a topic or changes a config is answered once the controller has committed it. Any "
    "broker may then still answer from what it knew before: the stale window. Brokers say in their "
    "heartbeats how far they have applied the metadata log. The draft has the controller tell back "
    "the lowest offset that every unfenced broker has applied, so that a broker knows when a "
    "change can be read everywhere: read-after-write."
)
_NOTES = (
    "Stale window: from the controller’s answer until the log proves the write applied on every "
    "unfenced broker, by heartbeats or by the finest evidence there is. Brokers have it before "
    "they say so, so it is an upper bound. Read-after-write: from the request until the broker "
    "that forwarded it is told (else, until every broker is).",
)
_METHOD = (
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
_WORDS = (
    ("Heartbeat", "What each broker sends to the active controller every 2 s, unless configured."),
    ("Fenced", "Taken out by the controller: not heard of for too long, or not caught up yet."),
    ("Stale window", "How long after the answer some broker may still show the old state."),
    ("Read-after-write", "When a client can rely on reading what it wrote, from any broker."),
)
_SOURCES = (
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

"""lowest_acked_offset in words: when a metadata write is everywhere, and who knows it."""

from collections.abc import Sequence
from itertools import product

from markupsafe import Markup

from kip_replay.pipelines.report import words
from kip_replay.pipelines.report.accuracy import Check
from kip_replay.pipelines.report.values import known
from kip_replay.pipelines.report.view import Prose
from kip_replay.pipelines.report.words import bold
from kip_replay.pipelines.rules.lowest_acked_offset.figures import READ_AFTER_WRITE, Figures
from kip_replay.pipelines.rules.steps import Words
from kip_replay.replay.lowest_acked_offset import ESTIMATED, FINEST_EVIDENCE, LOWEST_ACKED

#: What clients saw, beside the estimate (metric of prediction_accuracy).
SEEN = "create_topics_stale_window_p50"
#: What reads after writes should stay below, 9 in 10 times, to look for the interval it takes.
_GOALS_MS = (500, 100)


def as_clients_saw(checks: Sequence[Check]) -> str:
    """When clients that watched saw new topics, a sentence for each recording that has it."""
    found = [c for c in checks if c.metric == SEEN and c.is_self_check]
    return "".join(
        f" Clients that watched saw a new topic on every broker {words.milliseconds(c.recorded)} "
        f"after the response in {c.recorded_in} (median), where the estimate is "
        f"{words.milliseconds(c.predicted)}."
        for c in found
        if c.recorded is not None and c.predicted is not None
    )


def summary(one: Figures) -> Markup:
    """The stale window and read-after-write of one recording."""
    if one.medians is None:
        spreads = known([one.window, one.read_after_write])
        return Markup(
            "The medians are not known: of {} of {} metadata writes it is unknown when every "
            "broker had them, or when that was known."
        ).format(words.number(max(s.unknown for s in spreads)), words.number(one.writes))
    stale, known_after = (bold(words.milliseconds(median)) for median in one.medians)
    proof = one.stale.p50 if one.is_estimated and one.stale else None
    return Markup(
        "After the response to a metadata write, some broker {} the old state for {} (median){}. "
        "With the draft, the broker that forwarded it would have known that it was over {} after "
        "the request."
    ).format(
        "showed" if one.is_estimated else "may have shown",
        stale if one.is_estimated else Markup("up to {}").format(stale),
        "" if proof is None else f"; heartbeats prove it after {words.milliseconds(proof)}",
        known_after,
    )


def interval_sentence(one: Figures) -> str | None:
    """Which heartbeat interval would bring reads after writes below the goals."""
    if not one.swept:
        return None
    variants = words.in_order(one.variants(swept=True))
    tried = product(one.swept, variants)
    spreads = {(at, v): one.spread(READ_AFTER_WRITE, v, at=at) for at, v in tried}
    found = []
    for goal in _GOALS_MS:
        limit = f"{words.number(goal)}{words.SPACE}ms"
        enough = [
            key for key, of in spreads.items() if of and of.p90 is not None and of.p90 <= goal
        ]
        if not enough:
            found.append(f"below {limit} with none of the intervals tried")
            continue
        longest = max(interval for interval, _ in enough)
        how = [words.variant_name(variant) for interval, variant in enough if interval == longest]
        every = f"{words.number(longest)}{words.SPACE}ms ({words.joined(how)})"
        found.append(f"below {limit} with a heartbeat every {every}")
    return f"9 in 10 reads after writes: {'; '.join(found)}."


PROSE = Prose(
    rule=Figures.NAME,
    short="Changes everywhere",
    question="When does every broker show a metadata change?",
    proposal="The draft of LowestAcknowledgedOffset in heartbeats, in no Kafka release",
    about="The controller responds to a change once it is committed. Any broker may then still "
    "respond from what it knew before: the stale window. Heartbeats carry how far their broker has "
    "applied the metadata log. The draft has the controller return the lowest offset that every "
    "unfenced broker has applied, so that a broker knows when a change can be read everywhere: "
    "read-after-write.",
    note="Stale window: from the controller’s response until every unfenced broker has applied the "
    "write. A broker learns of it in a FETCH response, has handled that before it sends its next "
    "FETCH, and has applied it when it has created its replicas: the estimate. Heartbeats prove it "
    "later: the bound. Read-after-write: from the request until the broker that forwarded it "
    "receives such an offset (else, until every broker does); as estimated, until every broker has "
    "applied it.",
    outcomes={"writes": "metadata writes"},
    outcomes_in="metadata_write_outcomes",
    silent=words.lines("""
hold no metadata write. Those are in the request logs of the controllers.
hold metadata writes, but none in the steady phase of which it is known when every broker had it.
"""),
    method=words.lines("""
A metadata write’s offset is not logged. It lies between the controllers’ high watermarks before and
  after, recomputed from the voters’ FETCHes; claims take the upper end.
Brokers that are fenced or shutting down do not count. The offset that is carried never falls,
  though what a controller computes can.
When a broker has applied a write is estimated from its FETCHes of the metadata log; how long it
  takes to create a replica is a setting (replica_apply_ms).
Other intervals are simulated: each broker keeps the phase of its heartbeats, and applies changes
  when the log shows, or, with and without KIP-1166, when that replay says it learns of them.
After an upgrade of the metadata version the brokers’ renegotiation of ApiVersions waits for the
  same moment.
"""),
    words=words.rows("""
Heartbeat | What each broker sends to the active controller every 2 s, unless configured.
Fenced | Taken out by the controller: not heard of for too long, or not caught up yet.
Stale window | How long after the response some broker still shows the old state.
Read-after-write | When a client can rely on reading what it wrote, from any broker.
"""),
    sources=words.rows("""
stale window, read-after-write | latency_summary | metrics `stale_window, read_after_write`, of all
  and by `api_name`
other intervals | the same | rows with `parameter` broker_heartbeat_interval_ms
writes not judged | metadata_write_outcomes | `verdict, reason`
each broker’s progress | applied_offsets | `learned_at, shown_at, applied_at`
bytes of heartbeats | heartbeat_outcomes | `response_bytes, replayed_response_bytes`
"""),
)

WORDS = Words(
    variants={
        ESTIMATED: ("estimated", "without"),
        LOWEST_ACKED: ("carried in heartbeats", "with"),
        FINEST_EVIDENCE: ("finest evidence", "other"),
    },
    metrics={
        "applied_error_p50": "offsets, estimate off what brokers noted, median",
        "applied_error_p90": "offsets, estimate off what brokers noted, 90th percentile",
        "applied_error_of_writes_p50": "writes, estimate off what brokers noted, median",
        "applied_error_of_writes_p90": "writes, estimate off what brokers noted, 90th percentile",
        "clients_saw_it_later_p50": "new topics, client saw it after the estimate, median",
        "clients_saw_it_later_p90": "new topics, client saw it after the estimate, 90 %",
        "claims_not_before_brokers_applied": "claims no earlier than the broker noted",
        "claims_no_broker_denied": "claims that no METADATA response denies",
        "claims_not_before_clients_saw_it": "claims no earlier than a client saw it",
        "simulated_read_after_write_p50": "read-after-write, simulated heartbeats, median",
        "simulated_read_after_write_p90": "read-after-write, simulated heartbeats, 90th percentile",
        "create_topics_stale_window_p50": "stale window of new topics, as clients saw it, median",
        "create_topics_stale_window_p90": "stale window of new topics, as clients saw it, 90 %",
    },
    # one replay beside another, and what too few samples judge
    beside=tuple(
        f"{metric}_{p}"
        for metric in (
            "simulated_read_after_write",
            "applied_error",
            "applied_error_of_writes",
            "clients_saw_it_later",
            "create_topics_stale_window",
        )
        for p in ("p50", "p90")
    ),
    accuracy="When metadata writes were applied: estimates and proofs, held against what brokers "
    "noted and clients saw where a recording has it; simulated heartbeats stand beside recorded "
    "ones.",
)

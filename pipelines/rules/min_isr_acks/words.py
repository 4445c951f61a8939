"""min_isr_acks in words: how much sooner producers get their responses, and what that exposes."""

from markupsafe import Markup

from kip_replay.pipelines.report import sections, words
from kip_replay.pipelines.report.view import Prose
from kip_replay.pipelines.report.words import bold
from kip_replay.pipelines.rules.min_isr_acks.figures import Figures
from kip_replay.pipelines.rules.steps import Words
from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS


def summary(one: Figures) -> Markup:
    """Waits and exposure of one recording."""
    assert one.waits is not None
    if one.medians is None:
        unknown = words.number(max(wait.unknown for wait in one.waits))
        values = words.number(max(wait.values for wait in one.waits))
        return Markup(
            "The median wait is not known: of {} of {} responses it is unknown when they "
            "would come."
        ).format(unknown, values)
    before, after = one.medians
    text = (
        "Waiting for min.insync.replicas only changes little here: producers would get their "
        "responses in {}, with acks=all in {} (median)."
        if after >= sections.NO_DIFFERENCE * before
        else "With acks=min.insync.replicas, producers would get their responses in {} instead of "
        "{} (median)."
    )
    waits = Markup(text).format(bold(words.milliseconds(after)), bold(words.milliseconds(before)))
    exposure = one.exposure()
    if exposure is None or exposure.p50 is None:
        return waits
    return Markup(
        "{} For {} (median; 9 in 10: at most {}) after that not every in-sync replica has the "
        "records."
    ).format(waits, bold(words.milliseconds(exposure.p50)), words.milliseconds(exposure.p90))


def arrivals(one: Figures) -> str | None:
    """How many PRODUCEs came on their own, and what hangs on when the others were sent."""
    row = next(iter(one.found("arrivals")), None)
    if row is None:
        return None
    between = one.sent_at_other_times
    hangs = f": median {words.between(between)}" if between else ""
    ended = f" The log ended before {words.number(row['after_the_log'])} of the responses."
    return (
        f"{words.number(row['own'])} of {words.count(row['n'], 'PRODUCE')} came on their own; the "
        f"others may have been sent earlier or later than estimated{hangs}."
        f"{ended if row['after_the_log'] else ''}"
    )


PROSE = Prose(
    rule=Figures.NAME,
    short="Producers’ waits",
    question="How much sooner could producers get their responses?",
    proposal="KIP-926, a draft that is in no Kafka release",
    about="With acks=all a producer gets its response once every in-sync replica has its records, "
    "so the slowest follower sets the pace. With acks=min.insync.replicas it would get it as "
    "soon as that many replicas have them, the leader included: as safe as the topic’s "
    "configuration requires. Until the other in-sync replicas have the records too, they are "
    "exposed: fewer failures can lose them than with acks=all. Consumers see them no sooner than "
    "today.",
    note="PRODUCEs with acks=all, in the whole recording, from their arrival until the response, "
    "in a cluster whose producers react: they send when they have something, not when a response "
    "lets them. Exposure: from the early response until the whole ISR has the records.",
    outcomes={"partitions": "partitions of PRODUCEs"},
    outcomes_in="produce_ack_outcomes",
    silent=words.lines("""
hold no PRODUCE. PRODUCEs are in the request logs of the brokers.
hold no PRODUCE with acks=all of which it is known how long it waited, or would wait.
"""),
    method=words.lines("""
A follower’s FETCH at an offset says that it has all before it. From those FETCHes in the leader’s
  log, and from the in-sync replicas and min.insync.replicas over time, the replay tells when each
  replica had each batch.
acks=all is replayed too and must come out as recorded; when its response came, and with which
  error, is never read by the replay.
A broker reads one request at a time of a connection: behind a late response the next one waits in
  the socket, and what one high watermark lets go arrives at once. So each PRODUCE is replayed
  twice: as it arrived, and in a cluster whose producers react. What came more than 20 ms after the
  response before it was sent then; for the rest the log has an interval, of which an estimate is
  taken, and both ends. Handlers and followers take as long as recorded outside such bursts.
Rates are those recorded: how records are put into batches would change too, and is not in the log.
  The prediction ends where the recorded requests do.
The KIP leaves open whether replicas outside the ISR count; here only its members do. Today’s
  brokers refuse acks=min.insync.replicas with INVALID_REQUIRED_ACKS (21).
"""),
    words=words.rows("""
ISR | In-sync replicas: those that the leader waits for with acks=all.
min.insync.replicas | How many in-sync replicas a topic requires at the least.
Exposure | How long after the response records are not yet on every in-sync replica.
"""),
    sources=words.rows("""
waits of producers that react | latency_summary | metrics `closed_loop_latency,
  closed_loop_latency_sent_earliest, closed_loop_latency_sent_latest`, of all, by `node_id` and by
  `arrival`
waits as each arrived, exposure | latency_summary | metrics `produce_latency,
  produce_request_latency, exposure`, of all and by `node_id`
another min.insync.replicas | the same | rows with `parameter` min_insync_replicas
errors, not judged | produce_ack_outcomes | `recorded_error, acks_all_error, min_isr_error, verdict,
  reason` where `acks` is −1
"""),
)

WORDS = Words(
    variants={
        ACKS_ALL: ("acks=all", "without"),
        ACKS_MIN_INSYNC_REPLICAS: ("acks=min.insync.replicas", "with"),
    },
    metrics={
        "produce_latency_p50": "time to the response, median",
        "produce_latency_p90": "time to the response, 90th percentile",
        "closed_loop_latency_p50": "time to the response if producers react, median",
        "closed_loop_latency_p90": "time to the response if producers react, 90th percentile",
        "answers_within_2_ms_of_bounds": "responses within 2 ms of the bounds",
        "answers_with_the_recorded_error": "responses with the recorded error code",
        "produces_per_second": "PRODUCEs a second",
    },
    # a producer that gets its response sooner sends sooner
    beside=("produces_per_second",),
    accuracy="How long PRODUCEs with acks=all waited, over the whole recording. Across "
    "recordings: in a cluster whose producers react, under the protocol that the other's brokers "
    "ran (a cluster whose ISR is no larger than min.insync.replicas shows what "
    "acks=min.insync.replicas takes). "
    "The baseline is that nothing changes.",
)

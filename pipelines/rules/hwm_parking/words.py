"""hwm_parking in words: what a commit that replicas know at once changes, and how that is known."""

from markupsafe import Markup

from kip_replay.pipelines.report import words
from kip_replay.pipelines.report.view import Prose
from kip_replay.pipelines.report.words import bold
from kip_replay.pipelines.rules.hwm_parking.figures import Figures, Protocol
from kip_replay.pipelines.rules.steps import Words
from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP


def lag_sentence(one: Figures) -> Markup:
    """What the KIP does to the lag in one recording that has one."""
    assert one.lags is not None
    if one.medians is None:
        lacking = ", ".join(
            f"{words.number(lag.unknown)} of {words.number(lag.values)} {name} KIP-1166"
            for lag, name in zip(one.lags, ("without", "with"), strict=True)
            if lag.p50 is None
        )
        return Markup(
            "The median lag is not known: of too many changes it is unknown when they were "
            "learned ({})."
        ).format(lacking)
    slow, fast = (bold(words.milliseconds(median)) for median in one.medians)
    if not one.makes_a_difference:
        text = (
            "KIP-1166 changes little here: {} learn a committed metadata change in {} with it and "
            "in {} without it (median)."
        )
    else:
        how, end = {
            Protocol.WITHOUT: ("With KIP-1166, {} would", ""),
            Protocol.WITH: ("Thanks to KIP-1166, which this cluster runs, {}", ""),
        }.get(one.protocol, ("If every node ran KIP-1166, {} would", " with none running it"))
        text = f"{how} learn a committed metadata change in {{}} instead of {{}}{end} (median)."
    return Markup(text).format(words.kind_name(one.lag_kind), fast, slow)


def cost_sentence(one: Figures) -> Markup:
    """What the KIP costs in this recording; empty where no rate is known."""
    if one.fetches_per_second is None:
        return Markup("")
    without, with_kip = one.fetches_per_second
    costs = "It costs" if one.protocol is Protocol.WITH else "It would cost"
    change = f"{words.number(abs(with_kip - without), 1)} {_more(one.fetches_per_second, 'fewer')}"
    rates = words.number(with_kip, 1), words.number(without, 1)
    text = Markup(" {} {} ({} instead of {})").format(
        costs, bold(f"{change} FETCHes a second"), *rates
    )
    if one.bytes_per_second is None:
        return text + "."
    without, with_kip = one.bytes_per_second
    change = f"{words.size(abs(with_kip - without))} a second {_more(one.bytes_per_second, 'less')}"
    sizes = words.size(with_kip), words.size(without)
    return Markup("{} and {} ({} instead of {}).").format(text, bold(change), *sizes)


def _more(pair: tuple[float, float], less: str) -> str:
    return "more" if pair[1] >= pair[0] else less


def sources(one: Figures) -> str:
    """Where the figures of one recording come from, and how many are unknown."""
    text = {
        Protocol.WITHOUT: "Without: recorded in this cluster. With: replayed from its logs.",
        Protocol.WITH: "With: recorded in this cluster. Without: replayed from its logs.",
    }.get(one.protocol, "Both are replayed from the logs of this cluster.")
    if one.lags is None or not any(lag.unknown for lag in one.lags):
        return text
    without, with_kip = (words.number(lag.unknown) for lag in one.lags)
    return (
        f"{text} Of {without} changes without and {with_kip} with KIP-1166 it is unknown when they "
        "were learned; they count as the slowest."
    )


def protocol_sentence(one: Figures) -> str:
    """Which protocol the recorded cluster ran, and how that is known."""
    share = words.number(one.protocol_share * 100)
    return {
        Protocol.WITHOUT: "runs without KIP-1166",
        Protocol.WITH: "runs KIP-1166",
        Protocol.MIXED: f"runs KIP-1166 in part: {share} % of its FETCHes carry a high watermark",
        Protocol.UNKNOWN: "not known whether it runs KIP-1166",
    }[one.protocol]


def unexplained_sentence(one: Figures) -> str:
    """How many recorded responses nothing explains."""
    unexplained, judged = one.judged
    if not judged:
        return "No FETCH of the metadata log got its response from a leader."
    return (
        f"{words.number(unexplained)} of {words.number(judged)} recorded responses "
        f"({words.number(100 * unexplained / judged, 2)} %) are explained by no rule."
    )


PROSE = Prose(
    rule=Figures.NAME,
    short="Learning of changes",
    question="How soon do brokers learn of a metadata change?",
    proposal="KIP-1166, released in Kafka 4.1",
    about="A metadata change (a new topic, a changed config) counts once it is committed. Without "
    "KIP-1166 a replica that already has the records learns of the commit only with its next "
    "response: at the next change, or when its FETCH times out after its max wait. With it, the "
    "response comes at once: a change can then take two responses instead of one, the first with "
    "the records, the second with the commit. That is up to one more FETCH for each change and "
    "replica.",
    note="Without and with KIP-1166, in the steady phase; what the cluster ran is recorded, the "
    "other is replayed. Bytes are those on the wire, requests and responses together.",
    outcomes={
        "responses": "responses to a FETCH",
        "advances starting": "changes, per replica, starting phase",
        "advances steady": "changes, per replica, steady phase",
        "advances stopping": "changes, per replica, stopping phase",
    },
    outcomes_in="fetch_parking_outcomes and high_watermark_lag",
    silent=words.lines("""
hold no FETCH of the metadata log. Such FETCHes are in the request logs of the controllers.
do not show when a replica learned of a change in the steady phase.
"""),
    method=words.lines("""
The lag is the time from the moment the active controller commits a change until its response
  carries that to a replica; the way through the network comes on top, for both protocols alike.
When the leader appended or stalled, how long it takes to respond, and how long each replica takes
  from a response to its next FETCH, is taken from the log: the replica’s own nearest in time.
  Nothing is drawn at random.
All else follows from the rule: who is parked, who gets a response when and why, when the high
  watermark moves, which FETCHes exist at all. Both protocols are simulated from the same log.
Why a response came, how long the rule made it wait and which high watermark it had is never read by
  the simulation; that is only what it is held against.
It assumes that a replica’s gap does not depend on the protocol, and that the leader handles one
  FETCH at a time, as fast as the log shows.
A replica that was silent for over a second is away: it does not count for the changes it slept
  through.
A leader that stalls between preparing records and appending them completes all who are parked
  early, with nothing (completion drain): in no KIP and in every release, so in both protocols.
A response that is more than 100 ms late counts as unexplained.
"""),
    words=words.rows("""
FETCH of the metadata log | The request with which a replica asks the active controller for the
  metadata log’s next records.
High watermark | The offset up to which a log is committed: most voters have it.
Parked | Held back by the leader since there is nothing to return yet.
Controllers, brokers | Controllers vote on what is committed; brokers only follow. Both FETCH alike.
  The tables call them voters and brokers.
"""),
    sources=words.rows("""
lags | latency_summary | `p50_ms … max_ms, count, unknown_count` of metric `high_watermark_lag`, by
  `replica_kind`
lines of its distribution | high_watermark_lag | `lag_ms` where `phase` is steady, at most 200
  points a line
FETCHes and bytes a second | bandwidth_summary | `requests` (direction request) and `bytes` (both) /
  `span_s`, summed over `node_id`
other waits | the same | rows with `parameter` max_wait_ms
unexplained, not judged | fetch_parking_outcomes | `completion, verdict, reason`
"""),
)

WORDS = Words(
    variants={WITHOUT_KIP: ("without KIP-1166", "without"), WITH_KIP: ("with KIP-1166", "with")},
    metrics={
        "high_watermark_lag_p50": "lag, median",
        "high_watermark_lag_p90": "lag, 90th percentile",
        "high_watermark_lag_p99": "lag, 99th percentile",
        "fetches_per_second": "FETCHes a second",
        "fetch_bytes_per_second": "bytes a second",
        "fetches": "FETCHes",
        "answers_explained": "responses that the rule explains",
    },
    accuracy="FETCHes of the metadata log and how late brokers learn of a high watermark, in the "
    "steady phase. The baseline is a constant: one FETCH per append and replica (two with "
    "KIP-1166), and a lag as of a wait of 0 to 500 ms (none with it).",
)

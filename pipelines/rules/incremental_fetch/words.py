"""incremental_fetch in words: what fetch sessions save, and how that is known."""

from markupsafe import Markup

from kip_replay.pipelines.report import words
from kip_replay.pipelines.report.view import Prose
from kip_replay.pipelines.report.words import bold
from kip_replay.pipelines.rules.incremental_fetch.figures import (
    CONSUMER,
    FOLLOWER,
    WITHOUT_SESSIONS,
    Figures,
)
from kip_replay.pipelines.rules.steps import Words
from kip_replay.replay.incremental_fetch import FULL, INCREMENTAL, INCREMENTAL_DRAFT

_ONE = {FOLLOWER: "a follower’s", CONSUMER: "a consumer’s", WITHOUT_SESSIONS: "a consumer’s"}


def summary(one: Figures) -> Markup:
    """What FETCHes list and take with sessions, and without."""
    before, after = one.overheads or (0.0, 0.0)
    sizes = Markup("{} a second besides records instead of {}").format(
        *(bold(words.size(of)) for of in (after, before))
    )
    if one.partitions is None:
        return Markup("With fetch sessions, FETCHes and their responses take {}.").format(sizes)
    many, few = (bold(words.number(mean, 1)) for mean in one.partitions)
    return Markup(
        "With fetch sessions {} FETCH lists {} partitions instead of {}, and FETCHes and their "
        "responses take {}."
    ).format(_ONE.get(one.lead_kind or "", "a client’s"), few, many, sizes)


def as_recorded(one: Figures) -> str | None:
    """How many FETCHes come out as recorded; None where none could be compared."""
    equal, compared = one.compared
    if not compared:
        return None
    return (
        f"{words.number(equal)} of {words.number(compared)} recorded incremental FETCHes come out "
        "of the replay the same: partitions, their order, and every byte."
    )


PROSE = Prose(
    rule=Figures.NAME,
    short="Fetch sessions",
    question="What do fetch sessions save?",
    proposal="KIP-227, in Kafka since 1.1, and its draft beside it",
    about="Followers and consumers fetch from a broker again and again, each time naming all of "
    "their partitions, most of which have nothing new. With a fetch session the broker remembers "
    "the list: a FETCH names only the partitions of which something changed, and so does its "
    "response. Sessions take slots of a cache on the broker; who gets none sends everything each "
    "time. The KIP’s draft would have given sessions to followers only.",
    note="Means of the steady phase; bytes are those on the wire, both ways, less the records, "
    "which are the same in every variant. Unknown: FETCHes of the whole recording that could not "
    "be replayed, most often since their session began before the log.",
    outcomes={"fetches": "FETCHes"},
    outcomes_in="fetch_session_outcomes",
    silent=words.lines("""
hold no FETCH of topic partitions. Such FETCHes are in the request logs of the brokers.
hold no FETCH of topic partitions in the steady phase that could be replayed.
"""),
    method=words.lines("""
Each session is rebuilt from the log: which partitions it holds, what was last sent of each, what
  changed. What a full FETCH, a session’s FETCH and the draft’s would carry follows from that, and
  so does its exact size on the wire.
Open loop: every variant responds to the FETCHes that were logged, when they were logged. A smaller
  FETCH gets its response a little sooner, and the next one comes sooner; that is not replayed.
Clients that never requested a session (librdkafka’s, for instance) stay without one. The draft does
  not say how partitions come and go: there a full FETCH follows, with the 8 bytes more that its
  response would have.
"""),
    words=words.rows("""
FETCH | The request with which followers and consumers read from a broker.
Fetch session | A list of partitions that client and broker both remember.
Slot | Room for one session in a broker’s cache; followers go before consumers.
"""),
    sources=words.rows("""
partitions and bytes | bandwidth_summary | `partitions, bytes, record_bytes` by `client_kind` and
  `direction`, summed over `node_id`
other slots | the same | rows with `parameter` session_slots
sessions refused, evicted | fetch_session_evictions | `event`, counted by `parameter_value`
come out the same, not judged | fetch_session_outcomes | `equals_recorded, verdict, reason`
"""),
)

WORDS = Words(
    variants={
        FULL: ("full fetches", "without"),
        INCREMENTAL: ("fetch sessions", "with"),
        INCREMENTAL_DRAFT: ("KIP-227’s draft", "other"),
    },
    metrics={
        "request_partitions_mean": "partitions in a FETCH, mean",
        "request_partitions_p50": "partitions in a FETCH, median",
        "request_partitions_p90": "partitions in a FETCH, 90th percentile",
        "response_partitions_mean": "partitions in a response, mean",
        "response_partitions_p50": "partitions in a response, median",
        "response_partitions_p90": "partitions in a response, 90th percentile",
        "fetch_bytes": "bytes of a FETCH and its response, mean",
        "fetches_as_recorded": "FETCHes that come out as recorded, to the byte",
    },
    accuracy="Partitions listed per FETCH and bytes, by kind of client, in the steady phase; "
    "`fetches_as_recorded` is the share of recorded incremental FETCHes whose partition lists, "
    "their order and the bytes come out the same, both ways. The baseline is that nothing changes.",
)

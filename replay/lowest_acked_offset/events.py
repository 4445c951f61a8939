"""The input of ``lowest_acked_offset``, a row for each line, and which lines count.

Each row is at the moment at which the log has it (``at_us``: the response was built); its other
times are when things happened before that. Times are microseconds since the epoch. Here are also
the times by which rows are read, and why outcomes may be unknown.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import chain, pairwise
from operator import attrgetter
from typing import NamedTuple

from ..log_gaps import LOG_GAP
from ..model.raft import NO_RESPONSE, NOT_SENT
from ..records import event_schema

NAME = "lowest_acked_offset"
LOWEST_ACKED = "lowest_acked_offset"
#: What brokers had applied by ``applying``; its rows of metadata_write_visibility are named so too.
ESTIMATED = "estimated"
HEARTBEAT_INTERVAL = "broker_heartbeat_interval_ms"

#: BROKER_HEARTBEAT with a controller's response.
HEARTBEAT = "heartbeat"
#: Request that writes to the metadata log: on the controller, and the broker's own line of it.
WRITE = "write"
#: Raft FETCH of the metadata log.
FETCH = "fetch"
#: API_VERSIONS with a broker's response: ``offset`` is finalizedFeaturesEpoch.
API_VERSIONS = "api_versions"
#: METADATA of a broker: a topic that was written lately, and its partitions (0: it has none).
METADATA = "metadata"
#: What held when the log began: a broker (``is_fenced``: maybe fenced), or a topic's replicas.
HELD = "held"
#: A replica learned a high watermark (table high_watermark_lag), under ``variant``.
LEARNED = "learned"

# --- How far apart lines may be ------------------------------------------------------------------
# "Recorded", here and in other modules of the rule, are seven clusters of Kafka 4.0 to 4.2, 768
# heartbeats and 301 writes, some with paused brokers and some on busy machines.

#: A write is followed for this long after its response: default.api.timeout.ms, after which a
#: client that retries what it cannot read yet gives up.
HORIZON_US = 60_000_000
#: A broker's next heartbeat comes within this time. Its interval is below
#: broker.session.timeout.ms (9 s); the longest pause recorded was 14.9 s.
HEARTBEAT_WAIT_US = 15_000_000
#: A voter that is silent for this long is away: twice KafkaRaftClient.MAX_FETCH_WAIT_MS (500 ms),
#: for which an idle one's FETCH is parked. Of recorded FETCHes 99 % came within 0.56 s.
VOTER_SILENCE_US = 1_000_000
#: A broker that has not applied what it knew for longer than this is slow, not just on its way:
#: above 99 % of the estimates of ``applying``, whose brokers create up to five replicas a write.
SLOW_US = 100_000


class Undecided(StrEnum):
    """Why an outcome is unknown, or the question does not apply."""

    LOG_GAP = LOG_GAP

    # Of a heartbeat.
    NOT_ACTIVE = "sent to a controller that was not active, or refused"
    NOT_HEARD_YET = "the log begins: a broker that has not been heard yet may be unfenced"
    SILENT = "it depends on a silent broker, which the controller may have fenced or not"
    NOBODY_COUNTS = "no broker is unfenced"

    # Of a write's offsets.
    NO_HIGH_WATERMARK = "the log does not tell the high watermark yet (not every voter has fetched)"
    SINGLE_VOTER = "a single voter commits alone: no FETCH tells its high watermark"
    RESPONSE_MISSING = "response missing from the log"
    NOTHING_WRITTEN = "it wrote nothing: what it requested was so already"

    # Of what became of a write.
    LOG_ENDS = "the log ends before it"
    HORIZON = "not within 60 s of the response"
    NO_ARRIVAL = "the log does not have it at the broker that forwarded it, where it arrived"
    LEFT = "the broker that forwarded it stopped or was fenced before it learned"
    NOT_LEARNED = "no learned high watermarks of this variant: replay hwm_parking first"
    NOT_CARRIED = "the log has no FETCH response that carried its commit to the broker"
    NO_NEXT_FETCH = "the log ends before the broker's next FETCH"
    STARTING = "no heartbeat shows yet that the broker was unfenced"
    SLOW = "a heartbeat shows that the broker was slow, and none when it had applied it"
    UNKNOWN_WORK = "the log does not have the creation of a topic that is deleted there"


class ClusterEvent(NamedTuple):
    """A row of the input. What a kind does not have is at its default; no other nulls.

    ``broker_id`` is the node that the row is about: the sender of a heartbeat or FETCH, the server
    of API_VERSIONS, who learned. ``offset`` is inclusive for heartbeats and API_VERSIONS (the last
    offset applied), and the fetch offset (exclusive end of the log) for FETCHes.
    ``written``, ``partitions`` and ``configs`` count what a write requested without an error;
    ``topics`` are the names of topics among that, ``replicas`` those that it creates, and ``sizes``
    their partitions from then on, 0 where the log does not have them.
    """

    at_us: int
    kind: str
    request_id: str
    node_id: int
    received_us: int = -1
    dequeued_us: int = -1
    handled_us: int = -1
    error_code: int = NO_RESPONSE
    connection: str | None = None
    broker_id: int = -1
    broker_epoch: int = -1
    offset: int = -1
    want_fence: bool = False
    want_shut_down: bool = False
    is_fenced: bool = False
    response_bytes: int | None = None
    leader_epoch: int = -1
    last_fetched_epoch: int = -1
    high_watermark: int = NOT_SENT
    response_high_watermark: int = -1
    is_diverging: bool = False
    api_name: str = ""
    client_id: str | None = None
    correlation_id: int = -1
    is_forwarded: bool = False
    validate_only: bool = False
    written: int = 0
    partitions: int = 0
    topics: Sequence[str] = ()
    replicas: Sequence[int] = ()
    sizes: Sequence[int] = ()
    configs: int = 0
    variant: str = ""


#: Input of the replay.
INPUT_SCHEMA = event_schema(ClusterEvent)
#: In this order.
ORDER = ("at_us", "kind", "request_id")

LineKey = tuple[str, int, int]
Offsets = tuple[int, int, int]
#: Lines of one sender: their epochs stay or change for good, their offsets never fall.
line_key = attrgetter("kind", "node_id", "broker_id")
_epochs = attrgetter("broker_epoch", "leader_epoch", "last_fetched_epoch")
_offsets = attrgetter("offset", "high_watermark", "response_high_watermark")


def wrong_lines(
    last: Mapping[LineKey, ClusterEvent],
    lines: Iterable[ClusterEvent],
    later: Iterable[ClusterEvent],
) -> set[str]:
    """Returns request ids of lines that those before and after of the same sender contradict.

    ``last``: the last line of each sender before these; ``later``: the lines behind these.
    """
    by_sender: dict[LineKey, list[ClusterEvent]] = {}
    for row in filter(_is_judged, chain(lines, later)):
        by_sender.setdefault(line_key(row), []).append(row)
    wrong: set[str] = set()
    for sender, rows in by_sender.items():
        before = last.get(sender)
        if before is None or not _is_judged(before):
            # What a sender has first cannot be too low.
            before = rows[0]._replace(offset=-1, high_watermark=-1, response_high_watermark=-1)
        for row, after in pairwise(rows):
            if _is_contradicted(before, row, after):
                wrong.add(row.request_id)
            before = row
    return wrong


def _is_contradicted(before: ClusterEvent, row: ClusterEvent, after: ClusterEvent) -> bool:
    """Says whether the lines before and after agree, and this one with neither."""
    if _epochs(before) != _epochs(after):
        return False
    # Another process begins with what it has on disk.
    is_restarted = row.correlation_id < before.correlation_id
    low = (-1, -1, -1) if is_restarted else _offsets(before)
    return bool(_epochs(row) != _epochs(before) or _falls(low, _offsets(row), _offsets(after)))


def _is_judged(row: ClusterEvent) -> bool:
    return row.error_code == 0 and row.kind in (HEARTBEAT, FETCH, API_VERSIONS)


def _falls(before: Offsets, own: Offsets, after: Offsets) -> bool:
    """Says whether one of a line's offsets lies outside of those before and after."""
    offsets = zip(before, own, after, strict=True)
    return any(low <= high and not low <= at <= high for low, at, high in offsets)

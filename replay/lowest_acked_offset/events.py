"""The input of ``lowest_acked_offset``, a row for each line, and the times by which it is read.

Each row is at the moment at which the log has it (``at_us``: the response was built); its other
times are when things happened before that. Times are microseconds since the epoch.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ..model.raft import NO_RESPONSE, NOT_SENT
from ..records import event_schema

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
# "Recorded" are seven clusters of Kafka 4.0 to 4.2, 768 heartbeats and 301 writes, some with paused
# brokers and some on busy machines.

#: Lines are put into the order in which they happened this far behind the log, as a line is where
#: its response was built. request.timeout.ms is 30 s: a controller gives up what waits for longer.
LOOKAHEAD_US = 30_000_000
#: METADATA is looked at this far behind the log, so that every write that it may show has its
#: response: all recorded ones had it within 0.7 s.
METADATA_WAIT_US = 5_000_000
#: A write is followed for this long after its response: default.api.timeout.ms, after which a
#: client that retries what it cannot read yet gives up.
HORIZON_US = 60_000_000
#: A broker's next heartbeat comes within this time. Its interval is below
#: broker.session.timeout.ms (9 s); the longest pause recorded was 14.9 s.
HEARTBEAT_WAIT_US = 15_000_000
#: A voter that is silent for this long is away: twice KafkaRaftClient.MAX_FETCH_WAIT_MS (500 ms),
#: for which an idle one's FETCH is parked. Of recorded FETCHes 99 % came within 0.56 s.
VOTER_SILENCE_US = 1_000_000
#: A steady heartbeat that is later than the interval by more than this has been away. 741 of the
#: 744 steady ones recorded were at most 0.33 s late, the others came from paused brokers.
AWAY_SLACK_US = 1_000_000
#: A broker that has not applied what it knew for longer than this is slow, not just on its way:
#: above 99 % of the estimates of ``applying``, whose brokers create up to five replicas a write.
SLOW_US = 100_000
#: broker.heartbeat.interval.ms, Kafka's default; for a log that has no steady heartbeat.
DEFAULT_INTERVAL_US = 2_000_000
#: A simulated heartbeat is timed by recorded ones up to two intervals away.
SIMULATED_ON_US = 2 * DEFAULT_INTERVAL_US
#: Clocks of brokers and controllers may differ, and derived arrivals are off, by up to this. It is
#: an assumption: NTP keeps hosts within tens of milliseconds.
JOIN_SLACK_US = 100_000

# --- What brokers take ---------------------------------------------------------------------------

#: lowest_acked_offset.replica_apply_ms unless configured: what it takes to create or delete one
#: replica, measured on brokers of Kafka 4.0 that share a disk.
REPLICA_APPLY_MS = 20
#: The delay from learning to applying is measured by this many heartbeats, the last that came soon
#: after their broker learned: some minutes of three brokers, so that it follows the load.
DELAY_SAMPLES = 128
#: Samples that are there from the start, (age in microseconds, was it applied): brokers apply
#: within 10 ms. Four late heartbeats outvote them, so that one alone is no measure.
ASSUMED_DELAY = ((10_000, True),) * 4
#: How often the replay moves on, in rows of the log: a step looks at every broker, so that smaller
#: ones take longer, and larger ones more memory.
STEP_ROWS = 32_768


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

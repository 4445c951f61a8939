"""What ``lowest_acked_offset`` reads of a log: one row a line, of its kind, and what was learned.

Each row is at the moment at which the log has it (``at_us``: the response was built); its other
times are when things happened before that. Times are microseconds since the epoch.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ..hwm_parking.metadata_log import NO_RESPONSE
from ..model.raft import NOT_SENT as NOT_SENT
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
#: What held when the log began: a broker (``is_fenced``: it may have been), or a topic's replicas.
HELD = "held"
#: A replica learned a high watermark (table high_watermark_lag), under ``variant``.
LEARNED = "learned"

#: error_code where the log has no response.
NO_ANSWER = NO_RESPONSE


class Event(NamedTuple):
    """A row of the input. What a kind does not have is at its default; no other nulls.

    ``broker_id`` is the node that the row is about: the sender of a heartbeat or FETCH, the server
    of API_VERSIONS, who learned. ``offset`` is inclusive for heartbeats and API_VERSIONS (the last
    offset applied), and the fetch offset (exclusive end of the log) for FETCHes.
    ``written``, ``partitions`` and ``configs`` count what a write names and was granted; of topics
    that it creates or deletes these are the names and, if it creates them, ``replicas``; ``sizes``
    are their partitions from then on, 0 where the log does not have them.
    """

    at_us: int
    kind: str
    request_id: str
    node_id: int
    received_us: int = -1
    dequeued_us: int = -1
    handled_us: int = -1
    error_code: int = NO_ANSWER
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
INPUT_SCHEMA = event_schema(Event)
#: In this order.
ORDER = ("at_us", "kind", "request_id")

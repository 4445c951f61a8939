"""FETCHes of topic partitions as logged: what the replay of sessions reads.

A row is a FETCH, or it has ``topic_names`` and nothing else: names of topic ids (from FETCH v13 on,
logs have only ids), for the FETCHes that come after it; or, without ``built_us``, the partitions of
a session that is older than the log, before its first FETCH here.
"""

from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ..log_tables import Fetches
from ..model.fetch_session import FINAL_EPOCH, INITIAL_EPOCH
from ..records import values_of
from ..table import struct
from .lists import Listed, Lists, Partitions, Requested, Returned

#: FETCH versions: sessions came with 7 (KIP-227), flexible encodings with 12, topic ids with 13.
SESSION_VERSION, FLEXIBLE_VERSION, TOPIC_ID_VERSION = 7, 12, 13

FETCH_SESSION_ID_NOT_FOUND = 70
#: It, INVALID_FETCH_SESSION_EPOCH and FETCH_SESSION_TOPIC_ID_ERROR.
SESSION_ERRORS = (70, 71, 106)

#: Host and rack of an element of nodeEndpoints (v16+).
Endpoint = tuple[str | None, str | None]


class RecordedFetch(NamedTuple):
    """A FETCH of topic partitions, but for its lists. Times are microseconds since the epoch.

    ``number`` is its row in the batch. Without a request body, ``request_partitions`` is None, and
    sender and session are not known; without a response, ``error_code`` is None. The session of a
    replica (``is_follower``) is privileged. Full ones list all that their sender fetches
    (``FetchMetadata.isFull``). One that ``closes_session`` requests none.
    """

    request_id: str
    api_version: int
    client_id: str | None
    connection: str | None
    replica_id: int
    replica_epoch: int
    received_us: int
    dequeued_us: int
    built_us: int
    session_id: int
    session_epoch: int
    rack_id: str | None
    cluster_id: str | None
    throttle_ms: float | None
    error_code: int | None
    response_session_id: int | None
    request_bytes: int | None
    response_bytes: int | None
    request_partitions: int | None
    forgotten_partitions: int | None
    response_partitions: int | None
    record_bytes: int
    tagged_partitions: int
    is_follower: bool
    uses_topic_ids: bool
    is_full: bool
    closes_session: bool
    node_endpoints: tuple[Endpoint, ...]
    number: int

    @property
    def is_older_session(self) -> bool:
        """Tells whether it is no FETCH, but what a session had before its first one in the log."""
        return self.built_us is None

    @property
    def is_logged_whole(self) -> bool:
        """Tells whether neither of its bodies is logged as ``""``."""
        return self.request_partitions is not None and self.error_code is not None

    @property
    def is_throttled(self) -> bool:
        """Its sender is over its quota: the response is empty and changes nothing (KIP-219)."""
        return not self.response_partitions and (self.throttle_ms or 0) > 0


#: Types of columns that are not INT64.
_TYPES = {f.name: f.type for f in Fetches.arrow_schema if not pa.types.is_integer(f.type)}
_TYPES["topic_names"] = pa.list_(struct("topic_id string, topic string"))
_FLAGS = ("is_follower", "uses_topic_ids", "is_full", "closes_session")
_DERIVED = ("record_bytes", "tagged_partitions", *_FLAGS, "number")
_COLUMNS = (*(f for f in RecordedFetch._fields if f not in _DERIVED), "topic_names")
#: In place of a request that is not in the log: no replica's, and of no session.
WITHOUT_REQUEST = {"replica_id": -1, "replica_epoch": -1, "session_id": 0, "session_epoch": -1}
#: Input of the replay.
INPUT_SCHEMA = pa.schema([(name, _TYPES.get(name, pa.int64())) for name in _COLUMNS])
_SCALARS = RecordedFetch._fields[: RecordedFetch._fields.index("request_partitions")]


class Batch:
    """A batch of ``INPUT_SCHEMA``, by columns."""

    def __init__(self, batch: pa.RecordBatch, numbering: Partitions) -> None:
        versions = batch.column("api_version").fill_null(0).to_numpy(zero_copy_only=False)
        self.lists = Lists(
            Requested(batch.column("request_partitions"), numbering, versions),
            Listed(batch.column("forgotten_partitions"), numbering),
            Returned(batch.column("response_partitions"), numbering, versions >= FLEXIBLE_VERSION),
        )
        self.topic_names = _rows_with_elements(batch.column("topic_names"))
        scalars = [values_of(filled(batch, name)) for name in _SCALARS]
        lengths = [listed.lengths for listed in self.lists]
        endpoints: list[tuple[Endpoint, ...]] = [()] * batch.num_rows
        for number, elements in _rows_with_elements(batch.column("node_endpoints")).items():
            endpoints[number] = tuple((e["host"], e["rack"]) for e in elements)
        epochs, replicas = (filled(batch, n).to_numpy() for n in ("session_epoch", "replica_id"))
        without_sessions, is_final = versions < SESSION_VERSION, epochs == FINAL_EPOCH
        flags = [
            flag.tolist()
            for flag in (
                replicas >= 0,
                versions >= TOPIC_ID_VERSION,
                without_sessions | is_final | (epochs == INITIAL_EPOCH),
                is_final & ~without_sessions,
            )
        ]
        sums = self.lists.returned.record_bytes, self.lists.requested.tagged
        columns = (*scalars, *lengths, *sums, *flags, endpoints)
        rows = zip(*columns, range(batch.num_rows), strict=True)
        self.fetches = list(map(RecordedFetch._make, rows))


def filled(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Returns a column, with what replaces a request that is not in the log."""
    column = batch.column(name)
    return column.fill_null(WITHOUT_REQUEST[name]) if name in WITHOUT_REQUEST else column


def _rows_with_elements(array: pa.ListArray) -> dict[int, list[dict[str, str]]]:
    """Returns elements by row, of rows whose list is neither null nor empty; they are rare."""
    rows = pc.indices_nonzero(array.value_lengths().fill_null(0))
    return dict(zip(rows.to_pylist(), array.take(rows).to_pylist(), strict=True))

"""The input of min_isr_acks: one leader's PRODUCEs and FETCHes, and what other nodes log.

``EventKind`` decides which columns an event fills; the others are null, and read as the default of
their field. Order is (at_us, kind_order, request_id). ``at_us`` is when the event takes effect on
the leader:

* a PRODUCE when the handler takes it;
* a follower's FETCH half way through its handler, but at most ``PROGRESS_US_MAX`` after it began:
  what makes one take longer than twice that is a pause, before it as likely as after;
* a consumer's FETCH when its handler is done: from then on it is parked, if it is;
* METADATA and configs when their response was built, ALTER_PARTITION also when it arrived.

``LeaderEvents`` reads a batch of them: the events as objects, and the partitions that they list as
columns, because a FETCH may list 100,000 of which the replay looks at two or three columns.
"""

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..records import event_schema, events_of, values_of

#: ``operation`` of a heartbeat after which none follows for longer than ``SESSION_TIMEOUT_US``.
SILENCE = "silence"
#: ``operation`` of a config that was returned, and of one that was set where it is not known when
#: it is in force.
DESCRIBE, PENDING = "describe", "pending"
#: ``replica_id`` of events that are of no broker.
NOBODY = -1


class EventKind(StrEnum):
    """Tells events apart. Events of one time are replayed in this order."""

    #: A topic's name and id: true at all times, so it comes first.
    TOPIC = "topic"
    #: What a gap in a log leaves open from here on (table ``uncertainties``).
    UNCERTAIN = "uncertain"
    #: min.insync.replicas was set, deleted or described.
    CONFIG = "config"
    #: A heartbeat that differs from the last, or before or after a silence.
    HEARTBEAT = "heartbeat"
    METADATA = "metadata"
    #: ALTER_PARTITION arrived at the controller, and its response was built.
    ISR_REQUESTED = "isr_requested"
    ISR_COMMITTED = "isr_committed"
    #: This node's own, to the active controller; the kinds below are of requests to this node.
    METADATA_FETCH = "metadata_fetch"
    CONSUMER_FETCH = "consumer_fetch"
    FETCH = "fetch"
    PRODUCE = "produce"


class Uncertain(StrEnum):
    """Names what a gap in a log leaves open (``uncertainties.what``)."""

    #: Whether a follower is in ISRs: it may have been fenced or stopped.
    FOLLOWER = "follower"
    #: Lines of the leader itself, or of the active controller: who leads, and joins ISRs.
    OWN_LOG = "own log"
    METADATA_LOG = "metadata log"
    CONFIGS = "configs"


KIND_ORDER = {kind: order for order, kind in enumerate(EventKind)}


class ListedPartition(NamedTuple):
    """A partition as an event lists it: by name or, where its version has only that, by id."""

    topic: str | None
    topic_id: str | None
    partition: int
    #: PRODUCE: records of the batch, its first offset (-1: nothing appended, None: no response),
    #: the recorded error (read by the rule where nothing was appended).
    record_bytes: int | None = None
    base_offset: int | None = None
    error_code: int | None = None
    #: FETCH: the follower's log end offset, and whether the leader refused to take note of it.
    fetch_offset: int | None = None
    is_refused: bool | None = None
    #: CONSUMER_FETCH: the session has this partition no more.
    is_forgotten: bool | None = None
    #: FETCH, METADATA, ALTER_PARTITION: leader epoch. The last two: leader, ISR, replicas.
    leader_epoch: int | None = None
    leader_id: int | None = None
    isr: list[int] | None = None
    replicas: list[int] | None = None


class LeaderEvent(NamedTuple):
    """One event. Times are microseconds since the epoch; what a kind lacks is its default."""

    at_us: int
    kind_order: int
    request_id: str
    kind: str
    received_us: int = 0
    dequeued_us: int = 0
    handled_us: int = 0
    #: When the response was built (None: it is not in the log): what is read of it, the head of the
    #: package says.
    built_us: int | None = None
    #: FETCH, UNCERTAIN: the follower. HEARTBEAT: the broker. METADATA, METADATA_FETCH, CONFIG: who
    #: responded.
    replica_id: int = NOBODY
    #: FETCH and HEARTBEAT: the broker's epoch, -1 if not sent.
    replica_epoch: int = -1
    #: FETCH: which of the follower's fetchers sent it (num.replica.fetchers).
    fetcher: int = 0
    #: FETCH and CONSUMER_FETCH: the session it belongs to afterwards, 0 none.
    session_id: int = 0
    #: CONSUMER_FETCH: lists all partitions, not what changed; fetch.min.bytes.
    is_full: bool = False
    min_bytes: int = 0
    client_id: str | None = None
    #: PRODUCE: the connection that it came on.
    connection: str = ""
    acks: int = 0
    timeout_us: int = 0
    is_transactional: bool = False
    is_idempotent: bool | None = None
    #: METADATA_FETCH: the node's log end offset, and the response's high watermark; -1: not stated.
    fetch_offset: int = -1
    high_watermark: int = -1
    #: HEARTBEAT: what the broker wants, and the response.
    want_shut_down: bool = False
    is_fenced: bool = False
    #: CONFIG: topic (empty: default), operation, value. TOPIC: name; its id is the value.
    #: UNCERTAIN: what (name), since received_us, until built_us.
    name: str = ""
    operation: str | None = None
    value: str | None = None
    partitions: list[ListedPartition] | None = None

    @property
    def done_us(self) -> int:
        """Returns when its handler was done; ``at_us`` where the log does not have that."""
        return self.handled_us or self.at_us


#: Input of the replay: ``LeaderEvent``, a column per field.
INPUT_SCHEMA = event_schema(LeaderEvent)


#: How many partitions are objects at once; more only where a single event lists more.
_LISTED_AT_ONCE = 65_536

#: Topic (its id where the log has no name) and index.
TopicPartition = tuple[str, int]


class LeaderEvents:
    """A batch of ``INPUT_SCHEMA``; ``names``: topic names by id.

    ``partitions`` has the partitions that all its events list, one after the other; ``columns`` has
    the other fields of ``ListedPartition`` in the same places, but for lists (``stated``).
    """

    def __init__(self, batch: pa.RecordBatch, names: Mapping[str, str]) -> None:
        self._batch, listed = batch, batch.column("partitions").flatten()
        columns = dict(zip(ListedPartition._fields, listed.flatten(), strict=True))
        self._isrs, self._replicas = columns.pop("isr"), columns.pop("replicas")
        topics = pc.coalesce(columns["topic"], columns["topic_id"], "").dictionary_encode()
        keys = topics.dictionary.to_pylist()
        # An event may name a topic by its id where the name is meant.
        resolved = [names.get(name, name) for name in (names.get(key, key) for key in keys)]
        codes, indexes = values_of(topics.indices), values_of(columns["partition"])
        self.partitions: list[TopicPartition] = [
            (resolved[code], index) for code, index in zip(codes, indexes, strict=True)
        ]
        self.columns: dict[str, list[Any]] = {
            name: values_of(column)
            for name, column in columns.items()
            if name not in ("topic", "topic_id")
        }

    def events(self) -> Iterator[tuple[LeaderEvent, range]]:
        """Yields each event without its partitions, and their places in ``partitions``."""
        end, batch, lengths = 0, self._batch, _lengths(self._batch).tolist()
        place = batch.schema.get_field_index("partitions")
        batch = batch.set_column(place, "partitions", pa.nulls(batch.num_rows))
        for event, length in zip(events_of(batch, LeaderEvent), lengths, strict=True):
            begin, end = end, end + length
            yield event, range(begin, end)

    def stated(self, place: int) -> ListedPartition:
        """Returns what METADATA or ALTER_PARTITION state of a partition."""
        topic, number = self.partitions[place]
        return ListedPartition(
            topic,
            None,
            number,
            leader_epoch=self.columns["leader_epoch"][place],
            leader_id=self.columns["leader_id"][place],
            isr=self._isrs[place].as_py(),
            replicas=self._replicas[place].as_py(),
        )


def _lengths(batch: pa.RecordBatch) -> "np.ndarray[Any, Any]":
    lengths = pc.list_value_length(batch.column("partitions")).fill_null(0)
    array: np.ndarray[Any, Any] = lengths.to_numpy(zero_copy_only=False)
    return array


def parts_of(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields slices of a batch that list at most ``_LISTED_AT_ONCE`` partitions, or one event.

    Batches have a limit of events, but the memory of their objects grows with the partitions.
    """
    part = np.cumsum(np.maximum(_lengths(batch), 1)) // _LISTED_AT_ONCE
    begins = np.flatnonzero(np.append(True, part[1:] != part[:-1])[: len(part)])
    for begin, end in zip(begins, [*begins[1:], len(part)], strict=True):
        yield batch.slice(begin, end - begin)

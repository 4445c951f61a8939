"""KIP-227's draft (version 3 of the page): followers' sessions, by uuid, in messages of their own.

"The follower registers the set of partitions which it is interested in by sending an ordinary
FetchRequest"; the response has a uuid, and the IncrementalFetchRequests that follow carry it
("Proposed Changes"). They list partitions by topic name and cannot take one out, so a full FETCH
is needed when one goes. How one is added the page does not say: here by a full FETCH too, which
registers the set. Orders are those of the released session.

Kafka of that time had no flexible versions: strings are int16 length and UTF-8, arrays int32 length
and elements, records int32 length and bytes; headers are the classic ones. The draft's request has
no ``max_bytes`` of its own; its response names the 64-bit uuid that the session goes by
("Public Interfaces"). An ordinary FetchResponse gets the same uuid and changes in nothing else.
``partition_id`` is declared STRING in the request and INT32 in the response. That is likely a slip
(a partition is an int32 everywhere else in Kafka), so both can be counted.
"""

from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from ..kafka.messages import schemas
from ..kafka.messages.encoding import Ints
from ..kafka.messages.layout import field_of, messages_of
from ..kafka.messages.sizes import CORRELATION_ID_BYTES, FRAME_BYTES, REQUEST_HEADER_BYTES
from ..model.cached_partitions import EPOCHS, FETCH_OFFSET
from ..outcomes import Verdict
from .lists import Partitions
from .outcomes import Sent
from .recorded import RecordedFetch
from .released import Incremental, ReplayedFetch
from .sizes import utf8

#: The uuid that the draft adds to an ordinary FetchResponse.
DRAFT_UUID_BYTES: Final = field_of(schemas.FETCH_RESPONSE_UUID).plain_bytes(0)
_ARRAY_LENGTH_BYTES = 4
_STRING_LENGTH_BYTES = 2
_INT32_BYTES = 4
_REQUEST, _RESPONSE = (message.body for message in messages_of(schemas.INCREMENTAL_FETCH).values())


class DraftFetchPieces(NamedTuple):
    """Sizes in bytes of what the draft's two messages are made of.

    A message is its fixed part + a ``topic_bytes`` for each run of adjacent partitions of a topic +
    its partitions. Lengths of arrays have a fixed size, so no size depends on what else is listed.
    """

    partition_id_is_string: bool

    def request_fixed_bytes(self, client_id_bytes: int) -> int:
        overhead = FRAME_BYTES + REQUEST_HEADER_BYTES + client_id_bytes
        return overhead + _REQUEST.plain_bytes(0) + _ARRAY_LENGTH_BYTES

    def response_fixed_bytes(self) -> int:
        overhead = FRAME_BYTES + CORRELATION_ID_BYTES
        return overhead + _RESPONSE.plain_bytes(0) + _ARRAY_LENGTH_BYTES

    def topic_bytes(self, name_bytes: int) -> int:
        """Counts a topic without its partitions, from the length of its name in UTF-8."""
        return _STRING_LENGTH_BYTES + name_bytes + _ARRAY_LENGTH_BYTES

    def request_partition_bytes(self, partition: int) -> int:
        """Counts a requested partition; as a string its id takes a byte a digit."""
        digits = _STRING_LENGTH_BYTES + len(str(partition))
        partition_id = digits if self.partition_id_is_string else _INT32_BYTES
        return partition_id + _REQUEST["Topics.Partitions"].plain_bytes(0)

    def response_partition_bytes(
        self, record_bytes: int | None, aborted_transactions: int | None = None
    ) -> int:
        """Counts a returned partition. None is null: it takes what 0 takes."""
        plain = _RESPONSE["Topics.Partitions"].plain_bytes(0) + 2 * _ARRAY_LENGTH_BYTES
        aborted = _RESPONSE["Topics.Partitions.AbortedTransactions"].plain_bytes(0)
        return plain + aborted * (aborted_transactions or 0) + (record_bytes or 0)


#: Why bytes can't be counted.
NAME_NOT_KNOWN = "the name of a topic is not in the log"


def with_draft_uuid(full: Sent) -> Sent:
    """Adds a uuid to a full FETCH: "this change also adds a 64-bit UUID to FetchResponse"."""
    assert full.response_bytes is not None
    size = full.response_bytes + DRAFT_UUID_BYTES
    return replace(full, session_id=None, session_epoch=None, response_bytes=size)


class Draft:
    """The draft's FETCHes. ``partition_id_is_string``: in requests, as the page declares it."""

    def __init__(self, partition_id_is_string: bool, numbering: Partitions) -> None:
        self._pieces = pieces = DraftFetchPieces(partition_id_is_string)
        self._numbering = numbering
        self._fixed = pieces.request_fixed_bytes(0), pieces.response_fixed_bytes()
        #: Of a partition in the request (its id as a number), and of one that returns nothing.
        self._partition_bytes = (
            pieces.request_partition_bytes(0),
            pieces.response_partition_bytes(0),
        )
        self._topic_bytes = pieces.topic_bytes(0)

    def fetch(self, fetch: ReplayedFetch, full: Sent, incremental: Incremental | None) -> Sent:
        """Sends an incremental FETCH, or a full one: for want of a uuid, or of the same set."""
        stream, row, changes = fetch.stream, fetch.row, fetch.changes
        has_uuid, stream.draft_has_uuid = stream.draft_has_uuid, False
        if not fetch.followed.size:
            return full
        stream.draft_has_uuid = row.is_follower and not row.is_throttled
        if not has_uuid or incremental is None or not changes.keeps_the_set:
            return with_draft_uuid(full)
        listed, returned = _requested(fetch, incremental), _returned(fetch, incremental)
        size, topics = self._request_bytes(fetch, listed), fetch.requested.topics[listed]
        request_bytes = self._with_topics(size, topics, row)
        size, topics = self._response_bytes(fetch, returned), fetch.returned.topics[returned]
        response_bytes = self._with_topics(size, topics, row)
        is_counted = request_bytes is not None and response_bytes is not None
        return Sent(
            verdict=Verdict.REPLAYED if is_counted else Verdict.UNKNOWN,
            reason=None if is_counted else NAME_NOT_KNOWN,
            api_version=fetch.version,
            is_full=False,
            session_partitions=fetch.followed.size,
            request_partitions=len(listed),
            response_partitions=len(returned),
            added_partitions=fetch.added,
            record_bytes=row.record_bytes,
            request_bytes=request_bytes,
            response_bytes=response_bytes,
        )

    def _request_bytes(self, fetch: ReplayedFetch, at: Ints) -> int:
        size = self._fixed[0] + utf8(fetch.row.client_id)
        if not self._pieces.partition_id_is_string:
            return size + len(at) * self._partition_bytes[0]
        indexes = self._numbering.index_of[fetch.requested.partitions[at]].tolist()
        return size + sum(map(self._pieces.request_partition_bytes, indexes))

    def _response_bytes(self, fetch: ReplayedFetch, at: Ints) -> int:
        size = self._fixed[1] + len(at) * self._partition_bytes[1]
        if len(at) == fetch.row.response_partitions:
            return size + fetch.returned.classic_bytes_sum[fetch.row.number]
        return size + int(np.add.reduce(fetch.returned.classic_bytes[at]))

    def _with_topics(self, size: int, topics: Ints, row: RecordedFetch) -> int | None:
        """Adds the bytes of topics to a size; None: the name of one is not known."""
        runs, names = self._numbering.named(topics, row.uses_topic_ids)
        return None if names is None else size + runs * self._topic_bytes + names


def _requested(fetch: ReplayedFetch, incremental: Incremental) -> Ints:
    """Returns the positions that the draft's request lists: those that have other values.

    "It describes only the partitions that have been updated since the last request was sent"
    ("Proposed Changes"), in fetch_offset, start_offset or max_bytes: it has no epochs.
    """
    changes, listed = fetch.changes, incremental.requested
    # Mostly all that are listed have another offset, and no other value has to be looked at.
    is_updated = changes.differs[FETCH_OFFSET]
    if np.count_nonzero(is_updated) < len(listed):
        is_updated = np.logical_or.reduce(changes.differs[:EPOCHS])
    if np.count_nonzero(is_updated) < len(listed):
        return incremental.session.client.sort(changes.updated.where(is_updated)).at
    return listed


def _returned(fetch: ReplayedFetch, incremental: Incremental) -> Ints:
    """Returns the positions that the draft's response lists: records, and what is not as before.

    "Omits repeating metadata about partitions that haven't changed": so neither an error that stays
    nor a preferred read replica, which the draft's response does not have.
    """
    session, response = incremental.session, fetch.response
    which = fetch.returned.has_records[response.entries.at] | response.is_changed
    if session.is_older or which.tobytes() != fetch.is_returned.tobytes():
        return session.response(response, which).at
    return incremental.returned.at

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
``partition_id`` is an INT32, as everywhere in Kafka; that the page of the request declares a STRING
is likely a slip.
"""

from typing import Final

import numpy as np
from msgspec.structs import replace

from ..kafka.messages import schemas
from ..kafka.messages.columns import Ints
from ..kafka.messages.layout import field_of, messages_of
from ..kafka.messages.sizes import CORRELATION_ID_BYTES, FRAME_BYTES, REQUEST_HEADER_BYTES
from ..model.cached_partitions import EPOCHS, FETCH_OFFSET
from ..records import Verdict
from .outcomes import Sent, utf8
from .released import Incremental, ReplayedFetch

#: The uuid that the draft adds to an ordinary FetchResponse.
DRAFT_UUID_BYTES: Final = field_of(schemas.FETCH_RESPONSE_UUID).plain_bytes(0)
_REQUEST, _RESPONSE = (message.body for message in messages_of(schemas.INCREMENTAL_FETCH).values())
_ARRAY_LENGTH_BYTES = 4

# A message is its fixed part, ``TOPIC_BYTES`` for each run of adjacent partitions of a topic, and
# its partitions. Lengths of arrays have a fixed size, so no size depends on what else is listed.

#: An IncrementalFetchRequest without its client id.
REQUEST_BYTES: Final = (
    FRAME_BYTES + REQUEST_HEADER_BYTES + _REQUEST.plain_bytes(0) + _ARRAY_LENGTH_BYTES
)
RESPONSE_BYTES: Final = (
    FRAME_BYTES + CORRELATION_ID_BYTES + _RESPONSE.plain_bytes(0) + _ARRAY_LENGTH_BYTES
)
#: A topic without its name: the lengths of the name and of the array of partitions.
TOPIC_BYTES: Final = 2 + _ARRAY_LENGTH_BYTES
REQUEST_PARTITION_BYTES: Final = _REQUEST["Topics.Partitions"].plain_bytes(0)
#: A returned partition without records and aborted transactions: what null takes, too.
RESPONSE_PARTITION_BYTES: Final = (
    _RESPONSE["Topics.Partitions"].plain_bytes(0) + 2 * _ARRAY_LENGTH_BYTES
)

#: Why bytes can't be counted.
NAME_NOT_KNOWN = "the name of a topic is not in the log"


def with_draft_uuid(full: Sent) -> Sent:
    """Adds a uuid to a full FETCH: "this change also adds a 64-bit UUID to FetchResponse"."""
    assert full.response_bytes is not None
    size = full.response_bytes + DRAFT_UUID_BYTES
    return replace(full, session_id=None, session_epoch=None, response_bytes=size)


def draft_fetch(fetch: ReplayedFetch, full: Sent, incremental: Incremental | None) -> Sent:
    """Sends an incremental FETCH, or a full one: for want of a uuid, or of the same set."""
    stream, row = fetch.stream, fetch.row
    has_uuid, stream.draft_has_uuid = stream.draft_has_uuid, False
    if not fetch.followed.size:
        return full
    stream.draft_has_uuid = row.is_follower and not row.is_throttled
    if not has_uuid or incremental is None or not fetch.changes.keeps_the_set:
        return with_draft_uuid(full)
    listed, returned = _requested(fetch, incremental), _returned(fetch, incremental)
    requested_topics = _topics_bytes(fetch, fetch.requested.topics[listed])
    returned_topics = _topics_bytes(fetch, fetch.returned.topics[returned])
    sent = Sent(
        api_version=fetch.version,
        is_full=False,
        session_partitions=fetch.followed.size,
        request_partitions=len(listed),
        response_partitions=len(returned),
        added_partitions=fetch.added,
        record_bytes=row.record_bytes,
    )
    if requested_topics is not None:
        request_bytes = REQUEST_BYTES + utf8(row.client_id) + requested_topics
        sent.request_bytes = request_bytes + len(listed) * REQUEST_PARTITION_BYTES
    if returned_topics is not None:
        response_bytes = RESPONSE_BYTES + returned_topics + fetch.classic_bytes(returned)
        sent.response_bytes = response_bytes + len(returned) * RESPONSE_PARTITION_BYTES
    if sent.request_bytes is None or sent.response_bytes is None:
        sent.verdict, sent.reason = Verdict.UNKNOWN, NAME_NOT_KNOWN
    return sent


def _topics_bytes(fetch: ReplayedFetch, topics: Ints) -> int | None:
    """Counts the topics of listed partitions; None: the name of one is not known."""
    runs, name_bytes = fetch.followed.numbering.named(topics, fetch.row.uses_topic_ids)
    return None if name_bytes is None else runs * TOPIC_BYTES + name_bytes


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

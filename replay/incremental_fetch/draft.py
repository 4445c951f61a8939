"""KIP-227's draft (version 3 of the page): followers' sessions, by uuid, in messages of their own.

"The follower registers the set of partitions which it is interested in by sending an ordinary
FetchRequest"; the response has a uuid, and the IncrementalFetchRequests that follow carry it
("Proposed Changes"). They list partitions by topic name and take none out, so a full FETCH is
needed whenever a partition comes or goes. Orders are those of the released session.
"""

import numpy as np
from msgspec.structs import replace

from ..kafka.messages.encoding import Ints
from ..kafka.messages.kip_227_draft import DRAFT_UUID_BYTES, DraftFetchPieces
from ..model.cached_partitions import EPOCHS, FETCH_OFFSET
from ..outcomes import Verdict
from .outcomes import Sent
from .partitions import Partitions
from .recorded import RecordedFetch
from .released import Fetch, Incremental
from .sizes import utf8

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
        self._each = pieces.request_partition_bytes(0), pieces.response_partition_bytes(0)
        self._topic_bytes = pieces.topic_bytes(0)

    def fetch(self, fetch: Fetch, full: Sent, incremental: Incremental | None) -> Sent:
        """Sends a full FETCH without a uuid, and where a partition comes or goes."""
        stream, row, changes = fetch.stream, fetch.row, fetch.changes
        has_uuid, stream.draft_has_uuid = stream.draft_has_uuid, False
        if not fetch.followed.size:
            return full
        stream.draft_has_uuid = row.is_follower and not row.is_throttled
        if not has_uuid or incremental is None or not changes.keeps_the_set:
            return with_draft_uuid(full)
        session = incremental.session
        # "It describes only the partitions that have been updated since the last request was sent"
        # ("Proposed Changes"), in fetch_offset, start_offset or max_bytes: it has no epochs.
        listed = incremental.requested
        is_updated = changes.differs[FETCH_OFFSET]
        if np.count_nonzero(is_updated) < len(listed):
            is_updated = np.logical_or.reduce(changes.differs[:EPOCHS])
        if np.count_nonzero(is_updated) < len(listed):
            listed = session.client.sort(changes.updated.where(is_updated)).at
        # "Omits repeating metadata about partitions that haven't changed": so neither an error that
        # stays nor a preferred read replica, which the draft's response does not have.
        which = fetch.returned.has_records[fetch.response.entries.at] | fetch.response.is_changed
        returned = incremental.returned.at
        if session.is_older or which.tobytes() != fetch.is_returned.tobytes():
            returned = session.response(fetch.response, which).at
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

    def _request_bytes(self, fetch: Fetch, at: Ints) -> int:
        size = self._fixed[0] + utf8(fetch.row.client_id)
        if not self._pieces.partition_id_is_string:
            return size + len(at) * self._each[0]
        indexes = self._numbering.index_of[fetch.requested.partitions[at]].tolist()
        return size + sum(map(self._pieces.request_partition_bytes, indexes))

    def _response_bytes(self, fetch: Fetch, at: Ints) -> int:
        size = self._fixed[1] + len(at) * self._each[1]
        return size + int(np.add.reduce(fetch.returned.classic_bytes[at]))

    def _with_topics(self, size: int, topics: Ints, row: RecordedFetch) -> int | None:
        """Topics too; None: the name of one is not known."""
        runs, names = self._numbering.named(topics, row.uses_topic_ids)
        return None if names is None else size + runs * self._topic_bytes + names

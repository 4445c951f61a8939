"""KIP-227's draft (version 3 of the page): followers' sessions, by uuid, in messages of their own.

"The follower registers the set of partitions which it is interested in by sending an ordinary
FetchRequest"; the response has a uuid, and the IncrementalFetchRequests that follow carry it
("Proposed Changes"). They list partitions by topic name and take none out, so a full FETCH is
needed whenever a partition comes or goes. Orders are those of the released session.
"""

import numpy as np

from ..kafka.messages.encoding import Ints
from ..kafka.messages.kip_227_draft import DRAFT_UUID_BYTES, DraftFetchPieces
from .lists import EPOCHS
from .partitions import Partitions, ends_of_runs
from .recorded import RecordedFetch
from .released import Fetch, Incremental
from .session import FetchSession
from .sizes import Sent, utf8


def with_draft_uuid(full: Sent) -> Sent:
    """A full FETCH under the draft: "this change also adds a 64-bit UUID to FetchResponse"."""
    size = None if full.response_bytes is None else full.response_bytes + DRAFT_UUID_BYTES
    return full._replace(session_id=None, session_epoch=None, response_bytes=size)


class Draft:
    """The draft's FETCHes. ``partition_id_is_string``: in requests, as the page declares it."""

    def __init__(self, partition_id_is_string: bool, numbering: Partitions) -> None:
        self._pieces = pieces = DraftFetchPieces(partition_id_is_string)
        self._numbering = numbering
        self._fixed = pieces.request_fixed_bytes(0), pieces.response_fixed_bytes()
        #: Of a partition in the request (its id as a number), and of one that returns nothing.
        self._each = pieces.request_partition_bytes(0), pieces.response_partition_bytes(0)
        self._topic_bytes = pieces.topic_bytes(0)

    def fetch(
        self,
        fetch: Fetch,
        full: Sent | None,
        session: FetchSession | None,
        incremental: Incremental | None,
    ) -> Sent | None:
        """A FETCH under the draft: full without a uuid, and where a partition comes or goes."""
        stream, row, changes = fetch.stream, fetch.row, fetch.changes
        has_uuid, stream.draft_has_uuid = stream.draft_has_uuid, False
        if full is None:
            return None
        stream.draft_has_uuid = row.is_follower and not row.is_throttled
        if not has_uuid or session is None or incremental is None or not changes.keeps_the_set:
            return with_draft_uuid(full)
        # "It describes only the partitions that have been updated since the last request was sent"
        # ("Proposed Changes"), in fetch_offset, start_offset or max_bytes: it has no epochs.
        listed = incremental.requested
        is_updated = np.logical_or.reduce(changes.differs[:EPOCHS])
        if np.count_nonzero(is_updated) < len(listed):
            updated = changes.updated[is_updated]
            listed = session.client.sort(updated, changes.updated_slots[is_updated])
        # "Omits repeating metadata about partitions that haven't changed": so neither an error that
        # stays nor a preferred read replica, which the draft's response does not have.
        has_records = fetch.returned.has_records[fetch.response.at]
        returned, _ = session.response(fetch.response, has_records | fetch.response.is_changed)
        return Sent(
            is_full=False,
            request_partitions=len(listed),
            response_partitions=len(returned),
            record_bytes=row.record_bytes,
            request_bytes=self._with_topics(
                self._request_bytes(fetch, listed), fetch.requested.topics[listed], row
            ),
            response_bytes=self._with_topics(
                self._response_bytes(fetch, returned), fetch.returned.topics[returned], row
            ),
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
        runs = topics.take(ends_of_runs(topics))
        names = self._numbering.name_bytes(runs, row.uses_topic_ids)
        return None if names is None else size + len(runs) * self._topic_bytes + names

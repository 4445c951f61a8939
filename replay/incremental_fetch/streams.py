"""Which stream a FETCH belongs to: by its session's id, else by its connection."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from .followed import FollowedPartitions
from .partitions import Partitions
from .recorded import FETCH_SESSION_ID_NOT_FOUND, RecordedFetch
from .session import NO_SESSION
from .stream import Held, Stream

#: ``connections.max.idle.ms``: a broker closes a connection that is silent for longer.
CONNECTION_IDLE_US = 600_000_000
#: A client that has a session and is silent for a day is gone.
SESSION_IDLE_US = 86_400_000_000


class Streams(msgspec.Struct, array_like=True):
    """The streams of one broker by number, with a session of each of ``caches`` at most."""

    node_id: int
    caches: int
    by_number: dict[int, Stream] = {}
    last: int = 0
    by_session: dict[int, int] = {}
    by_connection: dict[tuple[str | None, str | None], int] = {}
    by_fetcher: dict[tuple[str | None, int], int] = {}

    def key_without_session(self, row: RecordedFetch) -> str:
        """``session_key`` of a FETCH without a session."""
        return f"{self.node_id}/{row.client_id or ''}/{row.connection or ''}"

    def of(self, row: RecordedFetch, numbering: Partitions) -> Stream | None:
        """The stream of a FETCH, which is found where this one was from now on.

        None for a client that has never requested a session and does not now.
        """
        stream = self._find(row)
        if stream is None:
            if row.closes_session and row.session_id == NO_SESSION:
                return None
            stream = self._new(row, numbering)
        self._place(stream, row)
        if row.is_full and not row.closes_session:
            # Until its response has a session.
            stream.session_key = self.key_without_session(row)
            if row.error_code == 0 and row.response_session_id:
                stream.session_key = f"{self.node_id}/{row.response_session_id}/{row.request_id}"
        return stream

    def respond(self, stream: Stream, row: RecordedFetch) -> None:
        """The client has the recorded response (``FetchSessionHandler.handleResponse``)."""
        if row.error_code is None:
            return
        if row.error_code == FETCH_SESSION_ID_NOT_FOUND:
            self._set_session(stream, NO_SESSION)
        elif row.error_code:
            stream.is_broken = True
        elif row.is_full or not row.response_session_id:
            self._set_session(stream, row.response_session_id or NO_SESSION)

    def forget(self, stream: Stream) -> None:
        """The client has closed its session, or is gone."""
        self._set_session(stream, NO_SESSION)
        self._leave(stream)
        del self.by_number[stream.number]

    def idle(self, now_us: int) -> Iterator[Stream]:
        """Streams that have been silent for too long to come back."""
        for stream in list(self.by_number.values()):
            has_session = stream.recorded_session_id != NO_SESSION
            span = SESSION_IDLE_US if has_session else CONNECTION_IDLE_US
            if now_us - stream.last_seen_us > span:
                yield stream

    def _find(self, row: RecordedFetch) -> Stream | None:
        number = self.by_connection.get((row.client_id, row.connection))
        if row.session_id != NO_SESSION:
            number = self.by_session.get(row.session_id, number)
        elif number is None and row.is_follower:
            number = self._reconnected(row)
        return None if number is None else self.by_number[number]

    def _reconnected(self, row: RecordedFetch) -> int | None:
        """The same fetcher thread of the same run of a broker, on a new connection.

        Where sessions are recorded, (id, 0) says that a connection was lost; else only this does.
        """
        number = self.by_fetcher.get((row.client_id, row.replica_id))
        stream = None if number is None else self.by_number[number]
        if stream is None or row.replica_epoch < 0 or stream.replica_epoch != row.replica_epoch:
            return None
        if stream.recorded_session_id != NO_SESSION:
            return None
        stream.is_broken = True
        return number

    def _new(self, row: RecordedFetch, numbering: Partitions) -> Stream:
        self.last += 1
        stream = Stream(
            self.last,
            row.client_id,
            row.connection,
            row.replica_id,
            row.replica_epoch,
            self.key_without_session(row),
            [Held() for _ in range(self.caches)],
            FollowedPartitions(numbering),
        )
        self.by_number[stream.number] = stream
        if row.session_id != NO_SESSION:
            stream.session_key = f"{self.node_id}/{row.session_id}/before the log"
            self._set_session(stream, row.session_id)
        return stream

    def _place(self, stream: Stream, row: RecordedFetch) -> None:
        self._leave(stream)
        stream.client_id, stream.connection = row.client_id, row.connection
        if row.request_partitions is not None:
            stream.replica_id, stream.replica_epoch = row.replica_id, row.replica_epoch
        stream.last_seen_us = row.dequeued_us
        self.by_connection[row.client_id, row.connection] = stream.number
        if stream.replica_id >= 0:
            self.by_fetcher[row.client_id, stream.replica_id] = stream.number

    def _leave(self, stream: Stream) -> None:
        _remove(self.by_connection, (stream.client_id, stream.connection), stream)
        _remove(self.by_fetcher, (stream.client_id, stream.replica_id), stream)

    def _set_session(self, stream: Stream, session_id: int) -> None:
        _remove(self.by_session, stream.recorded_session_id, stream)
        stream.recorded_session_id = session_id
        if session_id != NO_SESSION:
            self.by_session[session_id] = stream.number


def _remove(numbers: dict[Any, int], key: object, stream: Stream) -> None:
    """A stream is not found there any more, unless another one is by now."""
    if numbers.get(key) == stream.number:
        del numbers[key]

"""Which stream a FETCH belongs to: by its session's id, else by its connection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from .recorded import FETCH_SESSION_ID_NOT_FOUND, FINAL_EPOCH, NO_SESSION, RecordedFetch
from .stream import Stream

#: ``connections.max.idle.ms``: a broker closes a connection that is silent for longer.
CONNECTION_IDLE_US = 600_000_000
#: A client that has a session and is silent for a day is gone.
SESSION_IDLE_US = 86_400_000_000

_Connection = tuple[str | None, str | None]
_Fetcher = tuple[str | None, int]


@dataclass
class Streams:
    """The streams of one broker, ``caches`` sessions each."""

    node_id: int
    caches: int
    _streams: dict[int, Stream] = field(default_factory=dict)
    _last: int = 0
    _by_session: dict[int, int] = field(default_factory=dict)
    _by_connection: dict[_Connection, int] = field(default_factory=dict)
    _by_fetcher: dict[_Fetcher, int] = field(default_factory=dict)

    def __getitem__(self, number: int) -> Stream:
        return self._streams[number]

    def __len__(self) -> int:
        return len(self._streams)

    def key_without_session(self, row: RecordedFetch) -> str:
        """``session_key`` of a FETCH without a session."""
        return f"{self.node_id}/{row.client_id or ''}/{row.connection or ''}"

    def of(self, row: RecordedFetch) -> Stream | None:
        """The stream of a FETCH, which is where it is from now on.

        None for a client that has never asked for a session and does not now.
        """
        stream = self._find(row)
        asks_for_none = row.has_sessions and row.session_epoch == FINAL_EPOCH
        if stream is None:
            if asks_for_none and row.session_id == NO_SESSION:
                return None
            stream = self._new(row)
        self._place(stream, row)
        if row.is_full and not asks_for_none:
            # Until its answer tells of a session.
            stream.session_key = self.key_without_session(row)
            if row.error_code == 0 and row.response_session_id:
                stream.session_key = f"{self.node_id}/{row.response_session_id}/{row.request_id}"
        return stream

    def answered(self, stream: Stream, row: RecordedFetch) -> None:
        """The client has the answer (``FetchSessionHandler.handleResponse``)."""
        if row.error_code is None:
            return
        if row.error_code != 0:
            if row.error_code == FETCH_SESSION_ID_NOT_FOUND:
                self._set_session(stream, NO_SESSION)
            else:
                stream.is_broken = True
        elif row.is_full or not row.response_session_id:
            self._set_session(stream, row.response_session_id or NO_SESSION)

    def forget(self, stream: Stream) -> None:
        """The client has said goodbye, or is gone."""
        self._set_session(stream, NO_SESSION)
        self._leave(stream)
        del self._streams[stream.number]

    def idle(self, now_us: int) -> Iterator[Stream]:
        """Streams that have been silent for too long to come back."""
        for stream in list(self._streams.values()):
            has_session = stream.recorded_session_id != NO_SESSION
            span = SESSION_IDLE_US if has_session else CONNECTION_IDLE_US
            if now_us - stream.last_seen_us > span:
                yield stream

    def _find(self, row: RecordedFetch) -> Stream | None:
        number = self._by_connection.get((row.client_id, row.connection))
        if row.session_id != NO_SESSION:
            number = self._by_session.get(row.session_id, number)
        elif number is None and row.is_follower:
            number = self._reconnected(row)
        return None if number is None else self._streams[number]

    def _reconnected(self, row: RecordedFetch) -> int | None:
        """The same fetcher thread of the same run of a broker, on a new connection.

        Where sessions are recorded, (id, 0) says that a connection was lost; else only this does.
        """
        number = self._by_fetcher.get((row.client_id, row.replica_id))
        stream = None if number is None else self._streams[number]
        if stream is None or row.replica_epoch < 0 or stream.replica_epoch != row.replica_epoch:
            return None
        if stream.recorded_session_id != NO_SESSION:
            return None
        stream.is_broken = True
        return number

    def _new(self, row: RecordedFetch) -> Stream:
        self._last += 1
        stream = Stream.of(self._last, row, self.key_without_session(row), self.caches)
        self._streams[stream.number] = stream
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
        self._by_connection[row.client_id, row.connection] = stream.number
        if stream.replica_id >= 0:
            self._by_fetcher[row.client_id, stream.replica_id] = stream.number

    def _leave(self, stream: Stream) -> None:
        connection = (stream.client_id, stream.connection)
        if self._by_connection.get(connection) == stream.number:
            del self._by_connection[connection]
        fetcher = (stream.client_id, stream.replica_id)
        if self._by_fetcher.get(fetcher) == stream.number:
            del self._by_fetcher[fetcher]

    def _set_session(self, stream: Stream, session_id: int) -> None:
        if self._by_session.get(stream.recorded_session_id) == stream.number:
            del self._by_session[stream.recorded_session_id]
        stream.recorded_session_id = session_id
        if session_id != NO_SESSION:
            self._by_session[session_id] = stream.number

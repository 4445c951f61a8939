"""Outcomes of incremental_fetch: FETCHes of topic partitions, and what the session cache did."""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from functools import lru_cache
from itertools import groupby
from operator import attrgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from ..kafka.messages.encoding import Ints
from ..outcomes import RECORDED, WHAT_IF, Variant, Verdict
from ..records import (
    At,
    Bool,
    Int,
    Long,
    Outcome,
    Record,
    RequiredInt,
    RequiredText,
    Text,
    column,
    outcome_table,
)
from ..table import BOOL, NODE_ID, REQUEST_ID
from .recorded import RecordedFetch, filled

RULE = "incremental_fetch"
FULL = "full"
INCREMENTAL = "incremental"
INCREMENTAL_DRAFT = "incremental_draft"
SESSION_SLOTS = "session_slots"


class ClientKind(StrEnum):
    FOLLOWER = "follower"
    CONSUMER = "consumer"
    CONSUMER_WITHOUT_SESSIONS = "consumer_without_sessions"


class OfFetch(Record, kw_only=True, gc=False):
    """Columns that all outcomes of a FETCH have of it."""

    request_id: RequiredText = column(REQUEST_ID.comment)
    attempt: RequiredInt = column("0; a FETCH that gets a session error is 0 and its retry 1")
    node_id: RequiredInt = column(NODE_ID.comment)
    session_key: Text = column("node, session id, first request; or node, client, connection")
    client_id: Text = column("clientId, null if the client sent none")
    client_kind: Text = column("follower, consumer or consumer_without_sessions")
    replica_id: Int = column("fetching replica, -1 for consumers")
    received_at: At = column("arrival")
    dequeued_at: At = column("the handler takes it")
    built_at: At = column("the response was built")
    equals_recorded: Bool = column("same lists and bytes, both ways; null: not comparable")


class Sent(Record, kw_only=True, gc=False, eq=False):
    """Every FETCH of topic partitions, recorded and as each variant has it.

    Null is what is not known, or not sent. Variants under which it comes out the same share one.
    """

    verdict: Verdict = Verdict.REPLAYED
    reason: str | None = None
    api_version: Int = column("version that is counted")
    session_id: Int = column("sessionId of the request; null where it would be another one")
    session_epoch: Int = column("sessionEpoch of the request; the draft has none")
    is_full: Bool = column("lists every partition of the session")
    session_partitions: Int = column("partitions of the session after this request")
    request_partitions: Int = column("partitions listed in the request")
    response_partitions: Int = column("partitions listed in the response")
    forgotten_partitions: Int = column("partitions taken out of the session", default=0)
    added_partitions: Int = column("partitions new in the client's FETCH; null: not known")
    record_bytes: Long = column("records in the response")
    request_bytes: Long = column("on the wire: frame, header, body")
    response_bytes: Long = column("on the wire: frame, header, body")
    bytes_open: Long = column("bytes more that the request, and the response, may have", default=0)
    session_error: Int = column(
        "70, 71 or 106 where the response is a session error, else 0", default=0
    )


def nothing_sent(version: int, verdict: Verdict, reason: str) -> Sent:
    """Says why a protocol sends nothing, or why it is not known what."""
    return Sent(
        verdict=verdict,
        reason=reason,
        api_version=version,
        forgotten_partitions=None,
        bytes_open=None,
        session_error=None,
    )


class SessionCacheEvent(Outcome, kw_only=True, gc=False):
    """What the session cache does with each session, per number of slots."""

    node_id: RequiredInt = column(NODE_ID.comment)
    session_key: RequiredText = column("session that it happens to, as in fetch_session_outcomes")
    event: RequiredText = column("created, refused, evicted or closed")
    request_id: RequiredText = column("FETCH that caused it")
    event_at: At = column("when it happened")
    shard: Int = column("shard of the cache, from 0; null after a gap in the log")
    partitions: Int = column("partitions of the session")
    privileged: Bool = column("the session is a follower's")
    reason: Text = column("why: idle, smaller, not privileged, cache full, all forgotten")


FETCH_SESSION_OUTCOMES = outcome_table(
    "fetch_session_outcomes", RULE, Sent, ("request_id", "attempt"), shared=OfFetch
)
FETCH_SESSION_EVICTIONS = outcome_table(
    "fetch_session_evictions",
    RULE,
    SessionCacheEvent,
    ("node_id", "session_key", "event", "request_id"),
    verdict=False,
    holds_on=True,
)
OUTCOME_SCHEMA = FETCH_SESSION_OUTCOMES.without("recording")


#: Columns that are taken from the input, and their names there.
_OF_INPUT = {name: name for name in ("request_id", "client_id", "replica_id")}
_OF_INPUT |= {f"{event}_at": f"{event}_us" for event in ("received", "dequeued", "built")}
_OF_FETCH = ("session_key", "client_kind", "equals_recorded")
_OF_SENT = Sent.__struct_fields__
_NO_ROWS: Ints = np.zeros((3, 0), np.int64)
#: Places of variants; those of caches follow.
_RECORDED, _FULL, _DRAFT, _FIRST_CACHE = range(4)


class Replayed(Struct, gc=False):
    """A FETCH as recorded and under every protocol.

    ``incremental``: for each cache what is sent in each attempt, two where the first is refused.
    ``equals_recorded``: whether the first cache's is as recorded; None: not comparable.
    """

    recorded: Sent
    full: Sent
    draft: Sent
    incremental: Sequence[Sequence[Sent]]
    equals_recorded: bool | None = None


class OutcomeRows:
    """Rows of fetch_session_outcomes, of one batch of FETCHes at a time.

    Of each row only what the replay adds is kept; what it has of the FETCH itself is taken from the
    input's columns when the rows are emitted. ``session_slots``: the values of the sweep.
    """

    def __init__(self, node_id: int, session_slots: Iterable[int]) -> None:
        sweep = [Variant(INCREMENTAL, SESSION_SLOTS, slots) for slots in session_slots]
        #: Of each cache: with enough slots, then with each number of slots.
        self.variants = [Variant(INCREMENTAL), *sweep]
        self._node_id = node_id
        self._fetches: list[int] = []
        self._of_fetch: list[tuple[str, ClientKind, bool | None]] = []
        self._sent: list[Sent] = []
        #: Of each FETCH: the place of the first that is sent, and what ``_rows_of`` takes.
        self._firsts: list[int] = []
        self._runs: list[tuple[tuple[int, int], ...]] = []

    def add(
        self, row: RecordedFetch, session_key: str, kind: ClientKind, replayed: Replayed
    ) -> None:
        """Adds a FETCH of the batch."""
        self._firsts.append(len(self._sent))
        self._fetches.append(row.number)
        self._of_fetch.append((session_key, kind, replayed.equals_recorded))
        self._sent += (replayed.recorded, replayed.full, replayed.draft)
        runs = []
        for attempts, caches in groupby(replayed.incremental):
            self._sent += attempts
            runs.append((len(list(caches)), len(attempts)))
        self._runs.append(tuple(runs))

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Emits the rows since the last call; their FETCHes are in ``batch``."""
        rows = [_NO_ROWS, *map(_rows_of, self._runs)]
        counts = [each.shape[1] for each in rows[1:]]
        places = np.concatenate(rows, axis=1)
        places[0] += np.repeat(np.array(self._firsts, np.int64), counts)
        sent, variant, attempt = map(pa.array, places)
        fetch = pa.array(np.repeat(np.arange(len(counts)), counts))
        of_batch = pa.array(self._fetches, pa.int64()).take(fetch)
        columns = {"node_id": pa.repeat(self._node_id, len(fetch)), "attempt": attempt}
        for name, of_input in _OF_INPUT.items():
            columns[name] = filled(batch, of_input).take(of_batch)
        columns |= _taken(_OF_FETCH, self._of_fetch, fetch)
        not_compared = pc.not_equal(variant, _FIRST_CACHE)
        equals = pc.if_else(not_compared, pa.scalar(None, BOOL), columns["equals_recorded"])
        columns["equals_recorded"] = equals
        variants = [*map(Variant, (RECORDED, FULL, INCREMENTAL_DRAFT)), *self.variants]
        columns |= _taken(WHAT_IF, [(RULE, *what_if) for what_if in variants], variant)
        columns |= _taken(_OF_SENT, list(map(attrgetter(*_OF_SENT), self._sent)), sent)
        self._fetches, self._of_fetch, self._sent = [], [], []
        self._firsts, self._runs = [], []
        arrays = [columns[field.name].cast(field.type) for field in OUTCOME_SCHEMA]
        return pa.RecordBatch.from_arrays(arrays, schema=OUTCOME_SCHEMA)


def _taken(
    names: Sequence[str], rows: Sequence[tuple[object, ...]], at: pa.Array
) -> dict[str, pa.Array]:
    """Makes columns of rows, each of the row that ``at`` has."""
    schema = pa.schema([OUTCOME_SCHEMA.field(name) for name in names])
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    named = zip(schema, columns, strict=True)
    return {field.name: pa.array(column, field.type).take(at) for field, column in named}


@lru_cache
def _rows_of(runs: tuple[tuple[int, int], ...]) -> Ints:
    """Makes a FETCH's rows: places of what is sent, from its first, of variants, and attempts.

    ``runs``: of adjacent caches that send the same, how many, and in how many attempts.
    """
    rows, place = [(place, place, 0) for place in range(_FIRST_CACHE)], _FIRST_CACHE
    sent = place
    for caches, attempts in runs:
        for attempt in range(attempts):
            rows += [(sent, place + cache, attempt) for cache in range(caches)]
            sent += 1
        place += caches
    return np.array(rows).T

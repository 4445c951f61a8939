"""Rows of fetch_session_outcomes and fetch_session_evictions.

Of each row only what the replay adds is kept; what it has of the FETCH itself is taken from the
input's columns when the rows are emitted.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from itertools import groupby

import pyarrow as pa

from ..outcomes import RECORDED, WHAT_IF, Variant, Verdict, batch_of
from .recorded import SESSION_ERRORS, RecordedFetch, filled
from .sizes import Sent, counted_version
from .step import Replayed
from .streams import Unknown
from .tables import FETCH_SESSION_EVICTIONS, FETCH_SESSION_OUTCOMES

RULE = "incremental_fetch"
FULL = "full"
INCREMENTAL = "incremental"
INCREMENTAL_DRAFT = "incremental_draft"
SESSION_SLOTS = "session_slots"
#: Why nothing is sent, and why the draft's bytes can't be counted.
NOTHING_TO_FETCH = "without a session, who fetches nothing sends nothing"
NAME_NOT_KNOWN = "the name of a topic is not in the log"
ORDER_NOT_KNOWN = "the order of partitions is older than the log"

OUTCOME_SCHEMA = FETCH_SESSION_OUTCOMES.without("recording")
EVICTION_SCHEMA = FETCH_SESSION_EVICTIONS.without("recording")

#: Columns taken from the input, by its names.
_OF_INPUT = {
    **{name: name for name in ("request_id", "client_id", "replica_id")},
    **{f"{event}_at": f"{event}_us" for event in ("received", "dequeued", "built")},
}
_OF_STREAM = ("session_key", "client_kind")
#: Columns of an outcome, in this order.
_OF_ROW = (
    *("api_version", "session_partitions", "added_partitions", "equals_recorded"),
    *("verdict", "reason"),
    *Sent._fields,
)
_PLACES = pa.schema([(name, pa.int64()) for name in ("fetch", "outcome", "variant", "attempt")])
_NOTHING_SENT = (None,) * len(Sent._fields)
#: Places of variants; those of ``variants`` follow.
_RECORDED, _FULL, _DRAFT, _FIRST_INCREMENTAL = range(4)


class ClientKind(StrEnum):
    FOLLOWER = "follower"
    CONSUMER = "consumer"
    CONSUMER_WITHOUT_SESSIONS = "consumer_without_sessions"


def variants(session_slots: Iterable[int] = ()) -> list[Variant]:
    """Variant ``incremental``: with enough slots, then with each number of slots of a sweep."""
    sweep = [Variant(INCREMENTAL, SESSION_SLOTS, slots) for slots in session_slots]
    return [Variant(INCREMENTAL), *sweep]


class OutcomeRows:
    """Rows of fetch_session_outcomes, of one batch of FETCHes at a time."""

    def __init__(self, node_id: int, incremental: Sequence[Variant]) -> None:
        fixed = map(Variant, (RECORDED, FULL, INCREMENTAL_DRAFT))
        self._node_id = node_id
        self._variants = [v.what_if(RULE) for v in (*fixed, *incremental)]
        self._row: RecordedFetch
        self._version: int
        self._fetches: list[int] = []
        self._streams: list[tuple[str, str]] = []
        #: ``_OF_ROW`` of each outcome: variants of a FETCH that come out the same share one.
        self._outcomes: list[tuple[object, ...]] = []
        #: Of each row its FETCH and outcome, as places in these lists, its variant and attempt.
        self._rows: list[tuple[int, int, int, int]] = []

    def begin(self, row: RecordedFetch, session_key: str, kind: ClientKind) -> None:
        """The rows that follow are of this FETCH of the batch."""
        self._row, self._version = row, counted_version(row.api_version)
        self._fetches.append(row.number)
        self._streams.append((session_key, kind))

    def recorded(self, session_partitions: int | None, added_partitions: int | None = None) -> None:
        row, of_request = self._row, self._row.request_partitions is not None
        outcome = self._outcome(
            Verdict.REPLAYED if row.is_logged_whole else Verdict.UNKNOWN,
            None if row.is_logged_whole else Unknown.NOT_IN_LOG,
            (
                row.is_full if of_request else None,
                *(row.request_partitions, row.response_partitions),
                row.record_bytes if row.error_code is not None else None,
                *(row.request_bytes, row.response_bytes, row.forgotten_partitions),
                *((row.session_id, row.session_epoch) if of_request else (None, None)),
                *(row.error_code if row.error_code in SESSION_ERRORS else 0, 0),
            ),
            (row.api_version, session_partitions, added_partitions, None),
        )
        self._add([_RECORDED], [outcome])

    def replayed(self, replayed: Replayed, *, knows_slots: bool = True) -> None:
        """The FETCH as each variant sends it; ``knows_slots``: who holds them is known."""
        full, draft = ([] if sent is None else [sent] for sent in (replayed.full, replayed.draft))
        first, *swept = replayed.incremental
        self._add([_FULL], self._sent(full, replayed))
        if replayed.unknown is not None:
            self.not_replayed(Verdict.UNKNOWN, replayed.unknown, _DRAFT)
            return
        self._add([_DRAFT], self._sent(draft, replayed))
        self._add([_FIRST_INCREMENTAL], self._sent(first, replayed, replayed.equals_recorded))
        if not knows_slots:
            self.not_replayed(Verdict.UNKNOWN, Unknown.GAP, _FIRST_INCREMENTAL + 1)
            return
        for attempts, places in groupby(range(len(swept)), swept.__getitem__):
            variants = [_FIRST_INCREMENTAL + 1 + place for place in places]
            self._add(variants, self._sent(attempts, replayed))

    def not_replayed(self, verdict: Verdict, reason: str, first: int = _FULL) -> None:
        """It is not known what the variants from ``first`` on would send, or it is nothing."""
        self._add(range(first, len(self._variants)), [self._outcome(verdict, reason)])

    def _sent(
        self, attempts: Sequence[Sent], replayed: Replayed, equals_recorded: bool | None = None
    ) -> list[int]:
        """The outcome of each attempt, or that nothing is sent."""
        partitions = replayed.session_partitions, replayed.added_partitions
        known = self._version, *partitions, equals_recorded
        outcomes = [
            self._outcome(Verdict.UNKNOWN, NAME_NOT_KNOWN, sent, known)
            if sent.request_bytes is None or sent.response_bytes is None
            else self._outcome(Verdict.BOUNDED, ORDER_NOT_KNOWN, sent, known)
            if sent.bytes_open
            else self._outcome(Verdict.REPLAYED, None, sent, known)
            for sent in attempts
        ]
        return outcomes or [self._outcome(Verdict.NOT_APPLICABLE, NOTHING_TO_FETCH)]

    def _outcome(
        self,
        verdict: Verdict,
        reason: str | None,
        sent: tuple[object, ...] = _NOTHING_SENT,
        known: tuple[object, ...] = (),
    ) -> int:
        known = known or (self._version, None, None, None)
        self._outcomes.append((*known, verdict, reason, *sent))
        return len(self._outcomes) - 1

    def _add(self, variants: Iterable[int], outcomes: Sequence[int]) -> None:
        """A row for each attempt under each of some variants."""
        fetch = len(self._fetches) - 1
        for attempt, outcome in enumerate(outcomes):
            self._rows += [(fetch, outcome, variant, attempt) for variant in variants]

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows since the last call; their FETCHes are in ``batch``."""
        at, outcome, variant, attempt = batch_of(self._rows, _PLACES).columns
        of_batch = pa.array(self._fetches, pa.int64()).take(at)
        columns = {"node_id": pa.repeat(self._node_id, len(self._rows)), "attempt": attempt}
        for name, of_input in _OF_INPUT.items():
            columns[name] = filled(batch, of_input).take(of_batch)
        columns |= _taken(_OF_STREAM, self._streams, at)
        what_if = [tuple(v.values()) for v in self._variants]
        columns |= _taken(WHAT_IF, what_if, variant)
        columns |= _taken(_OF_ROW, self._outcomes, outcome)
        self._fetches, self._streams, self._outcomes, self._rows = [], [], [], []
        arrays = [columns[field.name].cast(field.type) for field in OUTCOME_SCHEMA]
        return pa.RecordBatch.from_arrays(arrays, schema=OUTCOME_SCHEMA)


def _taken(
    names: Sequence[str], rows: Sequence[tuple[object, ...]], at: pa.Array
) -> dict[str, pa.Array]:
    """Columns of rows, each of the row that ``at`` has."""
    schema = pa.schema([OUTCOME_SCHEMA.field(name) for name in names])
    columns = batch_of(rows, schema).columns
    return {name: column.take(at) for name, column in zip(names, columns, strict=True)}

"""Rows of fetch_session_outcomes and fetch_session_evictions.

Of each row only what the replay adds is kept; what it has of the FETCH itself is taken from the
input's columns when the rows are emitted.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum

import pyarrow as pa

from ..outcomes import RECORDED, WHAT_IF, Variant, Verdict
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

OUTCOME_SCHEMA = FETCH_SESSION_OUTCOMES.without("recording")
EVICTION_SCHEMA = FETCH_SESSION_EVICTIONS.without("recording")

#: Columns taken from the input, by its names.
_OF_INPUT = {
    **{name: name for name in ("request_id", "client_id", "replica_id")},
    **{f"{event}_at": f"{event}_us" for event in ("received", "dequeued", "built")},
}
_OF_STREAM = ("session_key", "client_kind")
#: Columns that a row itself has, in this order.
_OF_ROW = (
    *("attempt", "api_version", "session_partitions", "added_partitions", "equals_recorded"),
    *("verdict", "reason"),
    *Sent._fields,
)
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
        self._fetches: list[int] = []
        self._streams: list[tuple[str, str]] = []
        #: Of each row its FETCH, as a place in the lists above, its variant, and ``_OF_ROW``.
        self._rows: list[tuple[object, ...]] = []

    def begin(self, row: RecordedFetch, session_key: str, kind: ClientKind) -> None:
        """The rows that follow are of this FETCH of the batch."""
        self._row = row
        self._fetches.append(row.number)
        self._streams.append((session_key, kind))

    def recorded(self, session_partitions: int | None, added_partitions: int | None = None) -> None:
        row, of_request = self._row, self._row.request_partitions is not None
        self._add(
            _RECORDED,
            Verdict.REPLAYED if row.is_logged_whole else Verdict.UNKNOWN,
            None if row.is_logged_whole else Unknown.NOT_IN_LOG,
            (
                row.is_full if of_request else None,
                *(row.request_partitions, row.response_partitions),
                row.record_bytes if row.error_code is not None else None,
                *(row.request_bytes, row.response_bytes, row.forgotten_partitions),
                *((row.session_id, row.session_epoch) if of_request else (None, None)),
                row.error_code if row.error_code in SESSION_ERRORS else 0,
            ),
            known=(session_partitions, added_partitions, None),
        )

    def replayed(self, replayed: Replayed, *, knows_slots: bool = True) -> None:
        """The FETCH as each variant sends it; ``knows_slots``: who holds them is known."""
        full, draft = ([] if sent is None else [sent] for sent in (replayed.full, replayed.draft))
        for variant, attempts in enumerate((full, draft, *replayed.incremental), _FULL):
            if replayed.unknown is not None and variant != _FULL:
                self._add(variant, Verdict.UNKNOWN, replayed.unknown)
                continue
            if variant > _FIRST_INCREMENTAL and not knows_slots:
                self._add(variant, Verdict.UNKNOWN, Unknown.GAP)
                continue
            for attempt, sent in enumerate(attempts):
                self._sent(variant, attempt, sent, replayed)
            if not attempts:
                self._add(variant, Verdict.NOT_APPLICABLE, NOTHING_TO_FETCH)

    def not_replayed(self, verdict: Verdict, reason: str) -> None:
        """It is not known what any variant would send, or it is nothing."""
        for variant in range(_FULL, len(self._variants)):
            self._add(variant, verdict, reason)

    def _sent(self, variant: int, attempt: int, sent: Sent, replayed: Replayed) -> None:
        counted = sent.request_bytes is not None and sent.response_bytes is not None
        verdict, reason = Verdict.REPLAYED, None
        if not counted:
            verdict, reason = Verdict.UNKNOWN, NAME_NOT_KNOWN
        equals = replayed.equals_recorded if variant == _FIRST_INCREMENTAL else None
        known = replayed.session_partitions, replayed.added_partitions, equals
        self._add(variant, verdict, reason, sent, attempt, known)

    def _add(
        self,
        variant: int,
        verdict: Verdict,
        reason: str | None,
        sent: tuple[object, ...] = _NOTHING_SENT,
        attempt: int = 0,
        known: tuple[object, ...] = (None, None, None),
    ) -> None:
        version = self._row.api_version
        version = version if variant == _RECORDED else counted_version(version)
        fetch = len(self._fetches) - 1
        self._rows.append((fetch, variant, attempt, version, *known, verdict, reason, *sent))

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows since the last call; their FETCHes are in ``batch``."""
        fetch, variant, *of_row = _transposed(self._rows, 2 + len(_OF_ROW))
        at = pa.array(fetch, pa.int64())
        of_batch = pa.array(self._fetches, pa.int64()).take(at)
        columns = {"node_id": pa.repeat(self._node_id, len(self._rows))}
        for name, of_input in _OF_INPUT.items():
            columns[name] = filled(batch, of_input).take(of_batch)
        columns |= _taken(_OF_STREAM, self._streams, at)
        what_if = [tuple(v.values()) for v in self._variants]
        columns |= _taken(WHAT_IF, what_if, pa.array(variant, pa.int64()))
        for name, values in zip(_OF_ROW, of_row, strict=True):
            columns[name] = pa.array(values, OUTCOME_SCHEMA.field(name).type)
        self._fetches, self._streams, self._rows = [], [], []
        return pa.RecordBatch.from_arrays(
            [columns[field.name].cast(field.type) for field in OUTCOME_SCHEMA],
            schema=OUTCOME_SCHEMA,
        )


def _transposed(rows: Sequence[tuple[object, ...]], width: int) -> Sequence[Sequence[object]]:
    return list(zip(*rows, strict=True)) or [()] * width


def _taken(
    names: Sequence[str], rows: Sequence[tuple[object, ...]], at: pa.Array
) -> dict[str, pa.Array]:
    """Columns of rows, each of the row that ``at`` has."""
    columns = zip(names, _transposed(rows, len(names)), strict=True)
    types = {name: OUTCOME_SCHEMA.field(name).type for name in names}
    return {name: pa.array(column, types[name]).take(at) for name, column in columns}

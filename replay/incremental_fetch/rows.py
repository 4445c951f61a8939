"""Rows of fetch_session_outcomes and fetch_session_evictions.

Of each row only what the replay adds is written down; what it says of the FETCH itself is taken
from the input's columns when the rows are handed out.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import pyarrow as pa

from kip_replay.replay.incremental_fetch.tables import FETCH_SESSION_OUTCOMES
from kip_replay.replay.outcomes import RECORDED, Rows, Variant, Verdict

from .cache import Occurrence
from .recorded import SESSION_ERRORS, WITHOUT_REQUEST, RecordedFetch
from .sent import Sent
from .sizes import counted_version
from .stream import Unknown

RULE = "incremental_fetch"
#: Why the draft's bytes can't be counted.
NAME_NOT_KNOWN = "the name of a topic is not in the log"

OUTCOME_SCHEMA = FETCH_SESSION_OUTCOMES.without("recording")

_OF_VARIANT = ("rule", "variant", "parameter", "parameter_value")
#: Columns taken from the input, by its names.
_OF_INPUT = {
    "request_id": "request_id",
    "client_id": "client_id",
    "replica_id": "replica_id",
    "received_at": "received_us",
    "dequeued_at": "dequeued_us",
    "built_at": "built_us",
}
_OF_STREAM = ("session_key", "client_kind")
#: What a row itself says, in this order.
_OF_ROW = (
    *("attempt", "api_version", "session_partitions", "added_partitions", "equals_recorded"),
    *("verdict", "reason"),
    *Sent._fields,
)
_NOTHING_SENT = (None,) * len(Sent._fields)

RECORDED_VARIANT = Variant(RECORDED)


class ClientKind(StrEnum):
    """Who fetches."""

    FOLLOWER = "follower"
    CONSUMER = "consumer"
    CONSUMER_WITHOUT_SESSIONS = "consumer_without_sessions"


class OutcomeRows:
    """Rows of fetch_session_outcomes, of one batch of FETCHes at a time."""

    def __init__(self, node_id: int, variants: Sequence[Variant]) -> None:
        self._node_id = node_id
        self._variants = variants
        self._number_of = {variant: number for number, variant in enumerate(variants)}
        self._fetches: list[int] = []
        self._streams: list[tuple[str, str]] = []
        self._of: list[tuple[int, int]] = []
        self._rows: list[tuple[object, ...]] = []

    def of(self, row: RecordedFetch, session_key: str, kind: ClientKind) -> OutcomeWriter:
        """Who writes the rows of a FETCH."""
        self._fetches.append(row.number)
        self._streams.append((session_key, kind))
        return OutcomeWriter(self, row)

    def add(self, variant: Variant, *values: object) -> None:
        """A row of the FETCH that ``of`` was asked for last: ``_OF_ROW`` in order."""
        self._of.append((len(self._fetches) - 1, self._number_of[variant]))
        self._rows.append(values)

    def take(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows since the last call; their FETCHes are in ``batch``."""
        fetch, variant = _transposed(self._of, 2)
        of_batch = pa.array(self._fetches, pa.int64()).take(pa.array(fetch, pa.int64()))
        columns: dict[str, pa.Array] = {
            "node_id": pa.repeat(self._node_id, len(self._rows)),
        }
        for name, of_input in _OF_INPUT.items():
            column = batch.column(of_input)
            if of_input in WITHOUT_REQUEST:
                column = column.fill_null(WITHOUT_REQUEST[of_input])
            columns[name] = column.take(of_batch)
        columns |= _taken(_OF_STREAM, self._streams, fetch)
        what_if = [tuple(v.what_if(RULE)[name] for name in _OF_VARIANT) for v in self._variants]
        columns |= _taken(_OF_VARIANT, what_if, variant)
        columns |= dict(zip(_OF_ROW, _transposed(self._rows, len(_OF_ROW)), strict=True))
        self._fetches, self._streams, self._of, self._rows = [], [], [], []
        return pa.RecordBatch.from_arrays(
            [_typed(columns[field.name], field.type) for field in OUTCOME_SCHEMA],
            schema=OUTCOME_SCHEMA,
        )


def _transposed(rows: Sequence[tuple[object, ...]], width: int) -> Sequence[Sequence[object]]:
    return list(zip(*rows, strict=True)) or [()] * width


def _taken(
    names: Sequence[str], rows: Sequence[tuple[str, ...]], of: Sequence[object]
) -> dict[str, pa.Array]:
    """Columns of texts, of the row that each element of ``of`` says."""
    at = pa.array(of, pa.int64())
    columns = _transposed(rows, len(names))
    return {
        name: pa.array(column, pa.string()).take(at)
        for name, column in zip(names, columns, strict=True)
    }


def _typed(column: pa.Array | Sequence[object], of_type: pa.DataType) -> pa.Array:
    return column.cast(of_type) if isinstance(column, pa.Array) else pa.array(column, of_type)


class OutcomeWriter:
    """Writes the rows of one recorded FETCH."""

    def __init__(self, rows: OutcomeRows, row: RecordedFetch) -> None:
        self._add = rows.add
        self._row = row
        self._version = counted_version(row.api_version)

    def recorded(self, session_partitions: int | None, added_partitions: int | None = None) -> None:
        """The FETCH as logged."""
        row = self._row
        whole, has_request = row.is_logged_whole, row.request_partitions is not None
        self._add(
            RECORDED_VARIANT,
            0,
            row.api_version,
            session_partitions,
            added_partitions,
            None,
            Verdict.REPLAYED if whole else Verdict.UNKNOWN,
            None if whole else Unknown.NOT_IN_LOG,
            row.session_id if has_request else None,
            row.session_epoch if has_request else None,
            row.is_full if has_request else None,
            row.request_partitions,
            row.forgotten_partitions,
            row.response_partitions,
            row.record_bytes if row.error_code is not None else None,
            row.request_bytes,
            row.response_bytes,
            row.error_code if row.error_code in SESSION_ERRORS else 0,
        )

    def derived(
        self,
        variant: Variant,
        attempts: Sequence[Sent],
        session_partitions: int,
        added_partitions: int | None,
        equals_recorded: bool | None = None,
    ) -> None:
        """The FETCH as a variant sends it."""
        for attempt, sent in enumerate(attempts):
            counted = sent.request_bytes is not None and sent.response_bytes is not None
            self._add(
                variant,
                attempt,
                self._version,
                session_partitions,
                added_partitions,
                equals_recorded,
                Verdict.REPLAYED if counted else Verdict.UNKNOWN,
                None if counted else NAME_NOT_KNOWN,
                *sent,
            )

    def untold(self, variant: Variant, verdict: Verdict, reason: str) -> None:
        """What a variant would send is not known, or nothing."""
        self._add(variant, 0, self._version, None, None, None, verdict, reason, *_NOTHING_SENT)


def write_event(
    rows: Rows, node_id: int, variant: Variant, at: int, request_id: str, occurrence: Occurrence
) -> None:
    """Write what happened to a session: ``at`` microseconds, because of a FETCH."""
    rows.add(
        **variant.what_if(RULE),
        node_id=node_id,
        session_key=occurrence.session_key,
        event=occurrence.event.value,
        request_id=request_id,
        event_at=at,
        shard=occurrence.shard,
        partitions=occurrence.partitions,
        privileged=occurrence.privileged,
        reason=occurrence.reason.value,
    )

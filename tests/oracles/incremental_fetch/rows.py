"""Rows of fetch_session_outcomes and fetch_session_evictions."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from kip_replay.replay.incremental_fetch.cache import Occurrence
from kip_replay.replay.outcomes import RECORDED, Rows, Variant, Verdict

from .recorded import SESSION_ERRORS, RecordedFetch
from .sizes import counted_version
from .step import Sent
from .stream import Unknown

RULE = "incremental_fetch"
#: Why the draft's bytes can't be counted.
NAME_NOT_KNOWN = "the name of a topic is not in the log"


class ClientKind(StrEnum):
    """Who fetches."""

    FOLLOWER = "follower"
    CONSUMER = "consumer"
    CONSUMER_WITHOUT_SESSIONS = "consumer_without_sessions"


class OutcomeWriter:
    """Writes the rows of one recorded FETCH."""

    def __init__(
        self, rows: Rows, node_id: int, row: RecordedFetch, session_key: str, kind: ClientKind
    ) -> None:
        self._rows = rows
        self._row = row
        self._common = {
            "request_id": row.request_id,
            "node_id": node_id,
            "session_key": session_key,
            "client_id": row.client_id,
            "client_kind": kind.value,
            "replica_id": row.replica_id,
            "received_at": row.received_us,
            "dequeued_at": row.dequeued_us,
            "built_at": row.built_us,
        }

    def recorded(self, session_partitions: int | None, added_partitions: int | None = None) -> None:
        """The FETCH as logged."""
        row = self._row
        whole, has_request = row.is_logged_whole, row.request_partitions is not None
        self._rows.add(
            **self._common,
            **Variant(RECORDED).what_if(RULE),
            attempt=0,
            api_version=row.api_version,
            session_id=row.session_id if has_request else None,
            session_epoch=row.session_epoch if has_request else None,
            is_full=row.is_full if has_request else None,
            session_partitions=session_partitions,
            added_partitions=added_partitions,
            request_partitions=_length(row.request_partitions),
            response_partitions=_length(row.response_partitions),
            forgotten_partitions=_length(row.forgotten_partitions),
            record_bytes=row.record_bytes if row.error_code is not None else None,
            request_bytes=row.request_bytes,
            response_bytes=row.response_bytes,
            session_error=row.error_code if row.error_code in SESSION_ERRORS else 0,
            verdict=Verdict.REPLAYED if whole else Verdict.UNKNOWN,
            reason=None if whole else Unknown.NOT_IN_LOG,
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
            self._rows.add(
                **self._common,
                **variant.what_if(RULE),
                attempt=attempt,
                api_version=counted_version(self._row.api_version),
                session_partitions=session_partitions,
                added_partitions=added_partitions,
                equals_recorded=equals_recorded,
                verdict=Verdict.REPLAYED if counted else Verdict.UNKNOWN,
                reason=None if counted else NAME_NOT_KNOWN,
                **sent._asdict(),
            )

    def untold(self, variant: Variant, verdict: Verdict, reason: str) -> None:
        """What a variant would send is not known, or nothing."""
        self._rows.add(
            **self._common,
            **variant.what_if(RULE),
            attempt=0,
            api_version=counted_version(self._row.api_version),
            verdict=verdict,
            reason=reason,
        )


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
        at=at,
        shard=occurrence.shard,
        partitions=occurrence.partitions,
        privileged=occurrence.privileged,
        reason=occurrence.reason.value,
    )


def _length(partitions: Sequence[object] | None) -> int | None:
    return None if partitions is None else len(partitions)

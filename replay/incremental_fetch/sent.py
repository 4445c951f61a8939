"""A FETCH as some variant sends it, and its response: counts and bytes."""

from __future__ import annotations

from typing import NamedTuple

from .lists import Lists
from .recorded import RecordedFetch
from .session import FINAL_EPOCH, NO_SESSION
from .sizes import sizes_of


class Sent(NamedTuple):
    """A FETCH and its response. Bytes are None where they can't be counted."""

    session_id: int | None
    session_epoch: int | None
    is_full: bool
    request_partitions: int
    forgotten_partitions: int
    response_partitions: int
    record_bytes: int
    request_bytes: int | None
    response_bytes: int | None
    session_error: int = 0


def sent_as_listed(row: RecordedFetch, lists: Lists) -> Sent:
    """A FETCH without a session: every protocol sends what is recorded."""
    sizes, requested, returned = sizes_of(row), lists.requested, lists.returned
    request_partitions, response_partitions = (
        row.request_partitions or 0,
        row.response_partitions or 0,
    )
    return Sent(
        session_id=NO_SESSION,
        session_epoch=FINAL_EPOCH,
        is_full=True,
        request_partitions=request_partitions,
        forgotten_partitions=0,
        response_partitions=response_partitions,
        record_bytes=row.record_bytes,
        request_bytes=sizes.request(
            requested.totals[row.number],
            request_partitions,
            requested.tagged(requested.rows[row.number]),
        ),
        response_bytes=sizes.response(
            returned.totals[row.number], response_partitions, returned.more_bytes_sum[row.number]
        ),
    )

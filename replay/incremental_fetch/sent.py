"""A FETCH as some variant sends it, and its answer: counts and bytes."""

from __future__ import annotations

from typing import NamedTuple

from kip_replay.replay.kafka.messages.incremental_fetch_draft import DRAFT_UUID_BYTES

from .lists import Lists
from .recorded import FINAL_EPOCH, NO_SESSION, RecordedFetch
from .sizes import sizes_of


class Sent(NamedTuple):
    """A FETCH as a variant sends it, and its answer. Bytes are None where they can't be counted."""

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
    sizes, number = sizes_of(row), row.number
    asked, told = row.request_partitions or 0, row.response_partitions or 0
    tagged = lists.asked.tagged
    return Sent(
        session_id=NO_SESSION,
        session_epoch=FINAL_EPOCH,
        is_full=True,
        request_partitions=asked,
        forgotten_partitions=0,
        response_partitions=told,
        record_bytes=row.record_bytes,
        request_bytes=sizes.request(
            lists.asked.totals(number), asked, (0, 0) if tagged is None else tagged[number]
        ),
        response_bytes=sizes.response(
            lists.told.totals(number), told, lists.told.more_bytes_sum[number]
        ),
    )


def with_draft_uuid(full: Sent) -> Sent:
    """A full FETCH under the draft: its response has a uuid, if only to start a session with."""
    size = None if full.response_bytes is None else full.response_bytes + DRAFT_UUID_BYTES
    return full._replace(session_id=None, session_epoch=None, response_bytes=size)

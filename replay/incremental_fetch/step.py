"""One FETCH under every protocol: what each would list, both ways, and the bytes of that."""

from collections.abc import Sequence
from typing import NamedTuple

from . import released
from .cache import FetchSessionCache, Reason
from .draft import Draft, with_draft_uuid
from .lists import Lists
from .recorded import RecordedFetch
from .released import Events, Fetch
from .session import NO_SESSION
from .sizes import Sent, sent_as_listed
from .streams import PendingSession, Stream, Unknown


class Replayed(NamedTuple):
    """A FETCH under every protocol. ``full`` and ``draft`` are None where nothing is sent.

    ``incremental`` has the attempts for each cache: none where nothing is sent, two where the first
    is refused with a session error. ``added_partitions``: those that the client's FETCH before did
    not list. ``unknown``: why all but ``full`` are not known.
    """

    full: Sent | None
    draft: Sent | None
    incremental: Sequence[Sequence[Sent]]
    session_partitions: int
    added_partitions: int | None = 0
    equals_recorded: bool | None = None
    pending: PendingSession | None = None
    events: Events | tuple[()] = ()
    unknown: Unknown | None = None


def close_session(
    stream: Stream, row: RecordedFetch, lists: Lists, caches: Sequence[FetchSessionCache]
) -> Replayed:
    """A client's last FETCH, (id, -1): it closes its session, and lists what it lists."""
    sent = sent_as_listed(row, lists)
    no_session = NO_SESSION if stream.unknown is None else None
    ids = [
        no_session if held.session is None else stream.sessions[held.session].recorded_id
        for held in stream.held
    ]
    of_caches = [[sent._replace(session_id=session_id)] for session_id in ids]
    events = _close_all(stream, caches, Reason.CLIENT)
    return Replayed(sent, with_draft_uuid(sent), of_caches, sent.request_partitions, events=events)


def replay_fetch(
    stream: Stream,
    row: RecordedFetch,
    lists: Lists,
    caches: Sequence[FetchSessionCache],
    draft: Draft,
) -> Replayed:
    """Any other FETCH.

    The first of ``caches`` creates every session that is requested: the draft takes over its
    orders, and it is compared with the recorded session.
    """
    goes_on, is_lost = stream.goes_on(row), stream.goes_on(row, after=Unknown.LOST)
    unknown = stream.unknown if goes_on or is_lost else None
    misses = stream.unknown is Unknown.GAP
    events = _start_anew(stream, row, caches) if row.is_full and stream.starts_anew(row) else []
    stream.counts_epochs &= not goes_on
    held = stream.followed.slots
    if held.end > 2 * held.here + 64:  # most are gone
        stream.renumber()

    fetch = Fetch(stream, row, lists)
    full = released.full_fetch(fetch)
    incremental = {
        number: released.incremental_fetch(fetch, session)
        for number, session in stream.sessions.items()
    }
    number = stream.held[0].session
    session = None if number is None else stream.sessions[number]
    current = None if number is None else incremental[number]
    of_draft = draft.fetch(fetch, full, session, current)
    equals = released.equals_recorded(fetch, session, current)

    has_records = fetch.returned.has_records
    for number, (_, _, _, returned, slots) in incremental.items():
        stream.sessions[number].rotate(slots[has_records[returned]])
    returned, slots = fetch.response.at, fetch.response.slots
    if current is not None:
        returned, slots = current.returned, current.returned_slots
    fetch.events += events
    of_caches = released.attempts(fetch, caches, full, incremental)
    stream.followed.order.respond(slots, has_records[returned], row.is_follower)
    stream.unknown, stream.is_broken = None, False
    stream.is_older &= not row.is_full
    stream.drop_unheld_sessions()
    return Replayed(
        full,
        of_draft,
        of_caches,
        len(stream.followed),
        None if misses else len(fetch.changes.added) + len(fetch.changes.replaced),
        equals,
        released.pending_session(fetch),
        fetch.events,
        unknown,
    )


def _start_anew(stream: Stream, row: RecordedFetch, caches: Sequence[FetchSessionCache]) -> Events:
    """The client gives up its session; the broker closes it unless the client has forgotten it."""
    events: Events = []
    if row.session_id != NO_SESSION or stream.is_broken:
        events = _close_all(stream, caches, Reason.NEW_SESSION)
    for held in stream.held:
        held.drop()
    stream.sessions.clear()
    stream.draft_has_uuid, stream.counts_epochs = False, True
    return events


def _close_all(stream: Stream, caches: Sequence[FetchSessionCache], reason: Reason) -> Events:
    return [
        event
        for number, (cache, held) in enumerate(zip(caches, stream.held, strict=True))
        for event in released.close(number, cache, held, reason)
    ]

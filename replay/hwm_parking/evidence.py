"""What the answers of one leader epoch say that no rule explains.

When the leader appended, how long each replica takes from an answer to its next FETCH, when it was
away, how fast the leader's Raft thread answers, and how large the envelopes are. Kernels: they
take recorded FETCHes in order of built_us and note it in a ``State``.
"""

from __future__ import annotations

from .compiled import kernel
from .metadata_log import ABSENCE_US, WAKE_MEMBERS_MIN, WAKE_SPREAD_US
from .records import Rows
from .samples import add_sample, bisect_left, forget_samples, forget_values, nearest
from .state import NEVER, NONE, PIECES_KEPT, State


@kernel
def learn(state: State, rows: Rows, row: int) -> None:
    """Learn from one answered FETCH and from how it follows the replica's previous one."""
    epoch = state.epoch[0]
    number = rows.of[row].replica
    replica = state.seen[number]
    built = rows.of[row].built_us
    carries = rows.of[row].record_bytes > 0
    if replica.is_seen:
        _follow(state, number, rows, row)
    else:
        _first_seen(state, number, rows, row)
    replica.last_built_us = built
    replica.last_correlation_id = rows.of[row].correlation_id
    replica.last_fetch_offset = rows.of[row].fetch_offset
    replica.last_last_fetched_epoch = rows.of[row].last_fetched_epoch
    replica.last_record_bytes = rows.of[row].record_bytes
    replica.heard_until_us = built
    if rows.of[row].has_envelope:
        sizes = rows.of[row].request_envelope, rows.of[row].response_envelope
        add_sample(state.envelopes, number, built, sizes[0], sizes[1])
    if carries and rows.of[row].last_fetched_epoch < epoch.leader_epoch:
        # A replica that continues the previous epoch asks at most for the first record of this
        # one, so the largest such offset is where the epoch starts.
        epoch.epoch_start_offset = max(epoch.epoch_start_offset, rows.of[row].fetch_offset)
    if carries:
        _woken(state, rows.of[row].fetch_offset, rows.of[row].dequeued_us, built)
    _measure_service(state, built)


@kernel
def learn_from_refusal(state: State, rows: Rows, row: int) -> bool:
    """Take a FETCH that was answered "not the leader"; was it parked till then?

    A FETCH after the leader stopped leading still says how far the replica had got.
    """
    epoch = state.epoch[0]
    if epoch.seen == 0:
        return False
    dequeued = rows.of[row].dequeued_us
    was_parked = rows.of[row].built_us - dequeued > WAKE_SPREAD_US
    if epoch.resigned_us == NEVER:
        epoch.resigned_us = rows.of[row].built_us if was_parked else dequeued
    number = rows.of[row].replica
    if number != NONE:
        replica = state.seen[number]
        if replica.is_seen and replica.heard_until_us <= replica.last_built_us:
            _follow(state, number, rows, row)
            replica.heard_until_us = dequeued
    return was_parked and dequeued < epoch.resigned_us  # type: ignore[no-any-return]


@kernel
def _first_seen(state: State, number: int, rows: Rows, row: int) -> None:
    epoch = state.epoch[0]
    replica = state.seen[number]
    replica.is_seen = 1
    epoch.seen += 1
    replica.first_dequeued_us = rows.of[row].dequeued_us
    replica.first_fetch_offset = rows.of[row].fetch_offset
    replica.first_last_fetched_epoch = rows.of[row].last_fetched_epoch
    replica.first_high_watermark = rows.of[row].high_watermark
    replica.first_max_wait_us = rows.of[row].max_wait_us
    if rows.of[row].is_progress:
        state.voters[epoch.voters] = number
        epoch.voters += 1


@kernel
def _follow(state: State, number: int, rows: Rows, row: int) -> None:
    """How a FETCH follows the replica's previous one: a gap, an absence, records, a snapshot."""
    epoch = state.epoch[0]
    last = state.seen[number]
    offset = rows.of[row].fetch_offset
    gap = rows.of[row].dequeued_us - last.last_built_us
    restarted = rows.of[row].correlation_id < last.last_correlation_id
    if offset < last.last_fetch_offset and not restarted:
        _truncated(state, last.last_last_fetched_epoch, offset)
    if gap > ABSENCE_US or restarted:
        absences = state.absences
        place = epoch.absences
        absences[place].replica = number
        absences[place].since_us = last.last_built_us
        absences[place].until_us = rows.of[row].dequeued_us
        absences[place].fetch_offset = offset
        absences[place].is_restart = 1 if restarted else 0
        absences[place].last_fetched_epoch = rows.of[row].last_fetched_epoch
        epoch.absences += 1
        last.absences += 1
    elif gap >= 0:
        add_sample(state.gaps, number, last.last_built_us, gap, 0)
    if offset > last.last_fetch_offset and not restarted:
        if last.last_record_bytes > 0:
            _carried(state, number, offset)
        else:
            # It went on without records: it was sent to a snapshot (FETCH_SNAPSHOT).
            epoch.log_start_offset = max(epoch.log_start_offset, last.last_fetch_offset + 1)
            epoch.snapshot = offset


@kernel
def _truncated(state: State, of_epoch: int, offset: int) -> None:
    epoch, ends = state.epoch[0], state.epoch_ends
    for place in range(epoch.epoch_ends):
        if ends.epoch[place] == of_epoch:
            ends.end[place] = offset
            return
    ends.epoch[epoch.epoch_ends] = of_epoch
    ends.end[epoch.epoch_ends] = offset
    epoch.epoch_ends += 1


# --- what an answer carried ----------------------------------------------------------------------


@kernel
def _carried(state: State, number: int, end: int) -> None:
    """A replica's last answer carried the records from its FETCH's offset to ``end``."""
    last = state.seen[number]
    start, built = last.last_fetch_offset, last.last_built_us
    if end > state.epoch[0].appended_offset:
        _reach(state, end, built)
    _mark(state, start, built)
    _mark(state, end, built)
    _piece(state, start, end, last.last_record_bytes)


@kernel
def _reach(state: State, end: int, at: int) -> None:
    """An answer built at a time had the records below ``end``; the first one counts."""
    epoch, reached = state.epoch[0], state.reached
    place = bisect_left(reached.end, end, 0, epoch.reached)
    if place < epoch.reached and reached.end[place] == end:
        reached.at[place] = min(reached.at[place], at)
        return
    for other in range(epoch.reached, place, -1):
        reached.end[other] = reached.end[other - 1]
        reached.at[other] = reached.at[other - 1]
    reached.end[place] = end
    reached.at[place] = at
    epoch.reached += 1


@kernel
def _mark(state: State, offset: int, seen: int) -> int:
    """Note that an offset was seen at a time, as a place in the marks."""
    epoch, marks = state.epoch[0], state.marks
    place = bisect_left(marks.offset, offset, 0, epoch.marks)
    if place < epoch.marks and marks.offset[place] == offset:
        marks.seen_us[place] = max(marks.seen_us[place], seen)
        return place
    for other in range(epoch.marks, place, -1):
        _move_mark(state, other - 1, other)
    marks.offset[place] = offset
    marks.seen_us[place] = seen
    marks.bytes_below[place] = 0
    marks.is_placed[place] = 0
    epoch.marks += 1
    return place


@kernel
def _move_mark(state: State, source: int, target: int) -> None:
    marks = state.marks
    marks.offset[target] = marks.offset[source]
    marks.seen_us[target] = marks.seen_us[source]
    marks.bytes_below[target] = marks.bytes_below[source]
    marks.is_placed[target] = marks.is_placed[source]


@kernel
def _piece(state: State, start: int, end: int, size: int) -> None:
    """Place a piece of the log beside those placed before, and all that follows from that."""
    epoch, marks, pieces = state.epoch[0], state.marks, state.pieces
    pieces.start[epoch.pieces] = start
    pieces.end[epoch.pieces] = end
    pieces.size[epoch.pieces] = size
    epoch.pieces += 1
    placed = 0
    for place in range(epoch.marks):
        placed += marks.is_placed[place]
        if placed > 0:
            break
    if placed == 0:
        marks.is_placed[_mark(state, start, NEVER)] = 1
    before = epoch.pieces + 1
    while epoch.pieces < before:
        before = epoch.pieces
        left = 0
        for piece in range(before):
            if not _is_placed(state, pieces.start[piece], pieces.end[piece], pieces.size[piece]):
                pieces.start[left] = pieces.start[piece]
                pieces.end[left] = pieces.end[piece]
                pieces.size[left] = pieces.size[piece]
                left += 1
        # The oldest is given up where too many are open.
        over = max(0, left - PIECES_KEPT)
        for piece in range(left - over):
            pieces.start[piece] = pieces.start[piece + over]
            pieces.end[piece] = pieces.end[piece + over]
            pieces.size[piece] = pieces.size[piece + over]
        epoch.pieces = left - over


@kernel
def _is_placed(state: State, start: int, end: int, size: int) -> bool:
    """Where one end of a piece has its place, so has the other."""
    marks = state.marks
    first, last = _placed(state, start), _placed(state, end)
    if first == NONE and last == NONE:
        return False
    if first == NONE:
        below = marks.bytes_below[last] - size
        first = _mark(state, start, NEVER)
        marks.bytes_below[first] = below
        marks.is_placed[first] = 1
    elif last == NONE:
        below = marks.bytes_below[first] + size
        last = _mark(state, end, NEVER)
        marks.bytes_below[last] = below
        marks.is_placed[last] = 1
    return True


@kernel
def _placed(state: State, offset: int) -> int:
    """The mark of an offset, if the bytes below it are known; else NONE."""
    count, marks = state.epoch[0].marks, state.marks
    place = bisect_left(marks.offset, offset, 0, count)
    if place < count and marks.offset[place] == offset and marks.is_placed[place]:
        return place
    return NONE


@kernel
def record_bytes(state: State, start: int, end: int) -> int:
    """Bytes of the records from one offset to another; NONE if no answer tells."""
    if end <= start:
        return 0
    first, last = _placed(state, start), _placed(state, end)
    if first == NONE or last == NONE:
        return NONE
    return state.marks.bytes_below[last] - state.marks.bytes_below[first]  # type: ignore[no-any-return]


# --- how long an answer takes --------------------------------------------------------------------


@kernel
def _woken(state: State, offset: int, dequeued: int, built: int) -> None:
    """An answer with records: is it one of those that an append woke together?"""
    epoch, wakes = state.epoch[0], state.wakes
    place = 0
    while place < epoch.wakes and wakes.offset[place] != offset:
        place += 1
    if place == epoch.wakes:
        wakes.offset[place] = offset
        wakes.first_us[place] = built
        wakes.last_us[place] = built
        wakes.together[place] = 0
        epoch.wakes += 1
    first = wakes.first_us[place]
    if dequeued <= first and built <= first + WAKE_SPREAD_US:
        wakes.last_us[place] = built
        wakes.together[place] += 1


@kernel
def _measure_service(state: State, now: int) -> None:
    """Wakes that are over tell the time for one answer, if enough replicas were woken."""
    epoch, wakes = state.epoch[0], state.wakes
    over = 0
    while over < epoch.wakes and now - wakes.first_us[over] > 2 * WAKE_SPREAD_US:
        together = wakes.together[over]
        # Over few gaps one stall looks like a slow thread.
        if together >= max(2, min(WAKE_MEMBERS_MIN, epoch.seen)):
            spread = wakes.last_us[over] - wakes.first_us[over]
            add_sample(state.service, 0, wakes.first_us[over], spread // (together - 1), 0)
        over += 1
    if over > 0:
        for place in range(over, epoch.wakes):
            wakes.offset[place - over] = wakes.offset[place]
            wakes.first_us[place - over] = wakes.first_us[place]
            wakes.last_us[place - over] = wakes.last_us[place]
            wakes.together[place - over] = wakes.together[place]
        epoch.wakes -= over


@kernel
def service_us(state: State, at: int) -> int:
    """How long the Raft thread takes for one answer around a time."""
    place = nearest(state.service, 0, at)
    return 0 if place == NONE else state.service.value[0][place]


# --- appends, absences, and the end --------------------------------------------------------------


@kernel
def take_appends(state: State, until: int) -> int:
    """Move appends up to a time to the end of the leader's timeline; how many they are.

    An end that was reached no earlier than a later one is no append of its own: somebody caught up
    in pieces.
    """
    epoch, reached, timeline = state.epoch[0], state.reached, state.log_end_offset
    count, taken, earliest, appended = epoch.reached, 0, 0, epoch.appended_offset
    begin = epoch.log_end_offsets
    for place in range(count - 1, -1, -1):
        at = reached.at[place]
        if place == count - 1 or at < earliest:
            earliest = at
            if at <= until:
                if taken == 0:
                    appended = reached.end[place]
                timeline.at[begin + taken] = at
                timeline.value[begin + taken] = reached.end[place]
                taken += 1
    left = 0
    for place in range(count):
        if reached.at[place] > until and (taken == 0 or reached.end[place] > appended):
            reached.end[left] = reached.end[place]
            reached.at[left] = reached.at[place]
            left += 1
    epoch.reached, epoch.appended_offset = left, appended
    for place in range(taken // 2):
        one, other = begin + place, begin + taken - 1 - place
        at, end = timeline.at[one], timeline.value[one]
        timeline.at[one], timeline.value[one] = timeline.at[other], timeline.value[other]
        timeline.at[other], timeline.value[other] = at, end
    epoch.log_end_offsets += taken
    return taken


@kernel
def is_away(state: State, number: int, at: int) -> bool:
    """The replica is frozen, restarting or cut off at a time."""
    replica, absences = state.seen[number], state.absences
    if at - replica.heard_until_us > ABSENCE_US:
        return True
    if replica.absences > 0:
        for place in range(state.epoch[0].absences):
            absence = absences[place]
            is_long = absence.until_us - absence.since_us > ABSENCE_US
            is_within = absence.since_us < at and at < absence.until_us
            if absence.replica == number and is_long and is_within:
                return True
    return False


@kernel
def close_evidence(state: State) -> None:
    """No FETCH follows: the last records an answer carried end somewhere behind its offset.

    At the next end that is known, else, for all the log says, after one record.
    """
    epoch, reached = state.epoch[0], state.reached
    for number in range(len(state.seen)):
        last = state.seen[number]
        offset = last.last_fetch_offset
        if not last.is_seen or last.last_record_bytes <= 0 or epoch.appended_offset > offset:
            continue
        place = bisect_left(reached.end, offset + 1, 0, epoch.reached)
        if place < epoch.reached:
            reached.at[place] = min(reached.at[place], last.last_built_us)
        else:
            _carried(state, number, offset + 1)


@kernel
def forget_evidence(state: State, before: int) -> None:
    """Drop what no replay that has passed ``before`` will ask for again."""
    epoch, absences = state.epoch[0], state.absences
    forget_samples(state.service, 0, before)
    for number in range(len(state.seen)):
        state.seen[number].absences = 0
        forget_samples(state.gaps, number, before)
        forget_samples(state.envelopes, number, before)
    left = 0
    for place in range(epoch.absences):
        if absences[place].until_us >= before:
            absences[left].replica = absences[place].replica
            absences[left].since_us = absences[place].since_us
            absences[left].until_us = absences[place].until_us
            absences[left].fetch_offset = absences[place].fetch_offset
            absences[left].is_restart = absences[place].is_restart
            absences[left].last_fetched_epoch = absences[place].last_fetched_epoch
            state.seen[absences[left].replica].absences += 1
            left += 1
    epoch.absences = left
    _forget_marks(state, before)
    epoch.log_end_offsets = forget_values(state.log_end_offset, epoch.log_end_offsets, before)
    epoch.high_watermarks = forget_values(state.high_watermark, epoch.high_watermarks, before)


@kernel
def _forget_marks(state: State, before: int) -> None:
    """Drop offsets that the log ended at before, where no replica stands, some maybe for long."""
    epoch, marks = state.epoch[0], state.marks
    left, following = 0, NONE
    for place in range(epoch.marks):
        # The log ended at an offset until the next one was seen.
        following = max(following, place + 1)
        while following < epoch.marks and marks.seen_us[following] == NEVER:
            following += 1
        over = (
            marks.seen_us[place] != NEVER
            and following < epoch.marks
            and marks.seen_us[following] < before
            and not _is_stood_at(state, marks.offset[place])
        )
        if not over:
            if left < place:
                _move_mark(state, place, left)
            left += 1
    epoch.marks = left


@kernel
def _is_stood_at(state: State, offset: int) -> bool:
    for number in range(len(state.seen)):
        if state.seen[number].is_seen and state.seen[number].last_fetch_offset == offset:
            return True
        for run in range(1, len(state.replicas)):
            replica = state.replicas[run][number]
            if replica.is_joined and replica.fetch_offset == offset:
                return True
    return False

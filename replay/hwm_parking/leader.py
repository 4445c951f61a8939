"""The rule: who is answered, who is parked, who is woken, why and with which high watermark.

It follows ``KafkaRaftClient.tryCompleteFetchRequest`` and ``LeaderState.maybeUpdateHighWatermark``
and knows no clock. Kernels: a FETCH is the ``asked_`` fields of a replica; what a step of the
leader answers is in ``state.due[run]``, the replicas in the order in which the Raft thread builds
their answers, and in the ``answer_`` fields of each.
"""

from __future__ import annotations

from .compiled import kernel
from .completion import DIVERGING, ERROR, HIGH_WATERMARK, RECORDS, SNAPSHOT, TIMEOUT
from .metadata_log import UNKNOWN_OFFSET
from .state import NONE, State


@kernel
def fetch(state: State, run: int, number: int) -> None:
    """Take a FETCH: answer it or park it (``tryCompleteFetchRequest``, steps 3 to 5)."""
    leader, replica = state.leaders[run], state.replicas[run][number]
    leader.due = 0
    refusal = _refusal(state, run, number)
    if refusal != NONE:
        _answer(state, run, number, refusal)
        return
    # The high watermark moves before this answer is built, so the answer shows the move.
    voter_progress(state, run, number, replica.asked_offset)
    if replica.asked_offset < leader.log_end_offset:
        _answer(state, run, number, RECORDS)
    elif leader.hwm_aware and replica.asked_high_watermark < leader.high_watermark:
        _answer(state, run, number, HIGH_WATERMARK)
    elif replica.asked_max_wait_us == 0:
        _answer(state, run, number, TIMEOUT)
    else:
        # On expiry the answer built now is sent, with today's high watermark.
        replica.is_parked = 1
        replica.answer_high_watermark = leader.high_watermark
        replica.answer_log_end_offset = leader.log_end_offset
        state.parked[run][leader.parked] = number
        leader.parked += 1


@kernel
def voter_progress(state: State, run: int, number: int, offset: int) -> None:
    """A FETCH at an offset says that its sender has everything below; voters' count."""
    voters = state.voters
    for place in range(state.epoch[0].voters):
        if voters[place] == number:
            state.replicas[run][number].progress = offset
            _update_high_watermark(state, run)
            return


@kernel
def append(state: State, run: int, log_end_offset: int) -> None:
    """Append up to ``log_end_offset``: every FETCH that waits at or below it completes."""
    leader = state.leaders[run]
    leader.due = 0
    leader.log_end_offset = max(leader.log_end_offset, log_end_offset)
    # Only a leader that is the single voter commits alone; it does so before it answers.
    _update_high_watermark(state, run)
    _wake(state, run, RECORDS, leader.log_end_offset)


@kernel
def expire(state: State, run: int, number: int, token: int) -> None:
    """A FETCH has been parked for its maxWaitMs: what was built at park time is sent."""
    leader, replica, parked = state.leaders[run], state.replicas[run][number], state.parked[run]
    leader.due = 0
    if not replica.is_parked or replica.token != token:
        return
    left = 0
    for place in range(leader.parked):
        if parked[place] != number:
            parked[left] = parked[place]
            left += 1
    leader.parked = left
    replica.is_parked = 0
    replica.was_parked = 1
    replica.completion = TIMEOUT
    state.due[run][0] = number
    leader.due = 1


@kernel
def resign(state: State, run: int) -> None:
    """Stop leading: NOT_LEADER_OR_FOLLOWER, empty and without a high watermark, for all.

    First who is parked, then who still waits for the Raft thread, in the order they came.
    """
    leader, replicas, due = state.leaders[run], state.replicas[run], state.due[run]
    leader.due = 0
    for place in range(leader.parked):
        _answer(state, run, state.parked[run][place], ERROR)
    leader.parked = 0
    begin = leader.due
    for number in range(len(replicas)):
        if replicas[number].token and not replicas[number].is_parked:
            _answer(state, run, number, ERROR)
            place = leader.due - 1
            while place > begin and replicas[due[place - 1]].token > replicas[number].token:
                due[place] = due[place - 1]
                place -= 1
            due[place] = number
    for place in range(begin):
        replicas[due[place]].is_parked = 0


@kernel
def _refusal(state: State, run: int, number: int) -> int:
    """``validateOffsetAndEpoch``: a log the leader can't continue from is told so at once."""
    epoch, ends, replica = state.epoch[0], state.epoch_ends, state.replicas[run][number]
    offset = replica.asked_offset
    if epoch.snapshot != NONE and (offset == 0 or offset < epoch.log_start_offset):
        return SNAPSHOT
    for place in range(epoch.epoch_ends):
        if ends.epoch[place] == replica.asked_epoch and offset > ends.end[place]:
            return DIVERGING
    return NONE


@kernel
def _update_high_watermark(state: State, run: int) -> None:
    """``maybeUpdateHighWatermark``: the floor(N/2)-th of the voters' offsets, descending.

    The leader's own offset is at or above all others, so it stands first where it votes.
    """
    leader = state.leaders[run]
    rank = leader.voter_count // 2 - leader.own_vote
    offset = leader.log_end_offset if rank < 0 else _ranked(state, run, rank)
    if offset == NONE or offset <= leader.epoch_start_offset:
        return
    rolled = leader.segment != leader.high_watermark_segment
    if offset > leader.high_watermark or (offset == leader.high_watermark and rolled):
        leader.high_watermark = offset
        leader.high_watermark_segment = leader.segment
        if leader.hwm_aware:
            _wake(state, run, HIGH_WATERMARK, NONE)


@kernel
def _ranked(state: State, run: int, rank: int) -> int:
    """The voters' offset that so many others stand before; NONE if there are too few."""
    voters, replicas, count = state.voters, state.replicas[run], state.epoch[0].voters
    for one in range(count):
        offset = replicas[voters[one]].progress
        before = 0
        for other in range(count):
            progress = replicas[voters[other]].progress
            if progress > offset or (progress == offset and other < one):
                before += 1
        if before == rank:
            return offset  # type: ignore[no-any-return]
    return NONE


@kernel
def _wake(state: State, run: int, completion: int, until: int) -> None:
    """Complete FETCHes parked at or below an offset (NONE: all), with what is known now."""
    leader, replicas, parked = state.leaders[run], state.replicas[run], state.parked[run]
    left = 0
    for place in range(leader.parked):
        number = parked[place]
        replica = replicas[number]
        if until != NONE and replica.asked_offset > until:
            parked[left] = number
            left += 1
        else:
            carries = replica.asked_offset < leader.log_end_offset
            _answer(state, run, number, RECORDS if carries else completion)
            replica.is_parked = 0
    leader.parked = left


@kernel
def _answer(state: State, run: int, number: int, completion: int) -> None:
    """What is sent is not tested again, only read anew."""
    leader, replica = state.leaders[run], state.replicas[run][number]
    tells_nothing = completion in (DIVERGING, SNAPSHOT, ERROR)
    replica.completion = completion
    replica.was_parked = replica.is_parked
    replica.answer_high_watermark = UNKNOWN_OFFSET if completion == ERROR else leader.high_watermark
    replica.answer_log_end_offset = replica.asked_offset if tells_nothing else leader.log_end_offset
    state.due[run][leader.due] = number
    leader.due += 1


@kernel
def take_answer(state: State, run: int, number: int) -> None:
    """Append what an answer carries and learn its high watermark (``handleFetchResponse``)."""
    epoch, ends, replica = state.epoch[0], state.epoch_ends, state.replicas[run][number]
    if replica.completion == DIVERGING:
        # The records that stay are of that epoch, as far as the leader has it too.
        for place in range(epoch.epoch_ends):
            if ends.epoch[place] == replica.last_fetched_epoch:
                replica.fetch_offset = ends.end[place]
    elif replica.completion == SNAPSHOT:
        replica.fetch_offset = max(0, epoch.snapshot)
        replica.last_fetched_epoch = epoch.leader_epoch
    elif replica.answer_log_end_offset > replica.fetch_offset:
        replica.fetch_offset = replica.answer_log_end_offset
        replica.last_fetched_epoch = epoch.leader_epoch
    told = min(replica.fetch_offset, replica.answer_high_watermark)
    replica.high_watermark = max(replica.high_watermark, told)

"""The whole replay of hwm_parking: one controller's log in, outcomes and lags out."""

from collections.abc import Iterable, Sequence

import msgspec
import pyarrow as pa

from ..log_gaps import ALWAYS_SINCE_US, LogGap, last_begun
from ..outcomes import Variant
from .epoch import LeaderEpoch
from .evidence import Evidence
from .metadata_log import ABSENCE_US, INPUT_SCHEMA, RecordedFetch
from .outcomes import Controller, Emitted, Outcomes

#: How far behind the log the replay runs: longer than any FETCH stays parked or is being sent.
LOOKAHEAD_US = 60_000_000
#: How often the replay advances, in log time.
STEPS_PER_LOOKAHEAD = 6


class State(msgspec.Struct, array_like=True):
    """All that a replay carries: the log is known up to ``front``; where the last hole ends."""

    controller: Controller
    epochs: dict[int, LeaderEpoch] = {}
    front: tuple[int, str] = (0, "")
    hole_ends_us: int = ALWAYS_SINCE_US


class HwmParking:
    """The replay of one controller's log: feed it recorded FETCHes of the metadata log.

    ``voters`` are the ids of all voters. Batches of ``INPUT_SCHEMA`` come in order of
    (built_us, request_id); anything else raises ``ValueError``. ``saved`` is what an earlier
    replay of the same log, voters and variants had ``saved()``: this one resumes it. ``holes`` are
    those in the log, in order, apart from each other.
    """

    def __init__(
        self,
        node_id: int,
        voters: Iterable[int],
        rules: list[Variant],
        saved: bytes | None = None,
        holes: Sequence[LogGap] = (),
    ) -> None:
        self._holes = holes
        if saved is None:
            self._state = State(Controller(node_id, frozenset(voters), rules))
        else:
            self._state = msgspec.msgpack.decode(saved, type=State)

    def feed(self, batch: pa.RecordBatch) -> Outcomes:
        """Take an increment of the log; return the outcomes that nothing to come can change."""
        state, emitted = self._state, Emitted()
        # Advancing in steps of the log's time, whatever the batches, makes the rows a function of
        # the log alone.
        step = LOOKAHEAD_US // STEPS_PER_LOOKAHEAD
        columns = [batch.column(name).to_pylist() for name in INPUT_SCHEMA.names]
        for row in map(RecordedFetch._make, zip(*columns, strict=True)):
            if (row.built_us, row.request_id) < state.front:
                raise ValueError("FETCHes must come in order of built_us, request_id")
            if row.built_us // step != state.front[0] // step:
                self._advance(emitted)
            state.front = (row.built_us, row.request_id)
            in_hole = self._is_in_hole(row.built_us, emitted)
            self._epoch(row).take(row, in_hole=in_hole)
        return emitted.take()

    def finish(self) -> Outcomes:
        emitted = Emitted()
        for epoch in self._state.epochs.values():
            epoch.close(emitted)
        self._state.epochs.clear()
        return emitted.take()

    def saved(self) -> bytes:
        return msgspec.msgpack.encode(self._state)

    def _epoch(self, row: RecordedFetch) -> LeaderEpoch:
        state, leader_epoch = self._state, row.leader_epoch
        if leader_epoch not in state.epochs:
            # A leader has FETCHes all the time: one that led before shows at once behind a hole.
            is_cut = row.dequeued_us < state.hole_ends_us + ABSENCE_US
            since_us = state.hole_ends_us if is_cut else ALWAYS_SINCE_US
            state.epochs[leader_epoch] = LeaderEpoch(
                state.controller, leader_epoch, Evidence(leader_epoch), since_us=since_us
            )
        return state.epochs[leader_epoch]

    def _is_in_hole(self, at: int, emitted: Emitted) -> bool:
        """Does a line lie in a hole? Where one has begun, what was before it is over."""
        state = self._state
        hole = last_begun(self._holes, at)
        if hole is None:
            return False
        if hole.before_us > state.hole_ends_us:
            state.hole_ends_us = hole.before_us
            for leader_epoch, epoch in state.epochs.items():
                epoch.close(emitted)
                state.epochs[leader_epoch] = epoch.begun_anew(hole.before_us)
        return at < hole.before_us

    def _advance(self, emitted: Emitted) -> None:
        state, (front, _) = self._state, self._state.front
        for leader_epoch, epoch in state.epochs.items():
            if epoch.resigned_us is not None and front - epoch.resigned_us > LOOKAHEAD_US:
                epoch.close(emitted)
                # A later line of the epoch can only be "not the leader".
                state.epochs[leader_epoch] = epoch.begun_anew(ALWAYS_SINCE_US)
            else:
                epoch.advance(front, LOOKAHEAD_US, emitted)

"""One epoch of one leader: the recorded answers explained, and every variant replayed.

Around the kernels: rows that are not handed out yet, the state in the form that the kernels run on
(lists or arrays), and room for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from kip_replay.replay.outcomes import Variant

from .compiled import compiled
from .handed_out import HWM_AWARE, Told, lag_rows, recorded_rows, simulated_rows
from .metadata_log import INPUT_SCHEMA
from .pace import IS_OVER, LACKS_ROOM, Steps, replay
from .records import DECIDED, Ints, Rows, rows_of
from .state import NONE, State, arrayed, blank, grown, listed, packed, unpacked

Handed = tuple[list[pa.RecordBatch], list[pa.RecordBatch]]
_DECISION = np.dtype([(name, np.int64) for name in DECIDED])


def _max_wait_us(variant: Variant) -> int:
    swept = variant.parameter == "max_wait_ms"
    return int(variant.parameter_value) * 1000 if swept else NONE


class LeaderEpoch:
    """The replay of one epoch: ``feed`` it recorded FETCHes and ``close`` it."""

    def __init__(
        self, leader_id: int, leader_epoch: int, voters: frozenset[int], rules: Sequence[Variant]
    ) -> None:
        self.leader_epoch = leader_epoch
        self._leader_id = leader_id
        self._voters = voters
        self._variants = rules
        self._numbers: dict[int, int] = {}
        self._known = 0
        self._waiting = pa.RecordBatch.from_pylist([], schema=INPUT_SCHEMA)
        self._sequence: Ints = np.zeros(0, np.int64)
        self._decided = np.zeros(0, _DECISION)
        self._is_compiled = True
        self._state = self._blank(0)

    def feed(
        self,
        batch: pa.RecordBatch,
        sequence: Ints,
        steps: Steps,
        lookahead_us: int,
        is_compiled: bool,
    ) -> Handed:
        """Take rows in order of built_us, and step on between them.

        ``sequence`` numbers each replica's FETCHes; ``steps.row`` counts within ``batch``.
        """
        before = self._waiting.num_rows
        self._waiting = pa.concat_batches([self._waiting, batch])
        self._sequence = np.concatenate([self._sequence, sequence])
        self._decided = np.concatenate([self._decided, np.zeros(batch.num_rows, _DECISION)])
        self._know(batch)
        self._use(is_compiled)
        self._state.epoch[0].lookahead_us = lookahead_us
        rows = self._rows()
        moments = self._form(Steps(steps.row + before, steps.front_us))
        handed: Handed = ([], [])
        while self._run(rows, moments) == IS_OVER:
            self._state.epoch[0].is_closing = 1
            self._run(rows, moments)
            self._hand_out_simulated(handed)
            self._start_anew(rows, lookahead_us)
        self._hand_out(rows, handed)
        return handed

    def close(self) -> Handed:
        """The epoch is over, or the log is: replay to the end."""
        handed: Handed = ([], [])
        rows = self._rows()
        self._state.epoch[0].is_closing = 1
        self._run(rows, self._form(Steps(np.zeros(0, np.int64), np.zeros(0, np.int64))))
        self._hand_out(rows, handed)
        return handed

    def saved(self) -> list[Any]:
        """Plain values that ``restored`` goes on from."""
        with pa.BufferOutputStream() as waiting:
            with pa.ipc.new_stream(waiting, INPUT_SCHEMA) as stream:
                stream.write_batch(self._waiting)
            rows = waiting.getvalue().to_pybytes()
        ids = list(self._numbers)
        sequence, decided = self._sequence.tobytes(), self._decided.tobytes()
        state = self._state if self._is_compiled else arrayed(self._state)
        return [self.leader_epoch, ids, rows, sequence, decided, packed(state)]

    def restore(self, saved: list[Any]) -> None:
        """Go on from what was ``saved``."""
        _, ids, rows, sequence, decided, state = saved
        self._numbers = {replica_id: number for number, replica_id in enumerate(ids)}
        self._known = len(ids)
        with pa.ipc.open_stream(rows) as stream:
            self._waiting = pa.concat_batches(list(stream))
        self._sequence = np.frombuffer(sequence, np.int64)
        self._decided = np.frombuffer(decided, _DECISION)
        self._state, self._is_compiled = unpacked(state), True

    def _know(self, batch: pa.RecordBatch) -> None:
        """Number the replicas that the leader answered, in the order in which it did."""
        answered = batch.filter(pa.compute.equal(batch.column("error_code"), 0))
        for replica_id in answered.column("replica_id").unique().to_pylist():
            self._numbers.setdefault(replica_id, len(self._numbers))

    def _blank(self, replicas: int) -> State:
        # One at least, so that every line has a length.
        state = blank(1 + len(self._variants), max(1, replicas))
        leaders = state.leaders
        state.epoch["leader_epoch"] = self.leader_epoch
        leaders["voter_count"] = len(self._voters)
        leaders["own_vote"] = int(self._leader_id in self._voters)
        leaders["hwm_aware"] = [0, *(HWM_AWARE[variant.name] for variant in self._variants)]
        leaders["max_wait_us"] = [NONE, *map(_max_wait_us, self._variants)]
        state.seen["replica_id"][:replicas] = list(self._numbers)[:replicas]
        return state

    def _start_anew(self, rows: Rows, lookahead_us: int) -> None:
        """A later line of the epoch can only say "not the leader"; those before are followed."""
        over = self._state.epoch[0]
        state = self._blank(len(self._numbers))
        self._state = state if self._is_compiled else listed(state)
        epoch = self._state.epoch[0]
        epoch.lookahead_us = lookahead_us
        epoch.taken = epoch.explained = over.taken
        epoch.steps = over.steps + 1
        for row in range(over.taken):
            rows.of[row].is_followed = 1

    # --- kernels ---------------------------------------------------------------------------------

    def _use(self, is_compiled: bool) -> None:
        """Bring the state into the form that kernels are to run on, with room for all replicas."""
        is_new = len(self._numbers) > self._known
        if is_new or is_compiled != self._is_compiled:
            state = self._state if self._is_compiled else arrayed(self._state)
            if len(self._numbers) > len(state.seen):
                state = grown(state, len(self._numbers), 0)
            self._known = len(self._numbers)
            state.seen["replica_id"][: self._known] = list(self._numbers)
            self._state = state if is_compiled else listed(state)
            self._is_compiled = is_compiled

    def _form(self, part: Any) -> Any:
        return part if self._is_compiled else listed(part)

    def _rows(self) -> Rows:
        followers = self._voters - {self._leader_id}
        rows = rows_of(self._waiting, self._numbers, followers, self._decided)
        return self._form(rows)  # type: ignore[no-any-return]

    def _run(self, rows: Rows, steps: Steps) -> int:
        """Replay until there is no lack of room any more."""
        called = compiled(replay) if self._is_compiled else replay
        while (outcome := called(self._state, rows, steps)) == LACKS_ROOM:
            need = int(self._state.epoch[0].need)
            if self._is_compiled:
                self._state = grown(self._state, len(self._numbers), need)
            else:
                state = arrayed(self._state)
                self._state = listed(grown(state, len(self._numbers), need))
        return outcome

    # --- rows ------------------------------------------------------------------------------------

    @property
    def _told(self) -> Told:
        ids = np.array(list(self._numbers), np.int64)
        return Told(self._leader_id, self.leader_epoch, self._voters, self._variants, ids)

    def _hand_out(self, rows: Rows, handed: Handed) -> None:
        """Hand out what was explained and simulated, and keep the rows that wait."""
        self._hand_out_simulated(handed)
        epoch = self._state.epoch[0]
        done = int(epoch.explained)
        decided = self._decided_in(rows)
        if done:
            ready, sequence = self._waiting.slice(0, done), self._sequence[:done]
            handed[0].append(recorded_rows(self._told, ready, sequence, decided[:done]))
        # Copied: what is kept must not hold on to the memory of what is gone.
        left = np.arange(done, self._waiting.num_rows)
        self._waiting = self._waiting.take(pa.array(left))
        self._sequence = self._sequence[done:].copy()
        self._decided = decided[done:].copy()
        epoch.taken -= done
        epoch.explained = epoch.steps = epoch.followed = 0

    def _decided_in(self, rows: Rows) -> Any:
        decided = np.zeros(len(rows.of), _DECISION)
        for name in DECIDED:
            is_array = self._is_compiled
            decided[name] = rows.of[name] if is_array else [getattr(r, name) for r in rows.of]
        return decided

    def _hand_out_simulated(self, handed: Handed) -> None:
        epoch = self._state.epoch[0]
        if epoch.fetches:
            fetches = np.array([line[: epoch.fetches] for line in self._state.fetches])
            handed[0].append(simulated_rows(self._told, fetches))
        if epoch.lags:
            lags = np.array([line[: epoch.lags] for line in self._state.lags])
            handed[1].append(lag_rows(self._told, lags))
        epoch.fetches = epoch.lags = 0

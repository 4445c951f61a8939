"""The whole replay of hwm_parking: one controller's log in, outcomes and lags out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec
import numpy as np
import pyarrow as pa

from kip_replay.replay.outcomes import Variant

from .epoch import Handed, LeaderEpoch
from .handed_out import HWM_AWARE, LAG_SCHEMA, PARKING_SCHEMA
from .pace import Steps
from .records import Ints, longs

#: How far behind the log the replay runs: longer than any FETCH stays parked or is being sent.
LOOKAHEAD_US = 60_000_000
#: How often the replay moves on, in log time.
STEPS_PER_LOOKAHEAD = 6
#: Logs are replayed by compiled kernels from so many FETCHes on (some five seconds interpreted):
#: below, importing numba and loading what it compiled, or compiling it, takes more than it saves.
COMPILED_FROM_ROWS = 50_000
#: The form of what ``HwmParking.saved`` hands out; another one is not read.
SAVED_VERSION = 1


def variants(max_wait_ms: Iterable[int] = ()) -> list[Variant]:
    """Both rules with the recorded maxWaitMs, and again for each of ``max_wait_ms`` (a sweep)."""
    swept = [("max_wait_ms", str(wait)) for wait in max_wait_ms]
    return [Variant(name, *what) for what in [("none", "none"), *swept] for name in HWM_AWARE]


class Outcomes(NamedTuple):
    """What a replay hands out: batches of ``PARKING_SCHEMA`` and ``LAG_SCHEMA``."""

    parking: pa.RecordBatch
    lag: pa.RecordBatch


class HwmParking:
    """The replay of one controller's log: feed it recorded FETCHes of the metadata log.

    ``voters`` are the ids of all voters. Batches of ``INPUT_SCHEMA`` come in order of
    (built_us, request_id); anything else raises ``ValueError``. ``saved`` is what an earlier
    replay of the same log, voters and variants had ``saved()``: this one goes on from there;
    ``ValueError`` if it can't. After ``compiled_from_rows`` FETCHes kernels are compiled.
    """

    def __init__(
        self,
        node_id: int,
        voters: Iterable[int],
        rules: list[Variant],
        saved: bytes | None = None,
        compiled_from_rows: int = COMPILED_FROM_ROWS,
    ) -> None:
        self._node_id = node_id
        self._voters = frozenset(voters)
        self._variants = rules
        self._epochs: dict[int, LeaderEpoch] = {}
        self._sequences: dict[tuple[int, int], int] = {}
        self._front: tuple[int, str] = (0, "")
        self._taken_us = 0
        self._pending: list[pa.RecordBatch] = []
        self._rows = 0
        self._compiled_from_rows = compiled_from_rows
        if saved is not None:
            self._restore(saved)

    def feed(self, batch: pa.RecordBatch) -> Outcomes:
        """Take a piece of log and return the outcomes that nothing still to come can change."""
        if not batch.num_rows:
            return _outcomes([])
        built = longs(batch, "built_us")
        self._check_order(batch, built)
        steps = _steps(built, self._front[0])
        self._front = (int(built[-1]), batch.column("request_id")[-1].as_py())
        self._pending.append(batch)
        # Between two steps nothing is handed out, so small batches are gathered till then.
        return _outcomes(self._take_pending() if len(steps.row) else [])

    def finish(self) -> Outcomes:
        """The log is over: return what is left."""
        handed = self._take_pending()
        handed += [epoch.close() for epoch in self._epochs.values()]
        self._epochs.clear()
        return _outcomes(handed)

    def _take_pending(self) -> list[Handed]:
        """Replay what was fed, each epoch for itself."""
        if not self._pending:
            return []
        batch = pa.concat_batches(self._pending)
        self._pending.clear()
        self._rows += batch.num_rows
        built = longs(batch, "built_us")
        moments = _steps(built, self._taken_us)
        self._taken_us = int(built[-1])
        epochs = longs(batch, "leader_epoch")
        sequence = self._numbered(epochs, longs(batch, "replica_id"))
        for leader_epoch in np.unique(epochs).tolist():
            if leader_epoch not in self._epochs:
                self._epochs[leader_epoch] = self._epoch(leader_epoch)
        handed = []
        for leader_epoch, epoch in self._epochs.items():
            rows = np.flatnonzero(epochs == leader_epoch)
            own = batch if len(rows) == batch.num_rows else batch.take(pa.array(rows))
            steps = moments._replace(row=np.searchsorted(rows, moments.row))
            is_compiled = self._rows > self._compiled_from_rows
            handed.append(epoch.feed(own, sequence[rows], steps, LOOKAHEAD_US, is_compiled))
        return handed

    def saved(self) -> bytes:
        """All that it carries after what it was fed: MessagePack, arrays as bytes."""
        # No step lies in what is pending, so it hands out nothing.
        self._take_pending()
        sequences = [[*key, count] for key, count in self._sequences.items()]
        epochs = [epoch.saved() for epoch in self._epochs.values()]
        state = [*self._settings(), *self._front, self._rows, sequences, epochs]
        return msgspec.msgpack.encode([SAVED_VERSION, state])

    def _restore(self, saved: bytes) -> None:
        version, state = msgspec.msgpack.decode(saved, type=tuple[int, msgspec.Raw])
        if version != SAVED_VERSION:
            raise ValueError(
                f"a replay of hwm_parking saved in form {version} can't be gone on with, only one "
                f"of form {SAVED_VERSION}: replay the log from its beginning"
            )
        *settings, front_us, front_id, rows, sequences, epochs = msgspec.msgpack.decode(state)
        if settings != self._settings():
            raise ValueError(
                "the saved replay of hwm_parking is of another controller, of other voters or of "
                "other variants: replay the log from its beginning"
            )
        self._front, self._taken_us, self._rows = (front_us, front_id), front_us, rows
        self._sequences = {(epoch, replica): count for epoch, replica, count in sequences}
        for each in epochs:
            self._epochs[each[0]] = self._epoch(each[0])
            self._epochs[each[0]].restore(each)

    def _settings(self) -> list[object]:
        return [self._node_id, sorted(self._voters), [list(each) for each in self._variants]]

    def _epoch(self, leader_epoch: int) -> LeaderEpoch:
        return LeaderEpoch(self._node_id, leader_epoch, self._voters, self._variants)

    def _check_order(self, batch: pa.RecordBatch, built: Ints) -> None:
        front_us, front_id = self._front
        ids = batch.column("request_id")
        same = np.flatnonzero(built[1:] == built[:-1])
        first, second = (ids.take(pa.array(same + i)).to_pylist() for i in (0, 1))
        if (
            (built[1:] < built[:-1]).any()
            or any(map(str.__gt__, first, second))
            or (int(built[0]), ids[0].as_py()) < (front_us, front_id)
        ):
            raise ValueError("FETCHes must come in order of built_us, request_id")

    def _numbered(self, epochs: Ints, replicas: Ints) -> Ints:
        """Number each replica's FETCHes of an epoch, from 0 on through all that is fed."""
        order = np.lexsort((replicas, epochs))
        keys = np.stack([epochs[order], replicas[order]])
        begins = np.flatnonzero(np.r_[True, (keys[:, 1:] != keys[:, :-1]).any(axis=0)])
        counts = np.diff(np.r_[begins, len(order)])
        before = []
        for epoch, replica, count in zip(*keys[:, begins].tolist(), counts.tolist(), strict=True):
            before.append(self._sequences.get((epoch, replica), 0))
            self._sequences[epoch, replica] = before[-1] + count
        sequence = np.empty(len(order), np.int64)
        sequence[order] = np.arange(len(order)) + np.repeat(np.array(before) - begins, counts)
        return sequence


def _steps(built: Ints, front_us: int) -> Steps:
    """When the replay moves on: before which rows, and how far the log is known then.

    Steps of the log's time, whatever the batches, make the rows a function of the log alone.
    """
    before = np.concatenate([[front_us], built[:-1]])
    step = LOOKAHEAD_US // STEPS_PER_LOOKAHEAD
    rows = np.flatnonzero(built // step != before // step)
    return Steps(rows, before[rows])


def _outcomes(handed: list[Handed]) -> Outcomes:
    parking = [batch for epoch, _ in handed for batch in epoch]
    lag = [batch for _, epoch in handed for batch in epoch]
    return Outcomes(_one(parking, PARKING_SCHEMA), _one(lag, LAG_SCHEMA))


def _one(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    return pa.concat_batches(batches) if batches else pa.RecordBatch.from_pylist([], schema=schema)


def replayed(replay: HwmParking, batches: Iterable[pa.RecordBatch]) -> Iterator[Outcomes]:
    """Feed all batches, then finish: the outcomes as they come."""
    for batch in batches:
        yield replay.feed(batch)
    yield replay.finish()

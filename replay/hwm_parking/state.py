"""All that the replay of one leader epoch carries, as flat numbers.

Kernels read and write it, as arrays (compiled) or as lists (interpreted); ``saved`` makes bytes of
it. A *record* has named fields: an array of them compiled, a list of objects interpreted, and
``records[i].field`` reads the same. What is moved about (queues, sorted lists, heaps) is kept as
parallel columns of integers, with how much of it is in use beside it.

The first index of what a leader or its replicas have is the *run*: 0 is the recorded leader, 1 and
on are the closed loops of the variants, in their order. Replicas are numbered in the order in which
the log first shows them. Times are microseconds since the epoch.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

#: A time or an offset that is not there.
NONE = -1
NEVER = -(1 << 62)

#: Columns as the kernels see them: integers or records, as an array or as a list.
Column = Any
Record = Any

#: High watermarks told to a replica that are kept to join advances with.
TOLD_KEPT = 16
#: Pieces of log whose place is not known that are kept.
PIECES_KEPT = 64


def _longs(*names: str) -> np.dtype[Any]:
    return np.dtype([(name, np.int64) for name in names], align=True)


#: One per epoch: where the replay of it stands, and how much of each column is in use.
EPOCH = _longs(
    # the leader
    *("leader_epoch", "epoch_start_offset", "log_start_offset", "snapshot", "appended_offset"),
    *("resigned_us", "last_us", "first_dequeued_us"),
    # how far the replay is: rows taken, steps done, rows explained, voters' rows followed
    *("taken", "steps", "phase", "explained", "followed", "is_followed", "is_closing"),
    *("lookahead_us", "need"),
    # columns in use
    *("seen", "voters", "absences", "reached", "marks", "pieces", "wakes", "epoch_ends"),
    *("log_end_offsets", "high_watermarks", "fetches", "lags"),
)

#: One per replica: what the log says of it.
SEEN = _longs(
    *("replica_id", "is_voter", "is_seen", "absences", "heard_until_us"),
    *("first_dequeued_us", "first_fetch_offset", "first_last_fetched_epoch"),
    *("first_high_watermark", "first_max_wait_us"),
    *("last_built_us", "last_correlation_id", "last_fetch_offset", "last_last_fetched_epoch"),
    "last_record_bytes",
)

#: A replica sent nothing from a time until another, and came back at an offset.
ABSENCE = _longs(
    *("replica", "since_us", "until_us", "fetch_offset", "is_restart", "last_fetched_epoch"),
)

#: One per run: the leader (``leader``).
LEADER = _longs(
    *("hwm_aware", "voter_count", "own_vote", "epoch_start_offset", "log_end_offset"),
    *("high_watermark", "segment", "high_watermark_segment", "parked", "due"),
    # of the closed loop
    *("max_wait_us", "free_us", "tokens", "events", "waiting", "widest"),
)

#: One per run and replica: where it stands, its FETCH, the answer to it, and what it was told.
REPLICA = np.dtype(
    [
        *_longs(
            *("is_joined", "fetch_offset", "last_fetched_epoch", "high_watermark", "sequence"),
            *("waits_since_us", "progress"),
            # its FETCH that is not answered yet; token 0: none
            *("token", "asked_us", "asked_offset", "asked_epoch", "asked_high_watermark"),
            *("asked_max_wait_us", "is_parked"),
            # the answer
            *("completion", "was_parked", "answer_high_watermark", "answer_log_end_offset"),
            # advances that it is to learn of, and what it was told last
            *("waiting_begin", "waiting_end", "told"),
        ).descr,
        ("told_high_watermark", np.int64, (TOLD_KEPT,)),
        ("told_us", np.int64, (TOLD_KEPT,)),
    ],
    align=True,
)


class Samples(NamedTuple):
    """Values measured at points in time, a line per owner; those from begin to end count."""

    at: Column
    value: Column
    other: Column
    begin: Column
    end: Column


class Timeline(NamedTuple):
    """Values that the leader took on over time."""

    at: Column
    value: Column


class Reached(NamedTuple):
    """Log end offsets not appended yet, rising, and when the first answer reached each."""

    end: Column
    at: Column


class Marks(NamedTuple):
    """Offsets at which an answer began or ended, rising, and the bytes of the log below each."""

    offset: Column
    seen_us: Column
    bytes_below: Column
    is_placed: Column


class Pieces(NamedTuple):
    """Parts of the log of known size whose place is not known yet."""

    start: Column
    end: Column
    size: Column


class Wakes(NamedTuple):
    """Answers that one append woke, in order of time, while more of them may come."""

    offset: Column
    first_us: Column
    last_us: Column
    together: Column


class EpochEnds(NamedTuple):
    """End offsets of earlier epochs, where a replica was truncated."""

    epoch: Column
    end: Column


class Events(NamedTuple):
    """The heap of a run: time, kind and what it concerns in one number, number of a replica."""

    at: Column
    what: Column
    replica: Column


class State(NamedTuple):
    """All of it. Shapes: R replicas, L runs; the others as large as they need to be."""

    epoch: Record  # [1]
    seen: Record  # [R]
    voters: Column  # [R]: numbers of the voters among the replicas
    absences: Record
    reached: Reached
    marks: Marks
    pieces: Pieces
    wakes: Wakes
    epoch_ends: EpochEnds
    gaps: Samples  # [R]: from an answer to the next FETCH
    envelopes: Samples  # [R]: bytes around a request, and around a response's records
    service: Samples  # [1]: how long the Raft thread takes for one answer
    log_end_offset: Timeline
    high_watermark: Timeline
    leaders: Record  # [L]
    replicas: Record  # [L][R]
    parked: Column  # [L][R]: numbers of the replicas whose FETCH is parked, in order
    due: Column  # [L][2R+2]: numbers of the replicas whose answer is due, in order
    events: Events  # [L]
    waiting: Column  # [L][R][3 times]: (at, previous, new) of advances to be learned
    fetches: Column  # [FETCH_FIELDS]: simulated FETCHes, not handed out yet
    lags: Column  # [LAG_FIELDS]: lags, not handed out yet


#: Lines of ``State.fetches`` and of ``State.lags``.
FETCH_FIELDS = (
    *("run", "replica", "sequence", "dequeued_us", "built_us", "fetch_offset"),
    *("replica_high_watermark", "response_high_watermark", "is_parked", "completion"),
    *("record_bytes", "request_envelope", "response_envelope"),
)
LAG_FIELDS = ("run", "replica", "at", "previous", "high_watermark", "learned_us", "is_away")

#: How much of each part is in use is told by a field of ``EPOCH`` of this name.
_IN_USE = {
    "absences": "absences",
    "reached": "reached",
    "marks": "marks",
    "wakes": "wakes",
    "epoch_ends": "epoch_ends",
    "log_end_offset": "log_end_offsets",
    "high_watermark": "high_watermarks",
    "fetches": "fetches",
    "lags": "lags",
}


def blank(runs: int, replicas: int, room: int = 16) -> State:
    """Zeros: room for some replicas, and for some entries of whatever grows."""
    parts: dict[str, Any] = {}
    for name, part in (("reached", Reached), ("marks", Marks)):
        parts[name] = part(*_zeros(len(part._fields), room))
    for name, other in (("wakes", Wakes), ("epoch_ends", EpochEnds)):
        parts[name] = other(*_zeros(len(other._fields), room))
    for name, owners in (("gaps", replicas), ("envelopes", replicas), ("service", 1)):
        parts[name] = Samples(*_zeros(3, owners, room), *_zeros(2, owners))
    state = State(
        epoch=_records(EPOCH, 1),
        seen=_records(SEEN, replicas),
        voters=np.zeros(replicas, np.int64),
        absences=_records(ABSENCE, room),
        pieces=Pieces(*_zeros(3, PIECES_KEPT + 1)),
        log_end_offset=Timeline(*_zeros(2, room)),
        high_watermark=Timeline(*_zeros(2, room)),
        leaders=_records(LEADER, runs),
        replicas=_records(REPLICA, runs, replicas),
        parked=np.zeros((runs, replicas), np.int64),
        due=np.zeros((runs, 2 * replicas + 2), np.int64),
        events=Events(*_zeros(3, runs, room)),
        waiting=np.zeros((runs, replicas, 3 * room), np.int64),
        fetches=np.zeros((len(FETCH_FIELDS), room), np.int64),
        lags=np.zeros((len(LAG_FIELDS), room), np.int64),
        **parts,
    )
    for name in ("epoch_start_offset", "snapshot", "appended_offset"):
        state.epoch[name] = NONE
    state.epoch["resigned_us"] = NEVER
    state.epoch["first_dequeued_us"] = -NEVER
    state.replicas["progress"] = NONE
    state.replicas["waits_since_us"] = NEVER
    return state


def _zeros(count: int, *shape: int) -> list[np.ndarray[Any, Any]]:
    return [np.zeros(shape, np.int64) for _ in range(count)]


def _records(fields: np.dtype[Any], *shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, fields).view(np.recarray)


# --- lists and arrays ----------------------------------------------------------------------------


def listed(part: Any) -> Any:
    """Arrays as the lists that interpreted kernels are quick on."""
    if isinstance(part, tuple):
        return type(part)(*map(listed, part))
    if part.dtype.names is None:
        return part.tolist()
    if part.ndim > 1:
        return [listed(each) for each in part]
    columns = [part[name].tolist() for name in part.dtype.names]
    return [
        SimpleNamespace(**dict(zip(part.dtype.names, row, strict=True)))
        for row in zip(*columns, strict=True)
    ]


def arrayed(state: State) -> State:
    """Lists as arrays again."""
    return _arrayed(state, blank(1, 1))  # type: ignore[no-any-return]


def _arrayed(part: Any, like: Any) -> Any:
    """Lists as arrays of the types of ``like``."""
    if isinstance(like, tuple):
        pairs = zip(part, like, strict=True)
        return type(like)(*(_arrayed(each, other) for each, other in pairs))
    if like.dtype.names is None:
        return np.array(part, np.int64)
    if like.ndim > 1:
        rows = [_arrayed(each, like[0]) for each in part]
        return np.array(rows, like.dtype).view(np.recarray)
    rows = [tuple(getattr(each, name) for name in like.dtype.names) for each in part]
    return np.array(rows, like.dtype).view(np.recarray)


# --- growing -------------------------------------------------------------------------------------


def grown(state: State, replicas: int, need: int) -> State:
    """Arrays with room for so many replicas and ``need`` more entries of whatever grows."""
    epoch, runs = state.epoch[0], len(state.leaders)
    used = {name: int(epoch[field]) for name, field in _IN_USE.items()}
    samples = {
        name: int(getattr(state, name).end.max()) for name in ("gaps", "envelopes", "service")
    }
    widest = {
        "events": int(state.leaders.events.max()),
        "waiting": int(state.leaders.widest.max()),
    }
    larger: dict[str, Any] = {}
    for name, count in (used | samples | widest).items():
        part = getattr(state, name)
        step = 3 if name == "waiting" else 1
        first = part[0] if isinstance(part, tuple) else part
        room = first.shape[-1] // step
        # Twice as much as before, so that growing stays cheap however long it goes on.
        room = room if room >= count + need else max(2 * room, count + need)
        larger[name] = _fitted(part, step * room, name in samples)
    whole = state._replace(**larger)
    return _with_replicas(whole, runs, replicas) if replicas > len(state.seen) else whole


def _fitted(part: Any, room: int, has_bounds: bool) -> Any:
    """The last axis as long as asked for; begins and ends of samples stay."""
    if not isinstance(part, tuple):
        return _wider(part, room)
    columns = [_wider(column, room) for column in (part[:-2] if has_bounds else part)]
    return type(part)(*columns, *(part[-2:] if has_bounds else ()))


def _wider(column: np.ndarray[Any, Any], room: int) -> np.ndarray[Any, Any]:
    if column.shape[-1] == room:
        return column
    wider = np.zeros((*column.shape[:-1], room), column.dtype)
    kept = min(room, column.shape[-1])
    wider[..., :kept] = column[..., :kept]
    return wider if column.dtype.names is None else wider.view(np.recarray)


def _with_replicas(state: State, runs: int, replicas: int) -> State:
    room = blank(runs, replicas, room=1)
    had = len(state.seen)
    of_replicas: dict[str, Any] = {}
    for name in ("seen", "replicas"):
        wider = getattr(room, name)
        wider[..., :had] = getattr(state, name)
        of_replicas[name] = wider
    for name in ("voters", "parked"):
        of_replicas[name] = _wider(getattr(state, name), replicas)
    of_replicas["due"] = _wider(state.due, 2 * replicas + 2)
    for name in ("gaps", "envelopes"):
        samples = getattr(state, name)
        of_replicas[name] = Samples(*(_longer(column, replicas) for column in samples))
    of_replicas["waiting"] = np.stack([_longer(run, replicas) for run in state.waiting])
    return state._replace(**of_replicas)


def _longer(column: np.ndarray[Any, Any], lines: int) -> np.ndarray[Any, Any]:
    longer = np.zeros((lines, *column.shape[1:]), column.dtype)
    longer[: len(column)] = column
    return longer


# --- saving --------------------------------------------------------------------------------------


def packed(state: State) -> list[Any]:
    """Plain values: each array as (shape, bytes), no longer than what is in use."""
    return [_packed(part) for part in _trimmed(state)]


def _packed(part: Any) -> Any:
    if isinstance(part, tuple):
        return [_packed(each) for each in part]
    return [list(part.shape), part.tobytes()]


def unpacked(parts: list[Any]) -> State:
    """What ``packed`` made plain."""
    like = blank(1, 1)
    return State(*(_unpacked(part, other) for part, other in zip(parts, like, strict=True)))


def _unpacked(part: Any, like: Any) -> Any:
    if isinstance(like, tuple):
        pairs = zip(part, like, strict=True)
        return type(like)(*(_unpacked(each, other) for each, other in pairs))
    shape, raw = part
    array = np.frombuffer(raw, like.dtype).reshape(shape).copy()
    return array if like.dtype.names is None else array.view(np.recarray)


def _trimmed(state: State) -> State:
    epoch = state.epoch[0]
    trimmed = {
        name: _fitted(getattr(state, name), int(epoch[field]), False)
        for name, field in _IN_USE.items()
    }
    for name in ("gaps", "envelopes", "service"):
        samples = getattr(state, name)
        trimmed[name] = _fitted(samples, int(samples.end.max()), True)
    trimmed["events"] = _fitted(state.events, int(state.leaders.events.max()), False)
    trimmed["waiting"] = _wider(state.waiting, 3 * int(state.leaders.widest.max()))
    return state._replace(**trimmed)

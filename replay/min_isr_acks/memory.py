"""Room for what a replay carries: arrays that grow, and become bytes.

Compiled functions can't make an array larger, so room for the most that the next events can need
is made before (``with_room``). Where an array is full, what was left behind in it goes first
(``packing``).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kip_replay.replay.min_isr_acks.ordering import RIVALS_MAX
from kip_replay.replay.min_isr_acks.packing import packed_levels, packed_places
from kip_replay.replay.min_isr_acks.partition_log import APPLY_US_MAX
from kip_replay.replay.min_isr_acks.state import (
    ALONE,
    BATCH,
    BROKER,
    EDGE,
    FETCHER,
    FOLLOWER,
    HEAD,
    LEADER,
    MAYBE,
    MEMBERSHIP,
    NOWHERE,
    NULL,
    PASSING,
    REQUEST,
    RIVAL,
    USED,
    Array,
    State,
)

#: Seats of a partition to begin with: of three replicas two are followers.
_SEATS = 2
#: Of which type each array is, and how many columns it has besides the first axis.
_TYPES: dict[str, Any] = {
    "used": USED,
    "requests": REQUEST,
    "batches": BATCH,
    "alone": ALONE,
    "leaders": LEADER,
    "followers": FOLLOWER,
    "heads": HEAD,
    "passings": PASSING,
    "place_heads": HEAD,
    "edge_heads": HEAD,
    "edges": EDGE,
    "rivals": RIVAL,
    "fetchers": FETCHER,
    "memberships": MEMBERSHIP,
    "brokers": BROKER,
}


def empty_state(node_id: int, variants: int) -> State:
    """Nothing is known yet."""
    seats = {"followers": _SEATS, "stands": _SEATS}
    per_variant = dict.fromkeys(("batch_min_isrs", "min_isrs"), variants)
    widths = {**seats, **per_variant, "alone": 2 * variants, "sets": 1}
    state = State(
        *(
            np.zeros((0, widths[name]) if name in widths else 0, _type(name))
            for name in State._fields
        )
    )
    used = np.zeros(1, USED)
    used["node_id"], used["front_us"] = node_id, -1
    used["first_request"] = used["last_request"] = NOWHERE
    return state._replace(used=used, ranked=np.zeros(_SEATS + 1, np.int64))


def _type(name: str) -> Any:
    return _TYPES.get(name, np.int64)


def grown(array: Array, used: int, needed: int) -> Array:
    """The array, or a copy with room for so many entries; those not in use hold anything."""
    if len(array) >= needed:
        return array
    larger = np.empty((max(needed, 2 * used), *array.shape[1:]), array.dtype)
    larger[:used] = array[:used]
    return larger


def with_room(s: State, rows: int, requests: int, *, may_rival: bool) -> State:
    """Room for so many more partitions of events, and so many PRODUCEs.

    ``may_rival``: batches without a base offset are, or will be, among those that wait.
    """
    used = s.used[0]
    batches, rivals = int(used["batches"]), int(used["rivals"])
    s = s._replace(
        requests=grown(s.requests, int(used["requests"]), int(used["requests"]) + requests),
        batches=grown(s.batches, batches, batches + rows),
        batch_min_isrs=grown(s.batch_min_isrs, batches, batches + rows),
        alone=grown(s.alone, batches, batches + rows),
        memberships=grown(s.memberships, int(used["memberships"]), int(used["memberships"]) + rows),
    )
    if may_rival:
        s = s._replace(rivals=grown(s.rivals, rivals, rivals + 2 * RIVALS_MAX * rows))
    levels = 2 * s.min_isrs.shape[1]
    moved = _most_moved(s.heads[: used["level_sets"] * levels], levels * rows)
    if len(s.passings) < used["passings"] + moved:
        s = packed_levels(s, s.used)
        passings = int(used["passings"])
        needed = passings + 2 * moved
        s = s._replace(passings=grown(s.passings, passings, needed))
        s = s._replace(stands=grown(s.stands, passings, needed))
    s = _with_level_sets(s, rows)
    leaders = slice(0, int(used["leaders"]))
    remembered = _most_moved(s.place_heads[leaders], rows)
    edges = _most_moved(s.edge_heads[leaders], 2 * rows)
    short = len(s.remembered) < used["remembered"] + remembered
    if short or len(s.edges) < used["edges"] + edges:
        s = packed_places(s, s.used)
        at, end = int(used["remembered"]), int(used["edges"])
        s = s._replace(remembered=grown(s.remembered, at, at + 2 * remembered))
        s = s._replace(edges=grown(s.edges, end, end + 2 * edges))
    return s


def _most_moved(heads: Array, pushed: int) -> int:
    """The most that stretches can take at an array's end, while so many entries are added.

    Whichever is full moves to twice its length, and again.
    """
    return 2 * int(heads["length"].sum()) + 4 * pushed


def _with_level_sets(s: State, more: int) -> State:
    """Room for so many more level sets, all of them empty."""
    levels = 2 * s.min_isrs.shape[1]
    in_use = int(s.used["level_sets"][0]) * levels
    if len(s.heads) < in_use + more * levels:
        s = s._replace(heads=grown(s.heads, in_use, in_use + more * levels))
        s.heads[in_use:] = 0
    return s


def with_leaders(s: State, min_isrs: Array) -> State:
    """More partitions, of which nothing is known but min.insync.replicas: a row each."""
    first = int(s.used["leaders"][0])
    end, more = first + len(min_isrs), len(min_isrs)
    level_sets = int(s.used["level_sets"][0])
    names = ("leaders", "min_isrs", "followers", "place_heads", "edge_heads")
    s = s._replace(**{name: grown(getattr(s, name), first, end) for name in names})
    s = _with_level_sets(s, more)
    s.used["leaders"], s.used["level_sets"] = end, level_sets + more
    for name in (*names[:1], *names[2:]):
        getattr(s, name)[first:end] = 0
    new = s.leaders[first:end]
    for name in ("isr", "requested", "previous_isr", "leader_epoch", "first_open", "last_open"):
        new[name] = NOWHERE
    new["leader_id"], new["leads"], new["lost_epoch"] = NULL, MAYBE, -2
    new["lost_us"], new["owners"] = -APPLY_US_MAX - 1, NOWHERE
    new["edge_offset"] = new["edge_number"] = NOWHERE
    new["is_trusted"] = True
    new["level_set"] = np.arange(level_sets, level_sets + more)
    s.min_isrs[first:end] = min_isrs
    s.followers[first:end]["broker_id"] = NOWHERE
    s.followers[first:end]["offset"] = NOWHERE
    return s


def with_more_seats(s: State) -> State:
    """Twice as many seats at every partition."""
    leaders, seats = s.followers.shape
    followers = np.zeros((leaders, 2 * seats), FOLLOWER)
    followers[:, :seats] = s.followers
    followers["broker_id"][:, seats:] = followers["offset"][:, seats:] = NOWHERE
    stands = np.full((len(s.stands), 2 * seats), NOWHERE, np.int64)
    stands[:, :seats] = s.stands
    return s._replace(followers=followers, stands=stands, ranked=np.zeros(2 * seats + 1, np.int64))


def with_sets(s: State, sets: list[tuple[int, ...]]) -> State:
    """The sets of brokers that positions stand for."""
    if len(sets) == len(s.set_sizes):
        return s
    sizes = np.array([len(members) for members in sets], np.int64)
    table = np.zeros((len(sets), max(1, sizes.max())), np.int64)
    for row, members in zip(table, sets, strict=True):
        row[: len(members)] = members
    return s._replace(sets=table, set_sizes=sizes)


def with_fetchers(s: State, are_sessions: list[bool]) -> State:
    """More consumers' sessions and single FETCHes."""
    first = int(s.used["fetchers"][0])
    end = first + len(are_sessions)
    fetchers = grown(s.fetchers, first, end)
    s.used["fetchers"] = end
    fetchers[first:end] = 0
    fetchers[first:end]["parked_until_us"] = -1
    fetchers[first:end]["memberships"] = NOWHERE
    fetchers[first:end]["is_session"] = are_sessions
    return s._replace(fetchers=fetchers)


# --- bytes ---------------------------------------------------------------------------------------


def size_of(s: State) -> int:
    """Bytes in use of what grows with the log."""
    used = s.used[0]
    records = ((s.requests, "requests"), (s.batches, "batches"), (s.passings, "passings"))
    others = ((s.edges, "edges"), (s.rivals, "rivals"), (s.memberships, "memberships"))
    return (
        sum(int(used[name]) * array.itemsize for array, name in (*records, *others))
        + int(used["fetchers"]) * s.fetchers.itemsize
    )


def to_plain(s: State) -> dict[str, Any]:
    """A packed state as plain values: shapes, and arrays as little-endian bytes."""
    return {
        name: [list(array.shape), _clean(array).tobytes()]
        for name, array in s._asdict().items()
        if name != "ranked"
    }


def _clean(array: Array) -> Array:
    """The same, with zeros between a record's fields: equal states have equal bytes."""
    if array.dtype.names is None:
        return array
    clean = np.zeros(array.shape, array.dtype)
    for name in array.dtype.names:
        clean[name] = array[name]
    return clean


def from_plain(plain: dict[str, Any]) -> State:
    """The state that ``to_plain`` returned."""
    arrays = {
        name: np.frombuffer(data, _type(name)).reshape(shape).copy()
        for name, (shape, data) in plain.items()
    }
    seats = arrays["followers"].shape[1]
    return State(**arrays, ranked=np.zeros(seats + 1, np.int64))

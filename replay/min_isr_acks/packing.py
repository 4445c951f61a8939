"""What a replay carries, without what nothing depends on any more.

Compiled functions only flag what was settled, and leave behind the stretch of a list that moved.
What ``packed`` keeps is bounded by what is open: requests that wait, the passings that they may
still be looked up in, the batches that a follower may still be sent, and consumers' sessions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kip_replay.replay.min_isr_acks.compiled import entry
from kip_replay.replay.min_isr_acks.ordering import add_rival
from kip_replay.replay.min_isr_acks.state import NOWHERE, RIVAL, Array, State


class Packed(NamedTuple):
    """A packed state, and which requests, fetchers and sessions of followers were kept."""

    state: State
    requests: Array
    fetchers: Array
    sessions: Array


def packed(s: State, completed_us: int) -> Packed:
    """The same without what nothing depends on any more.

    Single FETCHes of consumers are gone if they were responded to before ``completed_us``.
    """
    used = s.used.copy()
    requests = np.flatnonzero(s.requests["is_waiting"][: used["requests"][0]])
    s = packed_places(packed_levels(_packed_batches(s, used, requests), used), used)
    s, fetchers = _packed_consumers(s, used, completed_us)
    s, sessions = _packed_sessions(s)
    n = int(used["leaders"][0])
    names = ("leaders", "min_isrs", "followers", "place_heads", "edge_heads")
    s = s._replace(used=used, **{name: getattr(s, name)[:n].copy() for name in names})
    return Packed(s, requests, fetchers, sessions)


def _packed_batches(s: State, used: Array, requests: Array) -> State:
    """Batches that wait, that may be sent to a follower, or that may have come before others."""
    n = int(used["batches"][0])
    batches = s.batches[:n]
    rivals = s.rivals[: used["rivals"][0]]
    rivals = rivals[batches["is_waiting"][rivals["owner"]]]
    is_kept = batches["is_waiting"].copy()
    is_kept[rivals["batch"]] = True
    is_kept[_entries(s.place_heads[: used["leaders"][0]], s.remembered)] = True
    position = _positions(is_kept)
    kept = batches[is_kept]
    for name in ("before", "after"):
        kept[name] = position[kept[name]]
        kept[name][~kept["is_waiting"]] = NOWHERE
    kept["rival"] = NOWHERE
    leaders = s.leaders[: used["leaders"][0]].copy()
    for name in ("first_open", "last_open"):
        leaders[name] = position[leaders[name]]
    waiting = s.requests[requests]
    waiting["first_batch"] = position[waiting["first_batch"]]
    # A request without partitions has no first batch.
    waiting["next"] = np.arange(1, len(waiting) + 1)
    waiting["next"][-1:] = NOWHERE
    used["requests"], used["batches"] = len(waiting), len(kept)
    used["first_request"] = 0 if len(waiting) else NOWHERE
    used["last_request"] = len(waiting) - 1
    used["rivals"] = 0
    s = s._replace(
        used=used,
        requests=waiting,
        batches=kept,
        batch_min_isrs=s.batch_min_isrs[:n][is_kept],
        alone=s.alone[:n][is_kept],
        leaders=leaders,
        remembered=_renumbered(s, position),
        rivals=np.zeros(len(rivals), RIVAL),
    )
    _link_rivals(s, position[rivals["owner"]], position[rivals["batch"]])
    return s


def _renumbered(s: State, position: Array) -> Array:
    remembered = s.remembered.copy()
    at = _indices(s.place_heads[: s.used["leaders"][0]])
    remembered[at] = position[remembered[at]]
    return remembered


def _positions(is_kept: Array) -> Array:
    """New positions of what is kept, by old position; NOWHERE stays NOWHERE."""
    position = np.where(is_kept, np.cumsum(is_kept) - 1, NOWHERE)
    return np.append(position, NOWHERE)


@entry
def _link_rivals(s: State, owners: Array, batches: Array) -> None:
    for i in range(len(owners)):
        add_rival(s, owners[i], batches[i])


def _entries(heads: Array, array: Array) -> Array:
    """What the stretches of an array hold, one after the other."""
    return array[_indices(heads)]


def _indices(heads: Array) -> Array:
    lengths = heads["length"]
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    positions: Array = np.arange(total) + np.repeat(heads["start"] - (ends - lengths), lengths)
    return positions


def _stretched(heads: Array) -> Array:
    """Heads of the same stretches, one after the other without room between."""
    new = heads.copy()
    new["capacity"] = new["length"]
    new["start"] = np.cumsum(new["length"]) - new["length"]
    return new


def packed_levels(s: State, used: Array) -> State:
    """Level sets of partitions, and those of an old term that somebody waits for."""
    levels = 2 * s.min_isrs.shape[1]
    is_kept = np.zeros(used["level_sets"][0], bool)
    leaders = s.leaders[: used["leaders"][0]]
    waiting = s.batches[: used["batches"][0]]
    is_kept[leaders["level_set"]] = True
    is_kept[waiting["level_set"][waiting["is_waiting"]]] = True
    position = _positions(is_kept)
    leaders["level_set"] = position[leaders["level_set"]]
    waiting["level_set"] = np.where(
        waiting["is_waiting"], position[np.where(waiting["is_waiting"], waiting["level_set"], 0)], 0
    )
    heads = s.heads[: used["level_sets"][0] * levels][np.repeat(is_kept, levels)]
    indices = _indices(heads)
    used["level_sets"], used["passings"] = int(is_kept.sum()), len(indices)
    return s._replace(
        heads=_stretched(heads), passings=s.passings[indices], stands=s.stands[indices]
    )


def packed_places(s: State, used: Array) -> State:
    """Batches that a follower may be sent, and edges, without what their stretches left behind."""
    n = int(used["leaders"][0])
    places, edges = s.place_heads[:n], s.edge_heads[:n]
    remembered, kept = _entries(places, s.remembered), _entries(edges, s.edges)
    used["remembered"], used["edges"] = len(remembered), len(kept)
    return s._replace(
        place_heads=_stretched(places),
        remembered=remembered,
        edge_heads=_stretched(edges),
        edges=kept,
    )


def _packed_consumers(s: State, used: Array, completed_us: int) -> tuple[State, Array]:
    fetchers = s.fetchers[: used["fetchers"][0]]
    is_open = fetchers["is_session"] | (fetchers["parked_until_us"] >= completed_us)
    is_kept = fetchers["is_kept"] & is_open
    position = _positions(is_kept)
    members = s.memberships[: used["memberships"][0]]
    members = members[members["is_member"] & is_kept[members["fetcher"]]]
    members["fetcher"] = position[members["fetcher"]]
    kept = np.flatnonzero(is_kept)
    fetchers = fetchers[kept]
    fetchers["memberships"] = NOWHERE
    s.leaders["owners"] = NOWHERE
    used["fetchers"], used["memberships"] = len(kept), len(members)
    s = s._replace(fetchers=fetchers, memberships=members)
    _link_memberships(s)
    return s, kept


@entry
def _link_memberships(s: State) -> None:
    for m in range(len(s.memberships)):
        one = s.memberships[m]
        leader, fetcher = s.leaders[one.leader], s.fetchers[one.fetcher]
        one.next_owner, leader.owners = leader.owners, m
        one.next_partition, fetcher.memberships = fetcher.memberships, m


def _packed_sessions(s: State) -> tuple[State, Array]:
    """Sessions of followers that a partition was fetched in last."""
    followers = s.followers[: s.used["leaders"][0]].copy()
    is_kept = np.zeros(len(s.last_fetch_us), bool)
    is_kept[followers["session"][followers["is_known"]]] = True
    sessions = np.where(followers["is_known"], followers["session"], NOWHERE)
    followers["session"] = _positions(is_kept)[sessions]
    kept = np.flatnonzero(is_kept)
    return s._replace(followers=followers, last_fetch_us=s.last_fetch_us[kept]), kept

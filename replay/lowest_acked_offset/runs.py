"""Many heartbeats at once: what ``HeartbeatManager`` does where nothing but offsets changes.

Nearly all heartbeats of a cluster only say how far their broker is. Between two that change who
counts (a broker comes, unfences, stops, falls silent, another controller takes over) the controller
is a minimum over values that never fall, and that is a few passes over arrays
(``timelines.lowest_after``). ``take`` finds the heartbeats that may change more, hands those to the
manager one by one, and everything between them to ``_run``. What it is not sure of it hands over
one by one too: that is slower and never wrong.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from kip_replay.replay.lowest_acked_offset.controller import (
    RESET_OFFSET,
    Heartbeat,
    HeartbeatManager,
)
from kip_replay.replay.lowest_acked_offset.timelines import (
    HIGHEST,
    Bools,
    Ints,
    Lowest,
    climb,
    lowest_after,
)

#: ``Told.unfenced`` while it is not certain who counts.
NOT_CERTAIN = -1
#: A run shorter than this is quicker one by one.
_SHORT = 12


class Events(NamedTuple):
    """What happens to the controller, in its order: arrays of one length.

    A heartbeat (``is_beat``) has the fields of ``Heartbeat``, ``at`` being ``handled_us``. Of
    anything else ``at``, ``broker`` and ``offset`` count: the broker has applied the offset.
    """

    at: Ints
    broker: Ints
    offset: Ints
    is_beat: Bools
    built: Ints
    epoch: Ints
    controller: Ints
    is_fenced: Bools
    want_shut_down: Bools

    def take(self, index: Ints | Bools | slice) -> Events:
        """Some of them."""
        return Events._make(column[index] for column in self)

    def heartbeat(self, i: int) -> Heartbeat:
        """One of them, which is a heartbeat."""
        return Heartbeat(
            controller_id=int(self.controller[i]),
            broker_id=int(self.broker[i]),
            broker_epoch=int(self.epoch[i]),
            handled_us=int(self.at[i]),
            built_us=int(self.built[i]),
            offset=int(self.offset[i]),
            is_fenced=bool(self.is_fenced[i]),
            want_shut_down=bool(self.want_shut_down[i]),
        )

    @classmethod
    def together(cls, parts: Iterable[Events]) -> Events:
        """Events of several, one behind the other."""
        return cls._make(np.concatenate(columns) for columns in zip(*parts, strict=True))


class Told(NamedTuple):
    """``Carried`` of each heartbeat: ``raw`` and ``clamped`` are set where somebody is unfenced."""

    raw: Ints
    clamped: Ints
    unfenced: Ints

    @classmethod
    def nothing(cls, size: int) -> Told:
        """Nothing, to so many."""
        return cls(*(np.full(size, NOT_CERTAIN, np.int64) for _ in cls._fields))


def take(manager: HeartbeatManager, events: Events) -> Told:
    """Apply events in their order. -> what the heartbeats among them are told (others: nothing)."""
    size = len(events.at)
    told = Told.nothing(size)
    beats = np.flatnonzero(events.is_beat)
    offices = beats[1:][events.controller[beats[1:]] != events.controller[beats[:-1]]]
    begin = 0
    for end in (*offices.tolist(), size):
        _take_office(manager, events, told, slice(begin, end))
        begin = end
    return told


def _take_office(manager: HeartbeatManager, events: Events, told: Told, office: slice) -> None:
    """Apply events of which all heartbeats are to one controller."""
    beats = np.flatnonzero(events.is_beat[office])
    if len(beats) and events.controller[office][beats[0]] != manager.controller_id:
        # The first takes it into office, which begins to count everybody's silence anew.
        first = office.start + int(beats[0]) + 1
        for i in range(office.start, first):
            _one(manager, events, told, i)
        office = slice(first, office.stop)
    singles = np.flatnonzero(_may_change_more(manager, events.take(office))) + office.start
    begin = office.start
    for single in (*singles.tolist(), office.stop):
        if single - begin < _SHORT:
            for i in range(begin, single):
                _one(manager, events, told, i)
        else:
            run = slice(begin, single)
            _run(manager, events.take(run), Told(*(column[run] for column in told)))
        if single < office.stop:
            _one(manager, events, told, single)
        begin = single + 1


def _one(manager: HeartbeatManager, events: Events, told: Told, i: int) -> None:
    if not events.is_beat[i]:
        manager.apply(int(events.at[i]), int(events.broker[i]), int(events.offset[i]))
        return
    carried = manager.heartbeat(events.heartbeat(i))
    if carried is not None:
        told.unfenced[i] = carried.unfenced_brokers
        if carried.raw is not None and carried.clamped is not None:
            told.raw[i], told.clamped[i] = carried.raw, carried.clamped


# --- what may change more ------------------------------------------------------------------------


def _may_change_more(manager: HeartbeatManager, events: Events) -> Bools:
    """Which events may change more than an offset."""
    certain = HIGHEST if manager.certain_from_us is None else manager.certain_from_us
    may = events.at < certain
    beats = np.flatnonzero(events.is_beat)
    if not len(beats):
        return may
    stops = events.want_shut_down[beats] & ~events.is_fenced[beats]
    may[beats] |= events.is_fenced[beats]
    if not manager.counts_stopping:
        may[beats] |= stops
    order = np.argsort(events.broker[beats], kind="stable")
    mine = beats[order]
    follows = np.diff(events.broker[mine]) == 0
    one, other = mine[:-1][follows], mine[1:][follows]
    may[other] |= (
        (events.epoch[one] != events.epoch[other])
        | (events.is_fenced[one] != events.is_fenced[other])
        | (events.want_shut_down[one] != events.want_shut_down[other])
        | (events.offset[one] > events.offset[other])
    )
    firsts = mine[np.concatenate(([True], ~follows))]
    for i in firsts.tolist():
        may[i] |= _differs(manager, events, i)
    for i in _silences(manager, events, beats, mine, follows, firsts).tolist():
        may[i] = True
    return may


def _differs(manager: HeartbeatManager, events: Events, i: int) -> bool:
    """A heartbeat differs from what the manager has of its broker in more than a higher offset."""
    broker_id = int(events.broker[i])
    broker = manager.brokers.get(broker_id)
    counted = manager.raw.by_node.get(broker_id)
    if broker is None or counted is None or broker_id not in manager.contact_us:
        return True
    stopping = bool(events.want_shut_down[i] and not events.is_fenced[i])
    was = (broker.epoch, broker.fenced, broker.stopping)
    is_now = (int(events.epoch[i]), bool(events.is_fenced[i]), stopping)
    return was != is_now or bool(events.offset[i] < counted)


def _silences(
    manager: HeartbeatManager,
    events: Events,
    beats: Ints,
    mine: Ints,
    follows: Bools,
    firsts: Ints,
) -> Ints:
    """The heartbeats at which a silent broker may be fenced, and the first after its silence.

    ``beats`` are the places of heartbeats, ``mine`` the same by broker, ``follows`` whether the
    next of ``mine`` is the same broker's, ``firsts`` each broker's first.
    """
    size = len(events.at)
    heard = np.maximum.accumulate(events.at[beats])
    after = manager.fenced_after_us
    back = np.full(len(mine), size)
    back[:-1][follows] = mine[1:][follows]
    came = dict(zip(events.broker[firsts].tolist(), firsts.tolist(), strict=True))
    before = manager.contact_us
    since = np.concatenate((events.at[mine], np.array(list(before.values()), np.int64)))
    back = np.concatenate((back, np.array([came.get(b, size) for b in before], np.int64)))
    fenced_by = np.append(beats, size)[np.searchsorted(heard, since + after)]
    silent = (fenced_by < size) & (fenced_by <= back)
    places = np.concatenate((fenced_by[silent], back[silent]))
    return places[places < size]


# --- where nothing does --------------------------------------------------------------------------


def _run(manager: HeartbeatManager, events: Events, told: Told) -> None:
    """Apply events that change nothing but offsets; fills ``told`` of the heartbeats."""
    nodes, group = np.unique(events.broker, return_inverse=True)
    ids = nodes.tolist()
    counts = np.array([node in manager.raw.by_node for node in ids])
    beats = events.is_beat

    has = np.array([manager.has_applied.get(node, RESET_OFFSET) for node in ids], np.int64)
    applies = beats if manager.applies_reports else np.zeros(len(beats), np.bool_)
    applies = applies | ~beats
    applied = climb(group, np.where(applies, events.offset, has[group]), has)
    reported = np.array([manager.raw.by_node.get(node, RESET_OFFSET) for node in ids], np.int64)
    raw = climb(group, np.where(beats, events.offset, reported[group]), reported)
    lowest_applied = lowest_after(applied, group, counts, _others(manager.applied, ids))
    lowest_raw = lowest_after(raw, group, counts, _others(manager.raw, ids))

    rose = (applied.after > applied.before) & counts[group]
    if lowest_applied is not None:
        noted = (beats | rose) & (lowest_applied > RESET_OFFSET)
        everywhere = manager.applied_everywhere
        everywhere.add_all(events.at[noted], lowest_applied[noted], events.broker[noted])
    value = lowest_applied if manager.tells_applied else lowest_raw
    if value is not None and beats.any():
        told.unfenced[beats] = len(manager.raw.by_node)
        told.raw[beats] = value[beats]
        clamped = np.maximum.accumulate(value[beats])
        if manager.clamped is not None:
            clamped = np.maximum(clamped, manager.clamped)
        told.clamped[beats] = clamped
        manager.clamped = int(clamped[-1])
    _answer(manager, events, told)

    manager.has_applied.update(zip(ids, applied.ends.tolist(), strict=True))
    for lowest, ends in ((manager.applied, applied.ends), (manager.raw, raw.ends)):
        _set_all(lowest, ids, ends)
    manager.contact_us.update(
        zip(events.broker[beats].tolist(), events.at[beats].tolist(), strict=True)
    )


def _others(lowest: Lowest, ids: list[int]) -> int | None:
    """The lowest value of the brokers that are not among these."""
    mine = set(ids)
    return next((value for value, node in lowest.in_order if node not in mine), None)


def _set_all(lowest: Lowest, ids: list[int], values: Ints) -> None:
    now = zip(ids, values.tolist(), strict=True)
    lowest.set_all({node: value for node, value in now if node in lowest.by_node})


def _answer(manager: HeartbeatManager, events: Events, told: Told) -> None:
    """Answers arrive at the first event at or after the moment they were built."""
    places = np.flatnonzero(told.unfenced > 0)
    pending = np.array(manager.answers, np.int64).reshape(-1, 4)
    built, broker, epoch, value = (
        np.concatenate((before, now))
        for before, now in zip(
            pending.T,
            (
                events.built[places],
                events.broker[places],
                events.epoch[places],
                told.clamped[places],
            ),
            strict=True,
        )
    )
    made = np.concatenate((np.full(len(pending), -1), places))
    arrives = _first_at_least(events.at, made, built)
    order = np.lexsort((value, epoch, broker, built, arrives))
    order = order[arrives[order] < len(events.at)]
    _tell(manager, built[order], broker[order], epoch[order], value[order])
    late = arrives == len(events.at)
    manager.answers = list(
        zip(*(column[late].tolist() for column in (built, broker, epoch, value)), strict=True)
    )
    heapq.heapify(manager.answers)


def _first_at_least(at: Ints, after: Ints, wanted: Ints) -> Ints:
    """The first place behind ``after`` where ``at``, which may step back, is at least wanted."""
    size = len(at)
    place = np.maximum(np.searchsorted(np.maximum.accumulate(at), wanted), after + 1)
    ends = np.append(at, HIGHEST)
    while True:
        early = (place < size) & (ends[np.minimum(place, size)] < wanted)
        if not early.any():
            return place
        place[early] += 1


def _tell(manager: HeartbeatManager, at: Ints, broker: Ints, epoch: Ints, value: Ints) -> None:
    """Brokers hear values, in the order of these arrays."""
    if not len(at):
        return
    nodes, group = np.unique(broker, return_inverse=True)
    ids = nodes.tolist()
    by_broker = np.argsort(group, kind="stable")
    ends = np.searchsorted(group[by_broker], np.arange(len(ids) + 1))
    for node, begin, end in zip(ids, ends[:-1], ends[1:], strict=True):
        mine = by_broker[begin:end]
        manager.told_of(node).add_all(at[mine], value[mine])
    # An answer to a former life of a broker tells the new one nothing.
    epochs = np.array([manager.brokers[node].epoch for node in ids], np.int64)
    before = np.array([manager.brokers[node].told for node in ids], np.int64)
    heard = climb(group, np.where(epoch == epochs[group], value, before[group]), before)
    counts = np.array([node in manager.told.by_node for node in ids])
    lowest = lowest_after(heard, group, counts, _others(manager.told, ids))
    if lowest is not None:
        noted = (heard.after > heard.before) & counts[group] & (lowest > RESET_OFFSET)
        noted &= at >= (manager.certain_from_us or 0)
        manager.told_everywhere.add_all(at[noted], lowest[noted], broker[noted])
    for node, highest in zip(ids, heard.ends.tolist(), strict=True):
        manager.brokers[node].told = highest
    _set_all(manager.told, ids, heard.ends)

"""When enough replicas had what: the high watermark and the copied offset, as they rise.

A follower's FETCH at offset X shows that it has everything below X, and it always stands on the
edge of a batch. So a batch with base offset b is on a follower once that has fetched an offset
above b: the last offset is not needed. Two offsets follow from the followers', and only rise:

* the *high watermark*: the smallest of all replicas that must have a batch before acks=all is
  complete (``maybeIncrementLeaderHW``): the maximal ISR, and whoever is caught up and may join it.
  It stands still while the committed ISR is smaller than min.insync.replicas;
* the *copied offset*: the min.insync.replicas-th largest of the leader's and the in-sync
  followers' (KIP-926): that many replicas have everything below it.

The leader has whatever it appended: where its own copy is enough, all that waits is passed, also
batches whose offset is not logged.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .inputs import FETCH, PRODUCE
from .leadership import UNKNOWN_MIN_ISR, Condition, Leaderships
from .log import FOLDED, NOWHERE, NULL, Array, Log, keyed, last_of, running_max, segments

#: replica.lag.time.max.ms: a follower that was caught up within it may hold the high watermark.
LAG_US_MAX = 30_000_000
#: More than any offset.
_ENDLESS = 1 << 43


class Level(NamedTuple):
    """An offset that only rises, after each row; ``alone``: rows where the leader's copy is enough.

    ``responded_us`` and ``latest_us``: when producers are responded to whom a row completes.
    """

    offset: Array
    keys: Array
    alone: Array
    responded_us: Array
    latest_us: Array


class Stands(NamedTuple):
    """Where the followers stand at each row, a column per seat: offset, and its last FETCH."""

    segment: Array
    begin: Array
    offset: Array
    fetch: Array
    in_sync: Array
    members: Array


class Conditions(NamedTuple):
    """``leadership.Condition`` as columns, looked up for each row."""

    term: Array
    leads: Array
    isr_size: Array
    previous_size: Array
    in_sync: Array
    members: Array
    #: A column per variant.
    min_isrs: Array


def conditions_of(conditions: Sequence[Condition], places: Array) -> Conditions:
    """The conditions at positions."""
    numbers = np.array([[*one[:6], *one.min_isrs] for one in conditions], np.int64)
    columns = numbers.reshape(len(conditions), -1)[places]
    return Conditions(*[*columns[:, :6].T, columns[:, 6:]])


def stands_of(log: Log, conditions: Conditions, seats: int) -> Stands:
    """Followers' offsets as they were at each row; they begin anew with each term."""
    segment, begin = segments(log.partition, conditions.term)
    is_fetch = (log.kind == FETCH) | (log.kind == FOLDED)
    shape = (len(segment), seats)
    offset, fetch = np.empty(shape, np.int64), np.empty(shape, np.int64)
    for seat in range(seats):
        last = last_of(is_fetch & (log.seat == seat))
        last[last < begin] = NOWHERE
        fetch[:, seat] = last
        offset[:, seat] = np.where(last == NOWHERE, NOWHERE, log.offset[last])
    bits = np.arange(seats)
    in_sync = (conditions.in_sync[:, None] >> bits & 1).astype(bool)
    members = (conditions.members[:, None] >> bits & 1).astype(bool)
    return Stands(segment, begin, offset, fetch, in_sync, members)


def levels_of(
    log: Log, conditions: Conditions, stands: Stands, joins: Array, reached: Array
) -> list[tuple[Level, Level]]:
    """The high watermark and the copied offset for each variant.

    ``joins``: who of the followers outside the ISR is caught up and may join it.
    ``reached``: a row per row of the log, two columns per variant: where levels were before it, in
    the first rows of segments, else NOWHERE.
    """
    high_watermark = np.where(stands.members | joins, stands.offset, _ENDLESS).min(
        axis=1, initial=_ENDLESS
    )
    in_sync = np.where(stands.in_sync, stands.offset, NOWHERE)
    in_sync = np.sort(in_sync, axis=1)[:, ::-1]
    # What was appended was appended by a leader, whatever is known of it.
    leads = (conditions.leads != 0) | ((log.kind == PRODUCE) & (log.base_offset >= 0))
    is_noted = (log.kind != FOLDED) & leads
    is_nobody = high_watermark == _ENDLESS
    levels = []
    for variant in range(conditions.min_isrs.shape[1]):
        k = conditions.min_isrs[:, variant]
        is_open = is_noted & (k != UNKNOWN_MIN_ISR) & (conditions.isr_size >= np.maximum(k, 0))
        is_alone = is_open & (k <= 1)
        nth = np.clip(k - 2, 0, in_sync.shape[1] - 1)
        copied = np.take_along_axis(in_sync, nth[:, None], 1)[:, 0]
        copied = np.where(is_alone, log.log_end, np.where(is_open, copied, NOWHERE))
        nobody = is_open & is_nobody
        committed = np.where(nobody, log.log_end, np.where(is_open, high_watermark, NOWHERE))
        offsets = [
            running_max(stands.segment, np.maximum(one, reached[:, 2 * variant + which]))
            for which, one in enumerate((committed, copied))
        ]
        alone = np.flatnonzero(nobody), np.flatnonzero(is_alone)
        levels.append(_levels(log, stands, offsets, alone))
    return levels


def _levels(
    log: Log, stands: Stands, offsets: list[Array], alone: tuple[Array, Array]
) -> tuple[Level, Level]:
    """With when producers are responded to: consumers are woken by the high watermark alone."""
    times = [(log.at_us, log.latest_us)] * 2
    if (log.late_us != NULL).any():
        rose = [_rises(stands.begin, one) for one in offsets]
        is_late = rose[0] & (log.late_us != NULL)
        responded_us = np.where(is_late, log.late_us, log.at_us)
        for which, some in enumerate((rose[0], rose[0] | rose[1])):
            is_waiting = is_late & rose[which]
            first_us = _least_since(stands.segment, responded_us, some)
            latest_us = _least_since(stands.segment, log.latest_us, some)
            times[which] = (
                np.where(is_waiting, first_us, log.at_us),
                np.where(is_waiting, latest_us, log.latest_us),
            )
    committed, copied = (
        Level(one, keyed(stands.segment, one), own, *us)
        for one, own, us in zip(offsets, alone, times, strict=True)
    )
    return committed, copied


def _rises(begin: Array, offset: Array) -> Array:
    before = np.append(NOWHERE, offset[:-1])
    before[begin == np.arange(len(begin))] = NOWHERE
    risen: Array = offset > before
    return risen


def _least_since(segment: Array, us: Array, is_one: Array) -> Array:
    """The least of the times of rows from each on: a handler completes all who wait."""
    latest_us = us.max(initial=0)
    ahead = np.where(is_one, latest_us - us, NOWHERE)[::-1]
    largest = running_max(segment.max(initial=0) - segment[::-1], ahead)
    least_us: Array = latest_us - largest[::-1]
    return least_us


def passing(level: Level, stands: Stands, rows: Array, base_offset: Array) -> Array:
    """The row by which a level was above the offsets of batches, from their own on; or NOWHERE."""
    segment = stands.segment[rows]
    first = np.searchsorted(level.keys, keyed(segment, base_offset + 1))
    return _in_segment(stands, rows, np.maximum(first, rows))


def alone_since(level: Level, stands: Stands, rows: Array) -> Array:
    """The row from which on the leader's copy was enough for batches, or NOWHERE."""
    if not len(level.alone):
        return np.full(len(rows), NOWHERE)
    after = np.searchsorted(level.alone, rows)
    first = level.alone[np.minimum(after, len(level.alone) - 1)]
    return _in_segment(stands, rows, np.where(after < len(level.alone), first, len(stands.begin)))


def _in_segment(stands: Stands, rows: Array, found: Array) -> Array:
    n = len(stands.segment)
    there = np.minimum(found, n - 1)
    is_in = (found < n) & (stands.segment[there] == stands.segment[rows])
    return np.where(is_in, there, NOWHERE)


class Fetches(NamedTuple):
    """FETCHes of followers, listing a partition or not, by session and then in order."""

    session: Array
    order: Array
    at_us: Array

    def before(self, session: Array, order: Array) -> Array:
        """When sessions fetched last before events; anything for sessions that never did."""
        codes, coded = np.unique(self.session, return_inverse=True)
        asked = keyed(np.searchsorted(codes, session), order)
        found: Array = self.at_us[np.searchsorted(keyed(coded, self.order), asked) - 1]
        return found

    def since(self, order: int, sessions: Array) -> "Fetches":
        """Those from an event on, and of each session that is named the last one before."""
        is_last = np.append(self.session[1:] != self.session[:-1], True)
        is_last[:-1] |= self.order[1:] >= order
        kept = (self.order >= order) | (is_last & np.isin(self.session, sessions))
        return Fetches(*(column[kept] for column in self))


def merged(parts: Sequence[Fetches]) -> Fetches:
    """FETCHes of increments that follow one another."""
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    places = np.argsort(columns[0], kind="stable")
    return Fetches(*(column[places] for column in columns))


#: What each broker was from an event on: whether unfenced, and its epoch.
Standings = tuple[int, dict[int, tuple[bool, int | None]]]


def caught_up_us(log: Log, stands: Stands, fetches: Fetches) -> Array:
    """When each follower was caught up last, as known at each row, a column per seat."""
    begin_us = int(log.at_us.min()) - 2 * LAG_US_MAX
    end_before = np.append(NOWHERE, log.log_end[:-1])
    is_append = (log.kind == PRODUCE) & (log.base_offset != NOWHERE)
    found = np.empty(stands.fetch.shape, np.int64)
    for seat in range(stands.fetch.shape[1]):
        fetch, offset = stands.fetch[:, seat], stands.offset[:, seat]
        is_own = fetch == np.arange(len(fetch))
        shown_us = np.where(is_own & (offset >= log.log_end), log.at_us, begin_us - 1)
        shown_us = np.where(is_own & (log.kind == FOLDED), log.caught_up_us, shown_us)
        # Whoever stood at the end until now had all that there was when it fetched last.
        rows = np.flatnonzero(is_append & (fetch != NOWHERE) & (offset >= end_before))
        shown_us[rows] = fetches.before(log.session[fetch[rows]], log.order[rows])
        since_begin = np.maximum(shown_us - begin_us, NOWHERE)
        found[:, seat] = running_max(stands.segment, since_begin) + begin_us
    return found


def joins_of(
    log: Log, stands: Stands, caught_up: Array, brokers: Array, standings: Sequence[Standings]
) -> Array:
    """Who of the followers (``brokers``) outside the maximal ISR is caught up and may join it.

    ``Partition.shouldWaitForReplicaToJoinIsr`` and ``isReplicaIsrEligible``: unfenced, not
    stopping, and the epoch it fetches with is its. A broker of which no heartbeat is in the log
    fetches, so it is taken for unfenced.
    """
    joins: Array = (stands.fetch != NOWHERE) & ~stands.members
    for seat in np.flatnonzero(joins.any(axis=0)).tolist():
        is_recent = log.at_us - caught_up[:, seat] <= LAG_US_MAX
        joins[:, seat] &= is_recent | (stands.offset[:, seat] >= log.log_end)
        rows = np.flatnonzero(joins[:, seat])
        epoch = log.epoch[stands.fetch[rows, seat]]
        joins[rows, seat] = _eligible(log.order[rows], epoch, brokers[rows, seat], standings)
    return joins


def _eligible(order: Array, epoch: Array, broker: Array, standings: Sequence[Standings]) -> Array:
    eligible = np.ones(len(order), bool)
    for begin, known in standings if len(order) else ():
        for one, (is_unfenced, now) in known.items():
            some = (order >= begin) & (broker == one)
            is_same = (epoch[some] < 0) | (now is None) | (epoch[some] == now)
            eligible[some] = is_unfenced & is_same
    return eligible


class View(NamedTuple):
    log: Log
    conditions: Conditions
    stands: Stands
    caught_up_us: Array
    levels: list[tuple[Level, Level]]


def view_of(
    log: Log,
    leaderships: Leaderships,
    fetches: Fetches,
    standings: Sequence[Standings],
    reached: Array,
) -> View:
    """All that follows from the rows; ``reached``: by partition, as ``state.Window`` has it."""
    conditions = conditions_of(leaderships.conditions, log.condition)
    brokers = leaderships.brokers
    stands = stands_of(log, conditions, brokers.shape[1])
    caught_up = caught_up_us(log, stands, fetches)
    joins = joins_of(log, stands, caught_up, brokers[log.partition], standings)
    before = reached[log.partition]
    is_first = begins(log) & (before[:, 0] == conditions.term)
    begun = np.where(is_first[:, None], before[:, 1:], NOWHERE)
    levels = levels_of(log, conditions, stands, joins, begun)
    return View(log, conditions, stands, caught_up, levels)


def begins(log: Log) -> Array:
    """Which rows are the first of their partitions."""
    return np.append(True, log.partition[1:] != log.partition[:-1])

"""Batches that nothing still to come can change, and what is known of them then."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ..log_gaps import LogGap
from . import responses as rule
from .appends import Appends
from .holes import WRITTEN_US_MAX
from .inputs import PRODUCE, longs
from .leadership import DOUBTED, UNKNOWN_MIN_ISR
from .levels import View
from .log import NOWHERE, NULL, Array, Log, keyed
from .responses import Batches, Passed, Responses, is_appended
from .state import State

#: How long after its timeout a batch may still be followed, for its exposure and last offset.
FOLLOWED_US_MAX = 60_000_000
#: acks of a PRODUCE that waits for the whole ISR (acks=all).
ACKS_ALL = -1
#: A batch is left alone this long: lines a few milliseconds apart may be out of order.
SETTLE_US = 5_000_000
_NEVER = 1 << 62


class Bounded(NamedTuple):
    """Base offsets as far as they are known, NULL where not, and the offset that follows."""

    base_offset: Array
    least: Array
    most: Array
    is_doubtful: Array
    next_base_offset: Array
    #: When the next one was appended, and whether the last offset is one below it.
    next_us: Array
    is_next_certain: Array


class Outcome(NamedTuple):
    """Of one variant, an entry per batch; nothing that comes after ``settled_us`` changes it."""

    batches: Batches
    committed: Passed
    copied: Passed
    acks_all: Responses
    acks_min_isr: Responses
    settled_us: Array


class Settled(NamedTuple):
    """Batches that are settled, in the order of events; ``rows`` are theirs in the view.

    ``requests``: the PRODUCEs, an entry per batch. ``stands``: followers' offsets at their early
    acks, a table per variant.
    """

    rows: Array
    log: Log
    requests: pa.RecordBatch
    known: Bounded
    has_previous_isr: Array
    outcomes: list[Outcome]
    stands: list[Array]


def settled_of(view: View, state: State, holes: Sequence[LogGap], *, over: bool) -> Settled:
    """The requests all whose batches are settled by now; all of them if the log is over.

    ``holes``: gaps in the leader's log.
    """
    log, requests, front_us = view.log, state.window.requests[0], state.front.at_us
    rows = np.flatnonzero(log.kind == PRODUCE)
    is_open = log.request[rows] != NOWHERE
    known = _at(bounded(log, rows, state.appends, holes), is_open)
    rows = rows[is_open]
    request = log.request[rows]
    timeout_us, acks = longs(requests["timeout_us"])[request], longs(requests["acks"])[request]
    has_previous_isr = is_of_previous_isr(view, rows, acks)
    timeout_us = np.maximum(timeout_us, 0)
    batches = batches_of(view, rows, timeout_us, has_previous_isr)
    known = _until(known, batches, log.log_end[rows])
    found = outcomes(view, state, batches, known, holes)
    settled_us = np.zeros(requests.num_rows, np.int64)
    for one in found:
        np.maximum.at(settled_us, request, one.settled_us)
    some = np.flatnonzero(over | (settled_us[request] <= front_us))
    some = some[np.argsort(request[some], kind="stable")]
    found = [_at(one, some) for one in found]
    return Settled(
        rows[some],
        log.at(rows[some]),
        requests.take(pa.array(request[some])),
        _at(known, some),
        has_previous_isr[some],
        found,
        [view.stands.offset[one.copied.row] for one in found],
    )


def _at(columns: Any, some: Array) -> Any:
    """Some entries of columns, or of tuples of columns."""
    if isinstance(columns, np.ndarray):
        return columns[some]
    return type(columns)(*(_at(column, some) for column in columns))


def bounded(log: Log, rows: Array, appends: Appends, holes: Sequence[LogGap]) -> Bounded:
    """What is known of base offsets; ``rows`` are those of all PRODUCEs."""
    base = log.base_offset[rows]
    base_offset, least, most = base.copy(), base.copy(), base.copy()
    is_doubtful, bounded_us = np.zeros(len(rows), bool), np.full(len(rows), _NEVER)
    for i in np.flatnonzero(base == NULL).tolist():
        unlogged = appends.unlogged.get(int(log.partition[rows[i]]))
        own = unlogged and unlogged.bounds(int(log.order[rows[i]]))
        if own:
            base_offset[i] = NULL if own.base_offset is None else own.base_offset
            least[i], is_doubtful[i] = own.least, own.is_doubtful
            most[i] = NULL if own.most is None else own.most
            bounded_us[i] = _NEVER if own.most is None else own.bounded_us
    is_in_order = log.log_end[rows] == base + 1
    following = _following(log.partition[rows], log.at_us[rows], base, is_in_order)
    is_known = following != NOWHERE
    next_us = np.where(is_known, log.at_us[rows][following], _NEVER)
    blind = np.cumsum(base == NULL)
    markers_us = appends.markers_since_us[log.partition[rows]]
    is_certain = (blind[following] <= blind) & (base != NULL)
    is_certain &= markers_us > np.maximum(next_us, log.at_us[rows] + SETTLE_US)
    for hole in holes:
        is_certain &= (log.at_us[rows] >= hole.before_us) | (
            next_us < hole.after_us - WRITTEN_US_MAX
        )
    next_base = np.where(is_known, base[following], NULL)
    next_us = np.where(base == NULL, bounded_us, next_us)
    return Bounded(base_offset, least, most, is_doubtful, next_base, next_us, is_certain & is_known)


def _following(partition: Array, at_us: Array, base: Array, is_in_order: Array) -> Array:
    """Which batch has the next larger base offset, NOWHERE if none is known.

    The order of handlers is not that of appends, but a batch that comes long after one with a
    larger base offset is a retry, and was appended before.
    """
    logged = np.flatnonzero(base >= 0)
    found = np.full(len(base), NOWHERE)
    keys = keyed(partition[logged], base[logged])
    order = np.argsort(keys, kind="stable")
    logged, keys = logged[order], keys[order]
    place = np.searchsorted(keys, keys, "right")
    waiting = np.flatnonzero(place < len(keys))
    while len(waiting):
        one, other = logged[waiting], logged[place[waiting]]
        is_same = partition[one] == partition[other]
        gap_us = at_us[other] - at_us[one]
        is_next = is_same & (gap_us > -SETTLE_US) & ((gap_us <= SETTLE_US) | is_in_order[other])
        found[one[is_next]] = other[is_next]
        waiting = waiting[is_same & ~is_next]
        place[waiting] += 1
        waiting = waiting[place[waiting] < len(keys)]
    return found


def batches_of(view: View, rows: Array, timeout_us: Array, has_previous_isr: Array) -> Batches:
    """Batches as they were appended, but for what follows from their base offsets."""
    log, conditions = view.log, view.conditions
    at_us, base, isr_sizes = log.at_us[rows], log.base_offset[rows], conditions.isr_size[rows]
    horizon_us = at_us + timeout_us + FOLLOWED_US_MAX
    lost_us, loss = _losses(log, rows, conditions.leads[rows], horizon_us)
    batches = Batches(
        rows,
        at_us,
        deadline_us=at_us + timeout_us,
        until_us=horizon_us,
        base_offset=base,
        least=base,
        most=base,
        is_doubtful=np.zeros(len(rows), bool),
        leads=conditions.leads[rows],
        isr_size=np.where(has_previous_isr, conditions.previous_size[rows], isr_sizes),
        min_isr=conditions.min_isrs[rows, 0],
        recorded_min_isr=conditions.min_isrs[rows, 0],
        lost_us=lost_us,
        loss=loss,
    )
    # Of what is over at once, nothing later counts: not even that the leader is lost.
    ended_us = np.where(_is_over_at_once(batches), at_us, np.maximum(at_us, lost_us)) + SETTLE_US
    return batches._replace(until_us=np.where(_is_over(batches), ended_us, horizon_us))


def _is_over(b: Batches) -> Array:
    """Of which batches nothing is to be waited for."""
    is_over: Array = (b.lost_us != NULL) | _is_over_at_once(b)
    return is_over


def _is_over_at_once(b: Batches) -> Array:
    is_over: Array = (b.isr_size == NOWHERE) | ~is_appended(b)
    return is_over


def _until(known: Bounded, b: Batches, log_end: Array) -> Bounded:
    """Without what was known too late."""
    is_late = known.next_us > b.until_us
    is_open = is_late & (b.base_offset == NULL)
    return known._replace(
        base_offset=np.where(is_open, NULL, known.base_offset),
        least=np.where(is_open, np.minimum(known.least, log_end - 1), known.least),
        most=np.where(is_open, NULL, known.most),
        next_base_offset=np.where(is_late, NULL, known.next_base_offset),
        next_us=np.where(is_late, _NEVER, known.next_us),
        is_next_certain=known.is_next_certain & ~is_late,
    )


def outcomes(
    view: View, state: State, b: Batches, known: Bounded, holes: Sequence[LogGap]
) -> list[Outcome]:
    """What each variant gives for batches."""
    doubts, front_us = state.brokers.doubts, state.front.at_us
    b = b._replace(least=known.least, most=known.most, is_doubtful=known.is_doubtful)
    min_isrs = view.conditions.min_isrs[b.row].T
    found = []
    for min_isr, levels in zip(min_isrs, view.levels, strict=True):
        b = b._replace(min_isr=min_isr)
        is_refused, _, _ = rule.refusals(b)
        is_over = _is_over(b)
        next_us = np.where(is_over, b.lost_us, known.next_us)
        # Whether the high watermark passes what was appended beside a small ISR, as recorded.
        is_followed = is_refused & (min_isr == b.recorded_min_isr) & (min_isr != UNKNOWN_MIN_ISR)
        is_done = is_over | (is_refused & ~is_followed & (next_us != _NEVER))
        ended_us = np.maximum(b.appended_us, next_us) + SETTLE_US
        own = b._replace(until_us=np.where(is_done, np.minimum(ended_us, b.until_us), b.until_us))
        passed = [rule.acknowledged(own, one, view.log, view.stands) for one in levels]
        for one, is_needed in zip(passed, (True, ~is_followed), strict=True):
            passed_us = np.where(one.decided_us == NULL, _NEVER, one.decided_us)
            later_us = np.maximum(next_us, passed_us)
            next_us = np.where(~is_done & is_needed, later_us, next_us)
        settled_us = np.maximum(b.appended_us, next_us) + SETTLE_US
        both = [rule.responses(own, one, doubts, holes, front_us) for one in passed]
        settled_us = np.minimum(settled_us, b.until_us)
        passed[0] = _shown(own, passed[0], holes)
        found.append(Outcome(*[own, *passed, *both, settled_us]))
    return found


def _shown(b: Batches, committed: Passed, holes: Sequence[LogGap]) -> Passed:
    """When the high watermark passed, NULL where lines that it rests on are missing."""
    at_us = committed.at_us
    is_late = (b.loss == DOUBTED) & (b.lost_us != NULL) & (at_us > b.lost_us)
    is_hidden = rule.is_touched(b, at_us, holes) | is_late
    return committed._replace(at_us=np.where(is_hidden, NULL, at_us))


def is_of_previous_isr(view: View, rows: Array, acks: Array) -> Array:
    """Which batches the leader took before it applied what made the ISR too small."""
    log, conditions = view.log, view.conditions
    is_small = conditions.isr_size[rows] < conditions.min_isrs[rows, 0]
    was_checked = (acks == ACKS_ALL) & (log.base_offset[rows] >= 0)
    is_previous: Array = was_checked & is_small & (conditions.isr_size[rows] != NOWHERE)
    return is_previous


def _losses(log: Log, rows: Array, leads: Array, until_us: Array) -> tuple[Array, Array]:
    """When the leader lost its leadership while batches waited, NULL if it did not; and how."""
    lost = np.append(np.flatnonzero(log.loss), len(log.loss) - 1)
    after = lost[np.minimum(np.searchsorted(lost, rows), len(lost) - 1)]
    is_lost = (log.loss[after] != 0) & (after >= rows) & (log.at_us[after] <= until_us)
    is_lost &= log.partition[after] == log.partition[rows]
    lost_us = np.where(is_lost, log.at_us[after], NULL)
    was_lost = (leads == 0) & (log.base_offset[rows] >= 0)
    return np.where(was_lost, log.at_us[rows], lost_us), np.where(was_lost, 0, log.loss[after])

"""incremental_fetch swept: slots for sessions against bytes, and against sessions without one."""

from kip_replay.pipelines.page import curves, words
from kip_replay.pipelines.page.values import At
from kip_replay.pipelines.page.view import Chart
from kip_replay.pipelines.rules.incremental_fetch.figures import CACHE_SLOTS, Figures
from kip_replay.replay.incremental_fetch import INCREMENTAL
from kip_replay.replay.incremental_fetch.cache import SHARDS

_SLOTS = "slots"
_KNEE = "knee: {} slots are enough for"


def charts(one: Figures) -> list[Chart]:
    """Bytes besides records, and sessions refused and evicted, by slots; nothing where none was
    swept. The knee is no matter of shape: one slot fewer in each shard, and somebody has none."""
    slots = _slots(one)
    bytes_at = {n: one.rates(INCREMENTAL, at=at).overhead for n, at in slots.items()}
    knee = f"{_KNEE} {'those counted' if one.not_counted else 'all'}"
    marks = curves.recorded_marks(one.slots_in_force) + curves.knee_marks(one.fewest_slots, knee)
    lost = [
        curves.line(event, style, {n: one.events(at).get(event, 0) for n, at in slots.items()})
        for event, style in (("refused", "without"), ("evicted", "other"))
    ]
    note = f"by {CACHE_SLOTS} of each broker (fewer than {SHARDS} are none)"
    of_bytes = "Bytes a second besides records", note, (_SLOTS, "B/s")
    of_lost = "Sessions without a slot", _peak(one), (_SLOTS, "sessions")
    of = [curves.line("with sessions", "with", bytes_at)] if any(bytes_at.values()) else []
    return [
        *curves.chart(*of_bytes, of, marks, is_log=True),
        *curves.chart(*of_lost, lost, marks, is_log=True),
    ]


def _slots(one: Figures) -> dict[int, At]:
    """Where to read each number of slots: the sweep's, the one in force, the fewest enough."""
    slots: dict[int, At] = {n: n for n in one.swept}
    of_shard: dict[int, At] = {n // SHARDS: n for n in slots}
    enough = one.fewest_slots
    for n in (*one.slots_in_force, enough) if slots else ():
        if n is not None and enough is not None and n >= enough:
            slots.setdefault(n, None)
        elif n is not None and n // SHARDS in of_shard:
            slots.setdefault(n, of_shard[n // SHARDS])
    return slots


def _peak(one: Figures) -> str:
    peaks = one.peak_sessions
    if not peaks:
        return "no session was created"
    most = max(peaks, key=lambda node: (peaks[node], -node))
    text = f"at most {words.count(peaks[most], 'session')} at once, on broker {most}"
    if one.not_counted:
        began = words.count(one.not_counted, "session")
        text += f"; {began} that began before the log not counted"
    return text

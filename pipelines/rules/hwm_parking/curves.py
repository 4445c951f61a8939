"""hwm_parking swept: the longest wait of a FETCH against the lag, and against FETCHes a second."""

from kip_replay.pipelines.page import curves, words
from kip_replay.pipelines.page.values import At
from kip_replay.pipelines.page.view import Chart, Line
from kip_replay.pipelines.rules.hwm_parking.figures import Figures
from kip_replay.replay.hwm_parking import WITH_KIP, WITHOUT_KIP
from kip_replay.replay.outcomes import RECORDED

_WAIT = "maxWaitMs, ms"
_KNEE = "knee without KIP-1166: {} ms"
_MEANING = "below the knee little less for many more FETCHes"


def charts(one: Figures) -> list[Chart]:
    """Lag, and FETCHes a second, by the longest wait; nothing where none was swept."""
    lags: list[Line] = []
    rates: list[Line] = []
    for variant in (WITHOUT_KIP, WITH_KIP, RECORDED):
        waits = _waits(one, swept=variant != RECORDED)
        named = words.variant_name(variant), words.variant_class(variant)
        spreads = {wait: one.lag(variant, at=at) for wait, at in waits.items()}
        lags += curves.lines(*named, spreads, ("p50", "p99"))
        fetches = {wait: one.rates(variant, at=at).fetches for wait, at in waits.items()}
        rates += [curves.line(*named, fetches)] if any(fetches.values()) else []
    marks = curves.recorded_marks({*(one.max_wait_ms or ())}, " ms")
    marks += curves.knee_marks(at_knee := knee(one), _KNEE)
    note = curves.note("by the longest wait of a FETCH", at_knee, _MEANING)
    of_lag = f"Lag of {words.kind_name(one.lag_kind)}", note
    of_rate = "FETCHes a second", "of all replicas, by their longest wait"
    return [
        *curves.chart(*of_lag, (_WAIT, "ms"), lags, marks, is_log=True),
        *curves.chart(*of_rate, (_WAIT, "FETCHes/s"), rates, marks, is_log=True),
    ]


def knee(one: Figures) -> int | None:
    """The longest wait that takes most of the lag without KIP-1166 away, for few FETCHes; with it
    the lag is the same whatever the wait."""
    places = _waits(one).items()
    fetches = {wait: one.rates(WITHOUT_KIP, at=at).fetches for wait, at in places}
    lags = {wait: curves.percentile(one.lag(WITHOUT_KIP, at=at), "p50") for wait, at in places}
    return curves.knee({wait: (fetches[wait], lags[wait]) for wait in fetches})


def _waits(one: Figures, *, swept: bool = True) -> dict[int, At]:
    """Where to read each wait: the values of the sweep, and the one that was recorded."""
    waits: dict[int, At] = {wait: wait for wait in one.swept} if swept else {}
    recorded = {*(one.max_wait_ms or ())}
    # FETCHes that waited for different times have no one place on the axis.
    return waits | dict.fromkeys(recorded) if len(recorded) == 1 else waits

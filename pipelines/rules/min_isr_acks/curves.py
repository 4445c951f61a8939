"""min_isr_acks swept: min.insync.replicas against how long producers wait, and against exposure."""

from kip_replay.pipelines.page import curves, words
from kip_replay.pipelines.page.values import At
from kip_replay.pipelines.page.view import Chart, Mark
from kip_replay.pipelines.rules.min_isr_acks.figures import LATENCY, Figures
from kip_replay.replay.min_isr_acks import ACKS_MIN_INSYNC_REPLICAS

_SHOWN = ("p50", "p99")
_KNEE = "knee: {}"
_MEANING = "above the knee they wait for a slower replica"


def charts(one: Figures) -> list[Chart]:
    """Waits with acks=min.insync.replicas, and exposure, by min.insync.replicas; nothing where none
    was swept.

    A value with which every PRODUCE is refused makes nobody wait: it is a gap.
    """
    values: dict[int, At] = {value: value for value in one.swept}
    if values and len(one.in_force) == 1:
        values.setdefault(one.in_force[0], None)
    values = {value: at for value, at in values.items() if one.refused(at) < 1}
    waits = {v: one.spread(LATENCY, ACKS_MIN_INSYNC_REPLICAS, at=at) for v, at in values.items()}
    exposures = {value: one.exposure(at) for value, at in values.items()}
    knee = curves.knee({v: (v, curves.percentile(wait, "p99")) for v, wait in waits.items()})
    refused = [
        Mark(value, "refused", f"with {value}, {_share(one.refused(value))} are refused")
        for value in one.swept
        if one.refused(value)
    ]
    return curves.chart(
        "Wait against exposure",
        curves.note("PRODUCEs as they arrived, by this setting of every topic", knee, _MEANING),
        ("min.insync.replicas", "ms"),
        [
            *curves.lines("wait", "with", waits, _SHOWN),
            *curves.lines("exposure", "other", exposures, _SHOWN),
        ],
        [*curves.recorded_marks(one.in_force), *curves.knee_marks(knee, _KNEE), *refused],
    )


def _share(refused: float) -> str:
    return f"{words.number(refused * 100, 0 if refused == 1 else 1)} %"

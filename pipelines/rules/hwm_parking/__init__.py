"""hwm_parking (KIP-1166) over Spark."""

from kip_replay.pipelines.rules.hwm_parking import events, measures
from kip_replay.pipelines.rules.registration import RuleSteps
from kip_replay.replay.rules import HWM_PARKING

STEPS = RuleSteps(
    rule=HWM_PARKING,
    replayed=events.replayed_hwm_parking,
    facts=events.facts,
    rows=events.outcome_rows,
    latencies=measures.latencies,
    bandwidth=measures.bandwidth,
    predictions=measures.predictions,
    tolerances=measures.TOLERANCES,
)

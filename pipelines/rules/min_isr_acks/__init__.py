"""min_isr_acks (KIP-926) over Spark."""

from kip_replay.pipelines.rules.min_isr_acks import events, measures
from kip_replay.pipelines.rules.registration import RuleSteps
from kip_replay.replay.rules import MIN_ISR_ACKS

STEPS = RuleSteps(
    rule=MIN_ISR_ACKS,
    replayed=events.replayed_min_isr_acks,
    facts=events.facts,
    rows=events.outcome_rows,
    latencies=measures.latencies,
    bandwidth=None,
    predictions=measures.predictions,
    tolerances=measures.TOLERANCES,
)

"""lowest_acked_offset (draft KIP) over Spark."""

from kip_replay.pipelines.rules.lowest_acked_offset import events, measures
from kip_replay.pipelines.rules.registration import RuleSteps
from kip_replay.replay.rules import LOWEST_ACKED_OFFSET

STEPS = RuleSteps(
    rule=LOWEST_ACKED_OFFSET,
    replayed=events.replayed_lowest_acked_offset,
    facts=events.facts,
    rows=events.outcome_rows,
    latencies=measures.latencies,
    bandwidth=None,
    predictions=measures.predictions,
    tolerances=measures.TOLERANCES,
    rules_before=1,
)

"""incremental_fetch (KIP-227) over Spark."""

from kip_replay.pipelines.rules.incremental_fetch import events, measures
from kip_replay.pipelines.rules.registration import RuleSteps
from kip_replay.replay.rules import INCREMENTAL_FETCH

STEPS = RuleSteps(
    rule=INCREMENTAL_FETCH,
    replayed=events.replayed_incremental_fetch,
    facts=events.facts,
    rows=events.outcome_rows,
    latencies=None,
    bandwidth=measures.bandwidth,
    predictions=measures.predictions,
    tolerances=measures.TOLERANCES,
)

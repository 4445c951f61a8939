"""hwm_parking (KIP-1166) over Spark."""

from kip_replay.pipelines.rules.hwm_parking import events, measures
from kip_replay.pipelines.rules.hwm_parking.figures import Figures
from kip_replay.pipelines.rules.hwm_parking.judgement import JUDGEMENT
from kip_replay.pipelines.rules.registration import RuleSteps
from kip_replay.replay.hwm_parking.registration import RULE
from kip_replay.replay.hwm_parking.replay import LOOKAHEAD_US, STEPS_PER_LOOKAHEAD

STEPS = RuleSteps(
    rule=RULE,
    events=events.events,
    dependencies=events.dependencies,
    latencies=measures.latencies,
    bandwidth=measures.bandwidth,
    judgement=JUDGEMENT,
    # The step after the look ahead, with another for the row that makes it.
    behind_us=LOOKAHEAD_US + 2 * LOOKAHEAD_US // STEPS_PER_LOOKAHEAD,
    curves=Figures.CURVES,
)

"""hwm_parking (KIP-1166) over Spark."""

from kip_replay.pipelines.rule_steps import RuleSteps
from kip_replay.pipelines.rules.hwm_parking import curves, events, measures, slowest
from kip_replay.pipelines.rules.hwm_parking.figures import Figures
from kip_replay.pipelines.rules.hwm_parking.judgement import JUDGEMENT
from kip_replay.pipelines.rules.hwm_parking.section import section
from kip_replay.pipelines.rules.hwm_parking.timelines import TIMELINES
from kip_replay.pipelines.rules.hwm_parking.words import WORDS
from kip_replay.replay.hwm_parking.registration import BEHIND_US, RULE

STEPS = RuleSteps(
    rule=RULE,
    events=events.events,
    dependencies=events.dependencies,
    latencies=measures.latencies,
    bandwidth=measures.bandwidth,
    judgement=JUDGEMENT,
    behind_us=BEHIND_US,
    figures=Figures,
    section=section,
    words=WORDS,
    timelines=TIMELINES,
    curves=curves.charts,
    slowest=slowest.slowest,
)

"""lowest_acked_offset (draft KIP) over Spark."""

from kip_replay.pipelines.rule_steps import RuleSteps
from kip_replay.pipelines.rules.lowest_acked_offset import curves, events, measures, slowest
from kip_replay.pipelines.rules.lowest_acked_offset.figures import Figures
from kip_replay.pipelines.rules.lowest_acked_offset.judgement import JUDGEMENT
from kip_replay.pipelines.rules.lowest_acked_offset.section import section
from kip_replay.pipelines.rules.lowest_acked_offset.timelines import TIMELINES
from kip_replay.pipelines.rules.lowest_acked_offset.words import WORDS
from kip_replay.replay.lowest_acked_offset.registration import RULE

STEPS = RuleSteps(
    rule=RULE,
    events=events.events,
    dependencies=events.dependencies,
    latencies=measures.latencies,
    bandwidth=None,
    judgement=JUDGEMENT,
    figures=Figures,
    section=section,
    words=WORDS,
    timelines=TIMELINES,
    curves=curves.charts,
    slowest=slowest.slowest,
    follows=("hwm_parking",),
)

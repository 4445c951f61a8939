"""min_isr_acks (KIP-926) over Spark."""

from kip_replay.pipelines.rule_steps import RuleSteps
from kip_replay.pipelines.rules.min_isr_acks import curves, events, measures, slowest
from kip_replay.pipelines.rules.min_isr_acks.figures import Figures
from kip_replay.pipelines.rules.min_isr_acks.judgement import JUDGEMENT
from kip_replay.pipelines.rules.min_isr_acks.section import section
from kip_replay.pipelines.rules.min_isr_acks.timelines import TIMELINES
from kip_replay.pipelines.rules.min_isr_acks.words import WORDS
from kip_replay.replay.min_isr_acks.registration import RULE

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
)

"""incremental_fetch (KIP-227) over Spark."""

from kip_replay.pipelines.rule_steps import RuleSteps
from kip_replay.pipelines.rules.incremental_fetch import curves, events, measures, slowest
from kip_replay.pipelines.rules.incremental_fetch.figures import Figures
from kip_replay.pipelines.rules.incremental_fetch.judgement import JUDGEMENT
from kip_replay.pipelines.rules.incremental_fetch.section import section
from kip_replay.pipelines.rules.incremental_fetch.timelines import TIMELINES
from kip_replay.pipelines.rules.incremental_fetch.words import WORDS
from kip_replay.replay.incremental_fetch.registration import RULE

STEPS = RuleSteps(
    rule=RULE,
    events=events.events,
    dependencies=events.dependencies,
    latencies=None,
    bandwidth=measures.bandwidth,
    judgement=JUDGEMENT,
    figures=Figures,
    section=section,
    words=WORDS,
    timelines=TIMELINES,
    curves=curves.charts,
    slowest=slowest.slowest,
)

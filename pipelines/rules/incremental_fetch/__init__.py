"""incremental_fetch (KIP-227) over an engine."""

from kip_replay.pipelines.replaying.seam import NAMES_OF_TOPICS
from kip_replay.pipelines.rules.incremental_fetch import curves, slowest
from kip_replay.pipelines.rules.incremental_fetch.figures import Figures
from kip_replay.pipelines.rules.incremental_fetch.section import section
from kip_replay.pipelines.rules.steps import RuleSteps
from kip_replay.replay.incremental_fetch.registration import RULE
from kip_replay.replay.log_tables import FETCHES

STEPS = RuleSteps(
    rule=RULE,
    needs=FETCHES,
    parts=NAMES_OF_TOPICS,
    figures=Figures,
    section=section,
    curves=curves.charts,
    slowest=slowest.slowest,
)

"""sooner_fetches over an engine: all else stands in its texts."""

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.replay.sooner_fetches.registration import RULE

STEPS = SummedRule(rule=RULE)

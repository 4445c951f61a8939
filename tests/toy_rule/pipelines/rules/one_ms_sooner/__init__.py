"""one_ms_sooner over an engine: all else stands in its texts."""

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.replay.one_ms_sooner.registration import RULE

STEPS = SummedRule(rule=RULE)

"""The rules over an engine: each has its texts, settings and page in a folder here.

They are replayed in the order of ``RULES``: a rule may read the outcomes of one before it.
"""

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.replay import rules

_RULES = [SummedRule(rule=rule) for rule in rules.RULES.values()]
RULES = tuple(sorted(_RULES, key=lambda rule: (len(rule.file.follows), rule.name)))

"""one_ms_sooner as the seam runs it."""

from kip_replay.replay import one_ms_sooner
from kip_replay.replay.rule import Rule

RULE = Rule(
    name=one_ms_sooner.RULE,
    key=("recording", "node_id"),
    order=("built_us", "request_id"),
    input_schema=one_ms_sooner.INPUT_SCHEMA,
    tables=(one_ms_sooner.SOONER_OUTCOMES,),
    start=lambda settings, key, saved: one_ms_sooner.OneMsSooner(
        **settings.facts_of(one_ms_sooner.RULE, str(key["recording"]))
    ),
)

"""sooner_fetches as the seam runs it."""

from kip_replay.replay import sooner_fetches
from kip_replay.replay.rule import Rule

RULE = Rule(
    name=sooner_fetches.RULE,
    key=("recording", "node_id"),
    order=("built_us", "request_id"),
    input_schema=sooner_fetches.INPUT_SCHEMA,
    tables=(sooner_fetches.Sooner,),
    start=lambda settings, key, saved: sooner_fetches.SoonerFetches(
        **settings.facts_of(sooner_fetches.RULE, str(key["recording"]))
    ),
)

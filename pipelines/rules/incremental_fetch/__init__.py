"""incremental_fetch (KIP-227) over an engine."""

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.replay.incremental_fetch.registration import RULE
from kip_replay.replay.incremental_fetch.streams import Unknown
from kip_replay.replay.log_tables import Fetches
from kip_replay.replay.model.fetch_session import SHARDS

STEPS = SummedRule(
    rule=RULE,
    needs=Fetches,
    constants={"shards": SHARDS, "began_before_log": Unknown.BEGAN_BEFORE_LOG.value},
    sums=("named_topics",),
)

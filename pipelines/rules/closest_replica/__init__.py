"""closest_replica (KIP-392) over an engine."""

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.replay.closest_replica.events import PROGRESS_US_MAX, Kind
from kip_replay.replay.closest_replica.outcomes import Unknown
from kip_replay.replay.closest_replica.registration import RULE
from kip_replay.replay.log_tables import Fetches

STEPS = SummedRule(
    rule=RULE,
    needs=Fetches,
    constants={
        "kinds": [*map(str, Kind)],
        "progress_us_max": PROGRESS_US_MAX,
        "older": Unknown.OFFSET.value,
    },
    sums=("named_topics", "read_partitions", "leader_terms", "broker_racks"),
)

"""closest_replica (KIP-392) over an engine."""

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.pipelines.folders import ROOT
from kip_replay.pipelines.replaying.rule_texts import NAMES_OF_TOPICS
from kip_replay.replay.closest_replica.events import PROGRESS_US_MAX, Kind
from kip_replay.replay.closest_replica.outcomes import Unknown
from kip_replay.replay.closest_replica.registration import RULE
from kip_replay.replay.log_tables import FETCHES

FOLDER = ROOT / "pipelines" / "rules" / "closest_replica"
SUMS = ("read_partitions", "leader_terms", "broker_racks")

STEPS = SummedRule(
    rule=RULE,
    needs=FETCHES,
    constants={
        "kinds": [*map(str, Kind)],
        "progress_us_max": PROGRESS_US_MAX,
        "older": Unknown.OFFSET.value,
    },
    parts={
        **NAMES_OF_TOPICS,
        **{name: FOLDER / f"{name}.sql" for name in (*SUMS, "named_terms")},
    },
    sums=("named_topics", *SUMS),
)

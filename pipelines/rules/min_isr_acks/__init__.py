"""min_isr_acks (KIP-926) over an engine."""

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.replay.log_tables import Produces
from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS
from kip_replay.replay.min_isr_acks.brokers import SCAN_SLACK_US
from kip_replay.replay.min_isr_acks.events import (
    PENDING,
    PROGRESS_US_MAX,
    SILENCE,
    SILENCE_US,
    Kind,
)
from kip_replay.replay.min_isr_acks.isr import STALE_US
from kip_replay.replay.min_isr_acks.registration import RULE
from kip_replay.replay.model.brokers import FENCED_AFTER_US
from kip_replay.replay.outcomes import RECORDED

STEPS = SummedRule(
    rule=RULE,
    needs=Produces,
    constants={
        "kinds": [*map(str, Kind)],
        "progress_us_max": PROGRESS_US_MAX,
        "fenced_us": FENCED_AFTER_US + SCAN_SLACK_US,
        "pending": PENDING,
        "silence": SILENCE,
        "silence_us": SILENCE_US,
        "stale_us": STALE_US,
        "recorded": RECORDED,
        "acks_all": ACKS_ALL,
        "min_isr": ACKS_MIN_INSYNC_REPLICAS,
    },
    sums=("named_topics", "written_partitions", "stated_partitions"),
)

"""The rules over Spark, in the order in which they are replayed.

A rule may read the outcomes of one before it.
"""

from kip_replay.pipelines.rules import (
    hwm_parking,
    incremental_fetch,
    lowest_acked_offset,
    min_isr_acks,
)
from kip_replay.pipelines.rules.registration import RuleSteps

RULES: tuple[RuleSteps, ...] = (
    hwm_parking.STEPS,
    incremental_fetch.STEPS,
    min_isr_acks.STEPS,
    lowest_acked_offset.STEPS,  # reads high_watermark_lag, so after hwm_parking
)

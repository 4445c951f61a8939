"""What is summed up of each rule's outcomes, and which of its figures are held against brokers.

One module a rule, each with the same functions: ``latencies`` and ``bandwidth`` for the summary
tables, ``predictions`` and ``TOLERANCES`` for prediction_accuracy. ``pipelines.rules`` names them.
"""

from pipelines.measures import (
    hwm_parking,
    incremental_fetch,
    lowest_acked_offset,
    min_isr_acks,
)

__all__ = ["hwm_parking", "incremental_fetch", "lowest_acked_offset", "min_isr_acks"]

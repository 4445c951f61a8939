"""The rule's variants and the form of its rows, apart from what is compiled."""

from collections.abc import Sequence

from ..outcomes import Variant
from .tables import PRODUCE_ACK_OUTCOMES

RULE = "min_isr_acks"
ACKS_SCHEMA = PRODUCE_ACK_OUTCOMES.without("recording")
#: The rule's variant; its parameter is none (the config in force) or min_insync_replicas.
ACKS_MIN_INSYNC_REPLICAS = "acks_min_insync_replicas"
#: What summaries call the replay of acks=all; its columns stand in the same rows.
ACKS_ALL = "acks_all"
SWEPT = "min_insync_replicas"


def variants(min_insync_replicas: Sequence[int] = ()) -> list[Variant]:
    """The rule with the config in force, then with each value for all topics."""
    swept = [Variant(ACKS_MIN_INSYNC_REPLICAS, SWEPT, value) for value in min_insync_replicas]
    return [Variant(ACKS_MIN_INSYNC_REPLICAS), *swept]

"""The rules by name, and the names that their rows carry."""

from kip_replay.replay.hwm_parking import EMPTY_WAKE, WITH_KIP, WITHOUT_KIP, Completion
from kip_replay.replay.hwm_parking.registration import RULE as HWM_PARKING
from kip_replay.replay.incremental_fetch import FULL, INCREMENTAL, INCREMENTAL_DRAFT, SESSION_SLOTS
from kip_replay.replay.incremental_fetch.registration import RULE as INCREMENTAL_FETCH
from kip_replay.replay.incremental_fetch.rows import ClientKind
from kip_replay.replay.lowest_acked_offset import FINEST_EVIDENCE, HEARTBEAT_INTERVAL, LOWEST_ACKED
from kip_replay.replay.lowest_acked_offset.registration import RULE as LOWEST_ACKED_OFFSET
from kip_replay.replay.min_isr_acks import ACKS_ALL, ACKS_MIN_INSYNC_REPLICAS
from kip_replay.replay.min_isr_acks.registration import RULE as MIN_ISR_ACKS
from kip_replay.replay.rule import Replay, Rule, Settings

__all__ = [
    "ACKS_ALL",
    "ACKS_MIN_INSYNC_REPLICAS",
    "EMPTY_WAKE",
    "FINEST_EVIDENCE",
    "FULL",
    "HEARTBEAT_INTERVAL",
    "HWM_PARKING",
    "INCREMENTAL",
    "INCREMENTAL_DRAFT",
    "INCREMENTAL_FETCH",
    "LOWEST_ACKED",
    "LOWEST_ACKED_OFFSET",
    "MIN_ISR_ACKS",
    "RULES",
    "SESSION_SLOTS",
    "WITHOUT_KIP",
    "WITH_KIP",
    "ClientKind",
    "Completion",
    "Replay",
    "Rule",
    "Settings",
]

RULES = {
    rule.name: rule for rule in (HWM_PARKING, INCREMENTAL_FETCH, MIN_ISR_ACKS, LOWEST_ACKED_OFFSET)
}

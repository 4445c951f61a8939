"""hwm_parking (KIP-1166) over an engine."""

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.replay.hwm_parking import NO_RESPONSE, NOT_SENT
from kip_replay.replay.hwm_parking.registration import BEHIND_US, RULE
from kip_replay.replay.log_gaps import LOG_GAP
from kip_replay.replay.log_tables import FETCHES

STEPS = SummedRule(
    rule=RULE,
    needs=FETCHES,
    constants={"not_sent": NOT_SENT, "no_response": NO_RESPONSE, "log_gap": LOG_GAP},
    behind_us=BEHIND_US,
)

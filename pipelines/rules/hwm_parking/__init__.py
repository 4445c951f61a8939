"""hwm_parking (KIP-1166) over an engine."""

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.replay.hwm_parking import NO_RESPONSE
from kip_replay.replay.hwm_parking.outcomes import MIDDLE_OF_EPOCH
from kip_replay.replay.hwm_parking.registration import BEHIND_US, RULE
from kip_replay.replay.log_gaps import LOG_GAP
from kip_replay.replay.log_tables import Fetches
from kip_replay.replay.model.raft import NOT_SENT

REASONS = {"log_gap": LOG_GAP, "middle_of_epoch": MIDDLE_OF_EPOCH}

STEPS = SummedRule(
    rule=RULE,
    needs=Fetches,
    constants={"not_sent": NOT_SENT, "no_response": NO_RESPONSE, **REASONS},
    behind_us=BEHIND_US,
)

"""lowest_acked_offset (draft KIP) over an engine."""

from kip_replay.pipelines.analysis.accuracy import SAMPLES_MIN
from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.replay.hwm_parking import NO_RESPONSE, NOT_SENT
from kip_replay.replay.lowest_acked_offset.registration import RULE

STEPS = SummedRule(
    rule=RULE,
    constants={"not_sent": NOT_SENT, "no_response": NO_RESPONSE, "writes_min": SAMPLES_MIN},
    follows=("hwm_parking",),
)

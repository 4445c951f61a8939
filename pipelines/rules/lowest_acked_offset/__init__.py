"""lowest_acked_offset (draft KIP) over an engine."""

from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.pipelines.folders import ROOT
from kip_replay.replay.hwm_parking import NO_RESPONSE, NOT_SENT
from kip_replay.replay.lowest_acked_offset.registration import RULE

#: FETCHes of the metadata log are read as hwm_parking reads them.
FETCHES = ROOT / "pipelines" / "rules" / "hwm_parking" / "events.sql"

STEPS = SummedRule(
    rule=RULE,
    constants={"not_sent": NOT_SENT, "no_response": NO_RESPONSE},
    parts={"metadata_fetches": FETCHES},
    follows=("hwm_parking",),
)

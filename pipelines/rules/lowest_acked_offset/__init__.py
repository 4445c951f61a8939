"""lowest_acked_offset (draft KIP) over an engine."""

from kip_replay.pipelines.folders import ROOT
from kip_replay.pipelines.rules.lowest_acked_offset import curves, slowest
from kip_replay.pipelines.rules.lowest_acked_offset.figures import Figures
from kip_replay.pipelines.rules.lowest_acked_offset.section import section
from kip_replay.pipelines.rules.steps import RuleSteps
from kip_replay.replay.hwm_parking import NO_RESPONSE, NOT_SENT
from kip_replay.replay.lowest_acked_offset.registration import RULE

#: FETCHes of the metadata log are read as hwm_parking reads them.
FETCHES = ROOT / "pipelines" / "rules" / "hwm_parking" / "events.sql"

STEPS = RuleSteps(
    rule=RULE,
    constants={"not_sent": NOT_SENT, "no_response": NO_RESPONSE},
    parts={"metadata_fetches": FETCHES},
    figures=Figures,
    section=section,
    curves=curves.charts,
    slowest=slowest.slowest,
    follows=("hwm_parking",),
)

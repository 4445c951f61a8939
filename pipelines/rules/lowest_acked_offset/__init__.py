"""lowest_acked_offset (draft KIP) over an engine."""

from kip_replay.pipelines.analysis.accuracy import SAMPLES_MIN
from kip_replay.pipelines.analysis.summarize import SummedRule
from kip_replay.pipelines.folders import ROOT
from kip_replay.replay.hwm_parking import NO_RESPONSE, NOT_SENT
from kip_replay.replay.lowest_acked_offset.registration import RULE

FOLDER = ROOT / "pipelines" / "rules"

STEPS = SummedRule(
    rule=RULE,
    constants={"not_sent": NOT_SENT, "no_response": NO_RESPONSE, "writes_min": SAMPLES_MIN},
    parts={
        # FETCHes of the metadata log are read as hwm_parking reads them.
        "metadata_fetches": FOLDER / "hwm_parking" / "events.sql",
        "held_topics": FOLDER / "lowest_acked_offset" / "held_topics.sql",
    },
    follows=("hwm_parking",),
)

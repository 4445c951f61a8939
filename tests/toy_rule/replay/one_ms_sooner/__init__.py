"""one_ms_sooner: what if every response to a FETCH were sent a millisecond sooner?"""

from collections.abc import Sequence

import pyarrow as pa

from kip_replay.replay.outcomes import RECORDED, Variant
from kip_replay.replay.records import (
    At,
    Ms,
    Outcome,
    Records,
    RequiredText,
    column,
    outcome_table,
)
from kip_replay.replay.table import REQUEST_ID

RULE = "one_ms_sooner"
SOONER = "sooner"
INPUT_SCHEMA = pa.schema(
    {"built_us": pa.int64(), "request_id": pa.string(), "dequeued_us": pa.int64()}
)


class Sooner(Outcome, kw_only=True, gc=False):
    """How long each FETCH waits."""

    request_id: RequiredText = column(REQUEST_ID.comment)
    built_at: At = column("the response was built")
    wait_ms: Ms = column("until the response")


SOONER_OUTCOMES = outcome_table("sooner_outcomes", RULE, Sooner, ("request_id",))


class OneMsSooner:
    """The replay of one node's FETCHes."""

    def feed(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        outcomes = Records[Sooner](SOONER_OUTCOMES, RULE)
        for fetch in batch.to_pylist():
            wait_ms = (fetch["built_us"] - fetch["dequeued_us"]) / 1000
            for variant, wait in ((RECORDED, wait_ms), (SOONER, max(0.0, wait_ms - 1))):
                sent = {"request_id": fetch["request_id"], "built_at": fetch["built_us"]}
                outcomes.add(Sooner(variant=Variant(variant), **sent, wait_ms=wait))
        return [outcomes.take()]

    def finish(self) -> Sequence[pa.RecordBatch]:
        return self.feed(pa.RecordBatch.from_pylist([], INPUT_SCHEMA))

    def saved(self) -> bytes:
        return b""

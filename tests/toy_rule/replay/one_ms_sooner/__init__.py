"""one_ms_sooner: what if every response to a FETCH were sent a millisecond sooner?"""

from collections.abc import Sequence

import pyarrow as pa

from kip_replay.replay.outcomes import RECORDED, Rows, Variant, Verdict

from .tables import SOONER_OUTCOMES

RULE = "one_ms_sooner"
SOONER = "sooner"
INPUT_SCHEMA = pa.schema(
    {"built_us": pa.int64(), "request_id": pa.string(), "dequeued_us": pa.int64()}
)


class OneMsSooner:
    """The replay of one node's FETCHes."""

    def feed(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        rows = Rows(SOONER_OUTCOMES.without("recording"))
        for fetch in batch.to_pylist():
            wait_ms = (fetch["built_us"] - fetch["dequeued_us"]) / 1000
            for variant, wait in ((RECORDED, wait_ms), (SOONER, max(0.0, wait_ms - 1))):
                rows.add(
                    **Variant(variant).what_if(RULE),
                    request_id=fetch["request_id"],
                    built_at=fetch["built_us"],
                    wait_ms=wait,
                    verdict=Verdict.REPLAYED,
                )
        return [rows.take()]

    def finish(self) -> Sequence[pa.RecordBatch]:
        return self.feed(pa.RecordBatch.from_pylist([], INPUT_SCHEMA))

    def saved(self) -> bytes:
        return b""

"""sooner_fetches: what if every response to a FETCH were sent 100 ms sooner?"""

from collections.abc import Collection, Sequence

import pyarrow as pa

from kip_replay.replay.records import RECORDED, REQUEST_ID, Outcome, Records, Variant
from kip_replay.replay.rule import Replay, Rule
from kip_replay.replay.table import At, Bool, Ms, RequiredText, column

SOONER = "sooner"
_TIMES, _TEXTS = ("built_us", "dequeued_us"), ("request_id", "client_id")
INPUT_SCHEMA = pa.schema(dict.fromkeys(_TIMES, pa.int64()) | dict.fromkeys(_TEXTS, pa.string()))


class Sooner(Outcome, name="sooner_outcomes", rule="sooner_fetches"):
    """How long each FETCH waits."""

    request_id: RequiredText = REQUEST_ID
    built_at: At = column("the response was built")
    wait_ms: Ms = column("until the response")
    is_slow: Bool = column("its client is one of the manifest's slow_clients")


class SoonerFetches(Replay):
    """The replay of one node's FETCHes; ``slow_clients`` is what its ``rule.toml`` declares."""

    def __init__(self, slow_clients: Collection[str] = ()) -> None:
        self._slow_clients = slow_clients

    def feed(self, batch: pa.RecordBatch) -> Sequence[pa.RecordBatch]:
        outcomes = Records(Sooner)
        for fetch in batch.to_pylist():
            wait_ms = (fetch["built_us"] - fetch["dequeued_us"]) / 1000
            is_slow = fetch["client_id"] in self._slow_clients
            sooner_ms = max(0.0, wait_ms - 100 * (not is_slow))
            for variant, wait in ((RECORDED, wait_ms), (SOONER, sooner_ms)):
                sent = {"request_id": fetch["request_id"], "built_at": fetch["built_us"]}
                outcomes.add(
                    Sooner(variant=Variant(variant), **sent, is_slow=is_slow, wait_ms=wait)
                )
        return [outcomes.take()]


RULE = Rule(
    order=("built_us", "request_id"),
    input_schema=INPUT_SCHEMA,
    tables=(Sooner,),
    start=lambda own, saved: SoonerFetches(**own.facts),
)

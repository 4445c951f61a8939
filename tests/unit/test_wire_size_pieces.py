"""Sums of pieces are whole messages: full FETCHes replayed have the sizes that were recorded."""

from collections.abc import Iterable
from itertools import cycle
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kafka_model.fetch_sessions import Request, Response
from kafka_model.log import fetched, replay_of, requested, returned
from kafka_model.recorded import NodeEndpoint
from wire_messages import fetch_request, fetch_response, names

from kip_replay.replay.incremental_fetch import FULL
from kip_replay.replay.outcomes import RECORDED

#: What a pair has in common, and errors: those that are not read are returned behind the others.
OF_A_PAIR = {"topic_id", "topic", "partition", "error_code"}
Pair = tuple[dict[str, Any], dict[str, Any]]


def check(pairs: list[Pair], versions: Iterable[int], **others: Any) -> None:
    """A full FETCH of partitions as requested and returned."""
    for version in versions:
        by = "topic_id" if version >= 13 else "topic"
        asked, told = (
            [make(pair[0][by], number, **fields(pair[side])) for number, pair in enumerate(pairs)]
            for side, make in enumerate((requested, returned))
        )
        request, response = Request(0, 0, asked, [], version), Response(0, 0, told)
        replayed = replay_of([[fetched(1, request, response, **others)]])
        (full,), (recorded,) = replayed.variant(FULL), replayed.variant(RECORDED)
        for name in ("request_bytes", "response_bytes", "request_partitions", "record_bytes"):
            assert full[name] == recorded[name]


def fields(partition: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in partition.items() if name not in OF_A_PAIR}


@given(request=fetch_request, response=fetch_response, client_id=st.none() | names, data=st.data())
def test_full_fetch(
    request: dict[str, Any], response: dict[str, Any], client_id: str | None, data: Any
) -> None:
    # a topic may come again after another
    asked = data.draw(st.permutations(request["request_partitions"]))
    told = data.draw(st.permutations(response["response_partitions"]))
    assume(asked)  # who fetches nothing sends nothing
    sender = ("replica_id", "replica_epoch", "rack_id", "cluster_id")
    others: dict[str, Any] = {name: request[name] for name in sender} | {"client_id": client_id}
    endpoints = [NodeEndpoint(**endpoint) for endpoint in response["node_endpoints"]]
    pairs = zip(asked, cycle(told or [{}]), strict=False)
    check([*pairs], range(7, 19), node_endpoints=endpoints, **others)


@pytest.mark.parametrize("n", [126, 127, 16_383])
@pytest.mark.parametrize("kind", ["topics", "partitions"])
def test_prefixes_of_long_arrays(n: int, kind: str) -> None:
    of = range(n) if kind == "topics" else [7] * n
    pairs: list[Pair] = [({"topic_id": f"{t:022}", "topic": f"{t:04}"}, {}) for t in of]
    check(pairs, (11, 12, 17))

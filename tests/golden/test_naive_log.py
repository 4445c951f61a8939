"""The naive reader: little as it is, the golden figures stand on it."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from kip_replay.replay.hwm_parking import NOT_SENT, UNKNOWN_OFFSET

from .naive_log import METADATA_TOPIC_ID, Line, SteadyPhase, lines_of, metadata_fetch, percentile

pytestmark = pytest.mark.golden


def logged(asked: dict[str, Any], told: dict[str, Any], **header: Any) -> dict[str, Any]:
    asked = {"partition": 0, "currentLeaderEpoch": 5, "fetchOffset": 15, **asked}
    told = {"partitionIndex": 0, "errorCode": 0, "recordsSizeInBytes": 9, **told}
    return {
        "requestHeader": {
            "requestApiKey": 1,
            "requestApiVersion": 18,
            "correlationId": 7,
            **header,
        },
        "request": {
            "replicaState": {"replicaId": 11},
            "maxWaitMs": 500,
            "topics": [
                {"topicId": METADATA_TOPIC_ID, "partitions": [{"lastFetchedEpoch": 4, **asked}]}
            ],
        },
        "response": {"errorCode": 0, "responses": [{"partitions": [told]}]},
        "totalTimeMs": 10.5,
        "requestQueueTimeMs": 1.25,
        "responseQueueTimeMs": 2.0,
        "sendTimeMs": 0.125,
    }


def line_of(what: dict[str, Any]) -> Line:
    return Line(2, 1, 2, 3, 4, what, "id")


def test_times_follow_the_clock_model(tmp_path: Path) -> None:
    """Stamp at the end of the send; kafka-semantics.md, section 1."""
    path = tmp_path / "controller.log.gz"
    text = json.dumps(logged({}, {}), separators=(",", ":"))
    stamp = "2026-11-20 20:44:00,381"
    with gzip.open(path, "wt") as log:
        log.write(f"[{stamp}] DEBUG Completed request:{text} (kafka.request.logger)\n")

    (line,) = lines_of(path, 2)

    second = 1_795_207_440_000_000
    assert line.completed_us == second + 381_000
    assert line.received_us == second + 370_500
    assert line.dequeued_us == second + 371_750
    assert line.built_us == second + 378_875


@pytest.mark.parametrize(("said", "read"), [({}, NOT_SENT), ({"highWatermark": -1}, -1)])
def test_absent_high_watermark_is_not_an_unknown_one(said: dict[str, int], read: int) -> None:
    fetch = metadata_fetch(line_of(logged(said, {})))
    assert fetch is not None
    assert fetch.high_watermark == read


def test_answer_is_read() -> None:
    fetch = metadata_fetch(line_of(logged({}, {"highWatermark": 15, "divergingEpoch": {}})))
    assert fetch is not None
    assert (fetch.response_high_watermark, fetch.record_bytes) == (15, 9)
    assert (fetch.is_diverging, fetch.is_snapshot) == (True, False)


@pytest.mark.parametrize(("top", "partition", "read"), [(0, 6, 6), (104, 0, 104), (0, 0, 0)])
def test_error_is_the_answers_or_the_partitions(top: int, partition: int, read: int) -> None:
    what = logged({}, {"errorCode": partition})
    what["response"]["errorCode"] = top
    fetch = metadata_fetch(line_of(what))
    assert fetch is not None
    assert fetch.error_code == read


def test_answer_without_partitions_tells_nothing() -> None:
    what = logged({}, {})
    what["response"]["responses"] = []
    fetch = metadata_fetch(line_of(what))
    assert fetch is not None
    assert (fetch.response_high_watermark, fetch.record_bytes) == (UNKNOWN_OFFSET, 0)


def test_other_requests_and_other_topics_are_left_out() -> None:
    other_topic = logged({}, {})
    other_topic["request"]["topics"][0]["topicId"] = "another"
    assert metadata_fetch(line_of(logged({}, {}, requestApiKey=0))) is None
    assert metadata_fetch(line_of(other_topic)) is None


def test_steady_phase_is_half_open() -> None:
    phase = SteadyPhase(10, 20)
    assert [at in phase for at in (9, 10, 19, 20)] == [False, True, True, False]


@pytest.mark.parametrize(("q", "value"), [(0, 1), (0.5, 2), (0.9, 3), (0.99, 3), (1, 4)])
def test_percentile_is_a_value_that_occurred(q: float, value: float) -> None:
    assert percentile([4, 2, 1, 3], q) == value

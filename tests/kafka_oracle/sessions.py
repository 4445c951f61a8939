"""Makes logs of the sessions that Kafka's own classes had (java/SessionsOracle.java)."""

from typing import Any, NamedTuple

from fetch_logs import (
    Key,
    RecordedFetch,
    Request,
    RequestedPartition,
    Response,
    ReturnedPartition,
    requested,
    returned,
    unweighed,
    weighed,
)

SLOTS = (0, 8, 16, 80_000)
_REQUESTED = ("log_start_offset", "partition_max_bytes", "current_leader_epoch")
_RETURNED = ("last_stable_offset", "log_start_offset", "record_bytes", "aborted_transactions")


class Moment(NamedTuple):
    """A FETCH of a client: what it wants, in its order, and what the broker has of that."""

    at_ms: float
    lasts_ms: float
    client: int
    replica_id: int
    connection: int
    by_id: bool
    kind: int
    is_throttled: bool
    wanted: list[RequestedPartition]
    states: list[ReturnedPartition]

    @property
    def number(self) -> str:
        return f"{self.at_ms:014.3f} {self.client:02d}"


class Fetch(NamedTuple):
    """What went over the wire at a moment; the second attempt follows one that was refused."""

    moment: Moment
    attempt: int
    request: Request
    response: Response


class History:
    """What clients want and a broker has, and the FETCHes by the number of slots.

    ``breaks``: requests and responses are lost, and clients change between names and ids, which
    shows only in sessions.
    """

    def __init__(self, drawn: Any) -> None:
        self.breaks: bool = drawn["breaks"]
        topics = drawn["topics"]
        self.names = {topic: name for topic, name in topics if topic != name}
        self.moments = [_moment(topics, *moment) for moment in drawn["moments"]]
        self.fetches = {
            int(slots): [self._fetch(topics, *fetch) for fetch in fetches]
            for slots, fetches in drawn["fetches"].items()
        }

    def _fetch(self, topics: Any, number: int, attempt: int, *of: Any) -> Fetch:
        session_id, epoch, listed, forgotten, error, response_session_id, returns = of
        moment = self.moments[number]
        request = Request(
            session_id,
            epoch,
            [moment.wanted[at] for at in listed],
            [(topics[topic][0], partition) for topic, partition in forgotten],
            17 if moment.by_id else 12,
        )
        states = [moment.states[at] for at in returns]
        return Fetch(moment, attempt, request, Response(error, response_session_id, states))

    def log(self, slots: int) -> list[RecordedFetch]:
        """What a broker with so many slots writes; ``request_id`` ends in the attempt."""
        rows = [_row(*fetch) for fetch in self.fetches[slots]]
        return weighed(sorted(rows, key=lambda row: (row.dequeued_us, row.request_id)))


def _moment(topics: Any, at_us: int, lasts_us: int, *of: Any) -> Moment:
    *scalars, wanted, states = of
    keys: list[Key] = [(topics[topic][0], partition) for topic, partition, *_ in wanted]
    requests = [
        requested(*key, values[2], **dict(zip(_REQUESTED, values[3:6], strict=True)))._replace(
            last_fetched_epoch=values[6]
        )
        for key, values in zip(keys, wanted, strict=True)
    ]
    returns = [_state(key, *values) for key, values in zip(keys, states, strict=True)]
    return Moment(at_us / 1000, lasts_us / 1000, *scalars, requests, returns)


def _state(key: Key, error: int, high_watermark: int, *of: int) -> ReturnedPartition:
    values: dict[str, int | None] = dict(zip(_RETURNED, of, strict=False))
    if of[3] < 0:
        values["aborted_transactions"] = None
    if of[5] >= 0:
        values |= {"diverging_epoch": of[5], "diverging_end_offset": 3}
    values |= {"error_code": error, "preferred_read_replica": of[4]}
    return returned(*key, high_watermark, **values)


def _row(moment: Moment, attempt: int, request: Request, response: Response) -> RecordedFetch:
    throttle_ms = 5.0 if moment.is_throttled else 0.0
    return unweighed(
        moment.at_ms,
        request,
        response,
        # An error is answered at once.
        lasts_ms=0 if response.error in (70, 71, 106) else moment.lasts_ms,
        replica_id=moment.replica_id,
        connection=f"connection {moment.client:02d} {moment.connection}",
        throttle_ms=throttle_ms,
        request_id=f"{moment.number} {attempt}",
    )

"""KIP-227's own example as a request log: a broker with very many partitions, few of them busy.

"Imagine a Kafka installation with 100,000 partitions, most of which receive new messages only
rarely" (KIP-227, Motivation). One broker leads all of them, followers and consumers fetch from it
in turns. Before each turn some partitions, drawn anew from the seed, get one record each. The log
is what Kafka 4.0 would write at DEBUG (FETCH v17), with sessions or without (cache of no slots).

What is simulated, because the rule ``incremental_fetch`` derives it and is held against it:

* the client (``FetchSessionHandler``): lists all partitions, or those whose fetch offset changed,
  in the order of the session; a follower without a session moves partitions it had records of to
  the end (``PartitionStates.updateAndMoveToEnd``);
* the broker (``FetchManager``, ``FetchSession``): answers partitions with records or with another
  high watermark than it told last; those with records go to the end of the session;
* the high watermark: what all followers have fetched, told before the FETCH at hand counts.

Nothing is parked and no limit of bytes is reached. State is NumPy arrays over partitions, so that
writing a FETCH costs little more than its text.
"""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from .real_lines import START

PARTITIONS_PER_TOPIC = 100
NODE_ID = 11
#: Of one record in a batch of its own.
RECORD_BYTES = 178
#: Between two FETCHes.
STEP_MS = 5

Longs = NDArray[np.int64]

_LINE = (
    b"[%b] DEBUG Completed request:"
    b'{"isForwarded":false,"requestHeader":{"requestApiKey":1,"requestApiVersion":17,'
    b'"correlationId":%d,"clientId":"%b","requestApiKeyName":"FETCH"},"request":{%b'
    b'"maxWaitMs":500,"minBytes":1,"maxBytes":%d,"isolationLevel":0,"sessionId":%d,'
    b'"sessionEpoch":%d,"topics":[%b],"forgottenTopicsData":[],"rackId":""},'
    b'"response":{"throttleTimeMs":0,"errorCode":0,"sessionId":%d,"responses":[%b]},'
    b'"connection":"%b","totalTimeMs":%.3f,"requestQueueTimeMs":0.1,"localTimeMs":%.3f,'
    b'"remoteTimeMs":0.0,"throttleTimeMs":0,"responseQueueTimeMs":0.05,"sendTimeMs":0.2,'
    b'"securityProtocol":"PLAINTEXT","principal":"User:ANONYMOUS","listener":"%b",'
    b'"clientInformation":{"softwareName":"%b","softwareVersion":"%b"}}'
    b" (kafka.request.logger)\n"
)
_ASKED = (
    b'{"partition":%%d,"currentLeaderEpoch":0,"fetchOffset":%%d,"lastFetchedEpoch":%d,'
    b'"logStartOffset":%d,"partitionMaxBytes":1048576}'
)
_TOLD = (
    b'{"partitionIndex":%d,"errorCode":0,"highWatermark":%d,"lastStableOffset":%d,'
    b'"logStartOffset":0,"abortedTransactions":null,"preferredReadReplica":-1,'
    b'"recordsSizeInBytes":%d}'
)


@dataclass(frozen=True)
class Example:
    """Size and shape of a log; equal examples give equal bytes.

    ``active`` partitions get a record before each of ``rounds`` turns; in a turn every follower and
    every consumer fetches once.
    """

    partitions: int
    active: int
    rounds: int
    sessions: bool
    followers: int = 2
    consumers: int = 1
    seed: int = 227

    @property
    def clients(self) -> int:
        """Who fetches: the first so many lines are the full FETCHes that start."""
        return self.followers + self.consumers

    @property
    def fetches(self) -> int:
        return self.clients * self.rounds


def topic_ids(example: Example) -> dict[str, str]:
    """Names by topic id; the log itself has only ids (FETCH v13 and later)."""
    topics = -(-example.partitions // PARTITIONS_PER_TOPIC)
    return {_topic_id(topic): f"topic-{topic:04d}" for topic in range(topics)}


def lines(example: Example) -> Iterator[bytes]:
    random = np.random.default_rng(example.seed)
    leader = _Leader(example)
    clients = [_Client.of(number, example) for number in range(example.clients)]
    at = START
    for _ in range(example.rounds):
        leader.append(random.choice(example.partitions, example.active, replace=False))
        for client in clients:
            at += timedelta(milliseconds=STEP_MS)
            stamp = at.strftime("%Y-%m-%d %H:%M:%S,%f")[:-3].encode()
            yield client.fetch(leader, stamp)


def write_log(path: Path, example: Example) -> int:
    with path.open("wb", buffering=1 << 20) as log:
        return sum(map(log.write, lines(example)))


class _Leader:
    """Log end offsets, and how far followers are."""

    def __init__(self, example: Example) -> None:
        n = example.partitions
        self.topics = [_topic_id(topic).encode() for topic in range(len(topic_ids(example)))]
        self.log_end = 1000 + np.arange(n, dtype=np.int64) % 97
        self._followed = np.tile(self.log_end, (example.followers, 1))
        self.high_watermark = self.log_end.copy()

    def append(self, partitions: Longs) -> None:
        self.log_end[partitions] += 1

    def note(self, follower: int, fetch_offset: Longs, changed: Longs) -> None:
        """A follower has everything below what it asks for."""
        self._followed[follower, changed] = fetch_offset[changed]
        self.high_watermark[changed] = self._followed[:, changed].min(axis=0)


@dataclass
class _Client:
    """A replica fetcher or a consumer, and the broker's side of its session.

    Arrays have an element per partition: the next offset, the one last sent, the high watermark
    last told, and the places in the client's own order and in the session's.
    """

    number: int
    is_follower: bool
    sessions: bool
    fetch_offset: Longs
    sent_offset: Longs
    told_high_watermark: Longs
    rank: Longs
    session_rank: Longs
    asked: bytes = b""
    session_id: int = 0
    epoch: int = 0
    correlation_id: int = 0

    @classmethod
    def of(cls, number: int, example: Example) -> Self:
        is_follower, n = number < example.followers, example.partitions
        offsets = 1000 + np.arange(n, dtype=np.int64) % 97
        order = np.arange(n, dtype=np.int64)
        return cls(
            number=number,
            is_follower=is_follower,
            sessions=example.sessions,
            fetch_offset=offsets,
            sent_offset=offsets.copy(),
            told_high_watermark=np.full(n, -1, np.int64),
            rank=order,
            session_rank=order.copy(),
            asked=_ASKED % ((0, 0) if is_follower else (-1, -1)),
        )

    def fetch(self, leader: _Leader, stamp: bytes) -> bytes:
        """One FETCH and its answer, as logged."""
        is_full = self.epoch == 0
        changed = np.flatnonzero(self.fetch_offset != self.sent_offset)
        asked = np.argsort(self.rank, kind="stable") if is_full else changed
        self.sent_offset[changed] = self.fetch_offset[changed]
        asked_text = self._asked_text(asked, leader)

        high_watermark = leader.high_watermark.copy()
        if self.is_follower:
            leader.note(self.number, self.fetch_offset, changed)
        readable = leader.log_end if self.is_follower else high_watermark
        new = readable - self.fetch_offset
        if is_full:
            told = asked
        else:
            has_news = (new > 0) | (high_watermark != self.told_high_watermark)
            told = np.flatnonzero(has_news)
            told = told[np.argsort(self.session_rank[told], kind="stable")]
        told_text = self._told_text(told, high_watermark, new, leader)
        self.told_high_watermark[told] = high_watermark[told]
        line = self._line(stamp, asked_text, told_text, len(told))
        self._take(told[new[told] > 0], readable, is_full)
        return line

    def _take(self, with_records: Longs, readable: Longs, is_full: bool) -> None:
        """The client has the answer."""
        self.fetch_offset[with_records] = readable[with_records]
        if not self.sessions:
            # The first answer moves every partition, which changes nothing.
            if self.is_follower and self.correlation_id > 1:
                _move_to_end(self.rank, with_records)
            return
        self.epoch += 1
        self.session_id = 1_000_000 + self.number
        if not is_full:
            _move_to_end(self.session_rank, with_records)

    def _line(self, stamp: bytes, asked: bytes, told: bytes, answered: int) -> bytes:
        self.correlation_id += 1
        name, listener, software = (
            (b"broker-%d-fetcher-0" % self._replica_id, b"REPL", (b"unknown", b"unknown"))
            if self.is_follower
            else (b"consumer-%d" % self.number, b"CLIENT", (b"apache-kafka-java", b"4.0.0"))
        )
        sender = b'"replicaState":{"replicaId":%d,"replicaEpoch":8},' % self._replica_id
        port = 9094 if self.is_follower else 9092
        local_ms = 0.3 + answered / 1e5  # within STEP_MS: FETCHes do not overlap
        return _LINE % (
            stamp,
            self.correlation_id,
            name,
            sender if self.is_follower else b"",
            10485760 if self.is_follower else 52428800,
            self.session_id,
            self.epoch,
            asked,
            1_000_000 + self.number if self.sessions else 0,
            told,
            b"10.0.0.11:%d-10.0.1.%d:%d-1-%d" % (port, self.number, 40000 + self.number, 1),
            local_ms + 0.35,
            local_ms,
            listener,
            *software,
        )

    @property
    def _replica_id(self) -> int:
        return NODE_ID + 1 + self.number

    def _asked_text(self, partitions: Longs, leader: _Leader) -> bytes:
        index, offset = partitions % PARTITIONS_PER_TOPIC, self.fetch_offset[partitions]
        items = list(map(self.asked.__mod__, zip(index.tolist(), offset.tolist(), strict=True)))
        return _by_topic(partitions, items, leader.topics)

    def _told_text(
        self, partitions: Longs, high_watermark: Longs, new: Longs, leader: _Leader
    ) -> bytes:
        told = high_watermark[partitions].tolist()
        sizes = (np.maximum(new[partitions], 0) * RECORD_BYTES).tolist()
        index = (partitions % PARTITIONS_PER_TOPIC).tolist()
        items = list(map(_TOLD.__mod__, zip(index, told, told, sizes, strict=True)))
        return _by_topic(partitions, items, leader.topics)


def _move_to_end(rank: Longs, partitions: Longs) -> None:
    """The last places, in the order given."""
    first = int(rank.max()) + 1
    rank[partitions] = np.arange(first, first + len(partitions))


def _by_topic(partitions: Longs, items: list[bytes], topics: list[bytes]) -> bytes:
    """Items of neighbours of one topic under its id, as Kafka's builders merge them."""
    if not items:
        return b""
    topic = partitions // PARTITIONS_PER_TOPIC
    starts = [0, *(np.flatnonzero(np.diff(topic)) + 1).tolist()]
    return b",".join(
        b'{"topicId":"%b","partitions":[%b]}' % (topics[topic[start]], b",".join(items[start:end]))
        for start, end in zip(starts, [*starts[1:], len(items)], strict=True)
    )


def _topic_id(topic: int) -> str:
    """A UUID as Kafka prints it: 22 characters of base64url."""
    raw = (0x4B49502D32323700 << 64 | topic + 1).to_bytes(16)
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")

"""KIP-227's own example: a broker with very many partitions, few of them busy.

"Imagine a Kafka installation with 100,000 partitions, most of which receive new messages only
rarely" (KIP-227, Motivation). One broker leads all of them, followers and consumers fetch from it
in turns. Before each turn some partitions, drawn anew from the seed, get one record each. Broker
and clients are those of ``kafka_model``, with sessions or without; nothing is parked.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pyarrow as pa
from kafka_model.fetch_sessions import FetchManager, FetchSessionHandler, Key
from kafka_model.log import batch_of, fetched, names_row, requested, returned
from kafka_model.recorded import RecordedFetch
from recorded_logs import folder_of

from .real_lines import Template, lines_of

PARTITIONS_PER_TOPIC = 100
#: Of one record in a batch of its own.
RECORD_BYTES = 178
#: Between two FETCHes.
STEP_MS = 5
#: Of a batch, so that a few huge FETCHes do not become one.
ROWS, ROW_PARTITIONS = 10_000, 50_000


@dataclass(frozen=True)
class Example:
    """Size and shape of a log.

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
        return self.followers + self.consumers

    @property
    def keys(self) -> list[Key]:
        return [
            (_topic_id(n // PARTITIONS_PER_TOPIC), n % PARTITIONS_PER_TOPIC)
            for n in range(self.partitions)
        ]


def fetches_of(example: Example) -> list[pa.RecordBatch]:
    """Names of topics, then the FETCHes, as ``incremental_fetch`` reads them."""
    names = {topic: topic.strip("_") for topic, _ in example.keys}
    rows = [*_fetches(example, names)]
    size = ROWS if example.sessions else max(1, ROW_PARTITIONS // example.partitions)
    chunks = (rows[i : i + size] for i in range(0, len(rows), size))
    return [batch_of([names_row(names)]), *map(batch_of, chunks)]


def _fetches(example: Example, names: dict[str, str]) -> Iterator[RecordedFetch]:
    random, keys = Random(example.seed), example.keys
    broker = FetchManager(1000 if example.sessions else 0)
    handlers = [FetchSessionHandler(names) for _ in range(example.clients)]
    wanted = [{key: requested(*key, 1000) for key in keys} for _ in handlers]
    found = [{key: returned(*key, 1000) for key in keys} for _ in handlers]
    at_ms = 0.0
    for _ in range(example.rounds):
        for key in random.sample(keys, example.active):
            for listed, state in zip(wanted, found, strict=True):
                end = state[key].high_watermark + 1
                new = (end - listed[key].fetch_offset) * RECORD_BYTES
                state[key] = returned(*key, end, record_bytes=new)
        for client, (handler, listed, state) in enumerate(
            zip(handlers, wanted, found, strict=True)
        ):
            at_ms += STEP_MS
            is_follower = client < example.followers
            context = broker.new_context(handler.build(listed.values()), round(at_ms))
            response = broker.respond(context, state.__getitem__, (), is_follower, round(at_ms))
            handler.handle(response)
            yield fetched(
                at_ms,
                context.request,
                response,
                lasts_ms=1,
                replica_id=12 + client if is_follower else -1,
                connection=str(client),
            )
            for one in response.partitions:
                if one.record_bytes:
                    end = one.high_watermark
                    listed[one.key] = listed[one.key]._replace(fetch_offset=end)
                    state[one.key] = returned(*one.key, end)


def write_log(path: Path, example: Example) -> int:
    """Writes the full FETCHes of the first turn, as lines of a real one; how many bytes."""
    real = next(lines_of(folder_of("sessions-off"), "large"))
    begin, end = real.index(b"{"), real.rindex(b"}") + 1
    line = json.loads(real[begin:end])
    by_topic: dict[str, list[int]] = {}
    for topic, partition in example.keys:
        by_topic.setdefault(topic, []).append(partition)
    lists = (
        (line["request"], "topics", "partition"),
        (line["response"], "responses", "partitionIndex"),
    )
    for message, name, number in lists:
        one = message[name][0]["partitions"][0]
        message[name] = [
            {"topicId": topic, "partitions": [one | {number: n} for n in numbers]}
            for topic, numbers in by_topic.items()
        ]
    text = json.dumps(line, separators=(",", ":")).encode()
    template = Template.of(real[:begin] + text + real[end:])
    with path.open("wb") as log:
        stamps = (b"2026-01-05 00:00:00,%03d" % client for client in range(example.clients))
        return sum(log.write(template.line(stamp, n)) for n, stamp in enumerate(stamps))


def _topic_id(topic: int) -> str:
    """22 characters, as Kafka prints a UUID."""
    return f"topic-{topic:04}".ljust(22, "_")

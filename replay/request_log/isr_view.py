"""ALTER_PARTITION and METADATA: what they say of a partition's leader and ISR, and of topics.

Source: ``AlterPartition{Request,Response}.json``, ``MetadataResponse.json``. ALTER_PARTITION with
a partition error answers ``isr: []``, which is no empty ISR: null here.
"""

from collections.abc import Sequence

import msgspec

from .bodies import Fields, Row, Told, decode
from .envelope import Envelope, Int16, Int32

ALTER_PARTITION = 56
METADATA = 3


class _BrokerState(Fields, frozen=True):
    broker_id: Int32


class _AskedPartition(Fields, frozen=True):
    partition_index: Int32
    leader_epoch: Int32
    partition_epoch: Int32
    new_isr: list[Int32] | None = None
    new_isr_with_epochs: list[_BrokerState] | None = None

    @property
    def isr(self) -> Sequence[int]:
        if self.new_isr_with_epochs is not None:
            return [state.broker_id for state in self.new_isr_with_epochs]
        return self.new_isr or ()


class _AskedTopic(Fields, frozen=True):
    partitions: list[_AskedPartition]
    topic_name: str | None = None
    topic_id: str | None = None


class _AlterRequest(Fields, frozen=True):
    topics: list[_AskedTopic]


class _AnsweredPartition(Fields, frozen=True):
    partition_index: Int32
    error_code: Int16
    leader_id: Int32 = -1
    leader_epoch: Int32 = -1
    isr: tuple[Int32, ...] = ()
    partition_epoch: Int32 = -1


class _AnsweredTopic(Fields, frozen=True):
    partitions: list[_AnsweredPartition]
    topic_name: str | None = None
    topic_id: str | None = None


class _AlterResponse(Fields, frozen=True):
    error_code: Int16 = 0
    topics: tuple[_AnsweredTopic, ...] = ()


class _MetadataPartition(Fields, frozen=True):
    error_code: Int16
    partition_index: Int32
    leader_id: Int32
    replica_nodes: list[Int32]
    isr_nodes: list[Int32]
    leader_epoch: Int32 = -1


class _MetadataTopic(Fields, frozen=True):
    error_code: Int16
    partitions: list[_MetadataPartition]
    name: str | None = None
    topic_id: str | None = None
    is_internal: bool = False


class _MetadataResponse(Fields, frozen=True):
    topics: list[_MetadataTopic]


_alter_request = msgspec.json.Decoder(_AlterRequest)
_alter_response = msgspec.json.Decoder(_AlterResponse)
_metadata_response = msgspec.json.Decoder(_MetadataResponse)

_Key = tuple[str, int]
#: ``UUID.ZERO_UUID``: METADATA answers it where it knows no id.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


def read_alter_partition(envelope: Envelope) -> Told:
    """One row per partition asked for or answered; a top-level error is each partition's."""
    request = decode(envelope.request, _alter_request)
    response = decode(envelope.response, _alter_response)
    rows: dict[_Key, Row] = {}
    answers = _answers(response)
    for topic in request.topics if request else ():
        for asked in topic.partitions:
            key = (topic.topic_name or topic.topic_id or "", asked.partition_index)
            if response is not None and key not in answers:
                error = response.error_code
                row = _altered(topic, None, asked, error)
            else:
                row = _altered(topic, answers.get(key), asked, None)
            rows.setdefault(key, row)
    if request is None and response is not None:
        for told in response.topics:
            for answered in told.partitions:
                key = (told.topic_name or told.topic_id or "", answered.partition_index)
                rows.setdefault(key, _altered(told, answered, None, None))
    return Told(isr_changes=list(rows.values()))


def _answers(response: _AlterResponse | None) -> dict[_Key, _AnsweredPartition]:
    return {
        (topic.topic_name or topic.topic_id or "", partition.partition_index): partition
        for topic in (response.topics if response else ())
        for partition in topic.partitions
    }


def _altered(
    topic: _AskedTopic | _AnsweredTopic,
    answered: _AnsweredPartition | None,
    asked: _AskedPartition | None,
    error: int | None,
) -> Row:
    """The answer where there is a good one, else what was asked."""
    partition = answered or asked
    assert partition is not None
    good = answered is not None and answered.error_code == 0
    said = answered if answered is not None and good else asked or answered
    assert said is not None
    return (
        topic.topic_name or topic.topic_id or "",
        topic.topic_id,
        partition.partition_index,
        answered.leader_id if answered is not None and good else None,
        said.leader_epoch,
        said.partition_epoch,
        None,
        asked.isr if asked else None,
        answered.isr if answered is not None and good else None,
        answered.error_code if answered else error,
    )


def read_metadata(envelope: Envelope) -> Told:
    """Every topic and partition of the answer; the request tells nothing."""
    response = decode(envelope.response, _metadata_response)
    topics: dict[str, Row] = {}
    partitions: dict[_Key, Row] = {}
    for topic in response.topics if response else ():
        topic_id = None if topic.topic_id == _NO_ID else topic.topic_id
        name = topic.name or topic_id or ""
        topics.setdefault(name, _topic(topic, name, topic_id))
        for partition in topic.partitions:
            key = (name, partition.partition_index)
            partitions.setdefault(key, _partition(partition, name, topic_id))
    return Told(isr_changes=list(partitions.values()), topics=list(topics.values()))


def _partition(partition: _MetadataPartition, name: str, topic_id: str | None) -> Row:
    return (
        name,
        topic_id,
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        None,
        partition.replica_nodes,
        None,
        partition.isr_nodes if partition.error_code == 0 else None,
        partition.error_code,
    )


def _topic(topic: _MetadataTopic, name: str, topic_id: str | None) -> Row:
    known = bool(topic.partitions)
    return (
        name,
        topic_id,
        len(topic.partitions) if known else None,
        len(topic.partitions[0].replica_nodes) if known else None,
        topic.is_internal,
        topic.error_code,
    )

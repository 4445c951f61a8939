"""Bytes of whole messages: 4 bytes of frame, a header and a body, for every row of a batch.

Source: ``RequestHeader.json`` (the client id is an int16-length string in every version, so that
any broker can read it), ``ResponseHeader.json``; bodies as ``MessageDataGenerator`` encodes them.

``FetchPieces`` counts what a FETCH lists in single numbers, for a replay that follows a session by
its changes and need not list 100,000 partitions again: a message is a sum, and few of its terms
depend on others (the prefix of an array on its length). What is beside the lists is a message
without any. The tests hold both ways equal.
"""

from collections import Counter
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .columns import (
    UUID_BYTES,
    Bools,
    Columns,
    Ints,
    Nested,
    among,
    array_prefix,
    first_of_topic,
    string_sizes,
    tagged,
    unsigned_varint_bytes,
)
from .layout import APIS, FETCH, Api, Field, Message, Struct

FRAME_BYTES = 4
#: api key, api version, correlation id, length of the client id.
REQUEST_HEADER_BYTES = 2 + 2 + 4 + 2
CORRELATION_ID_BYTES = 4
_FLEXIBLE = np.ones(1, np.bool_)


def request_bytes(api: Api, rows: pa.RecordBatch) -> pa.Int64Array:
    """Sizes each row's request; null without a body or in a version that the schema lacks."""
    columns = Columns(rows.to_struct_array())
    header = FRAME_BYTES + REQUEST_HEADER_BYTES + columns.utf8_lengths("client_id")
    return _message_bytes(api.request, columns, header)


def response_bytes(api: Api, rows: pa.RecordBatch) -> pa.Int64Array:
    """Sizes each row's response; null without a body or in a version that the schema lacks."""
    columns = Columns(rows.to_struct_array())
    header = np.full(len(columns), FRAME_BYTES + CORRELATION_ID_BYTES, np.int64)
    return _message_bytes(api.response, columns, header)


def newer_versions(requests: pa.RecordBatch) -> Counter[tuple[int, int]]:
    """Counts the requests that are newer than the schemas, by API key and version."""
    keys, versions = (requests.column(name) for name in ("api_key", "api_version"))
    newer: Counter[tuple[int, int]] = Counter()
    for key, api in APIS.items():
        is_newer = pc.greater_equal(versions, api.request.versions.stop)
        newer_ones = versions.filter(pc.and_(pc.equal(keys, key), is_newer))
        newer.update((key, version) for version in newer_ones.to_pylist())
    return newer


def _message_bytes(message: Message, columns: Columns, header: Ints) -> pa.Int64Array:
    version = columns.ints("api_version", -1)
    has_size = among(version, message.versions)
    for name in message.present_with:
        has_size &= columns.true_or_present(name)
    # Most batches have one version: its length-1 array stands for all rows.
    if len(version) and (version == version[0]).all():
        version = version[:1]
    # Headers are flexible where bodies are: a byte for their tagged fields.
    size = header + among(version, message.body.flexible)
    size += _struct(message.body, columns, version)
    return pa.array(size, pa.int64(), mask=~has_size)


def _struct(struct: Struct, columns: Columns, version: Ints, without: Field | None = None) -> Ints:
    """Bytes of each element, less a field; ``version``: each one's or, of length 1, that of all."""
    size = np.zeros(len(columns), np.int64)
    size += struct.plain_sizes(version)
    flexible = among(version, struct.flexible)
    for field in struct.varying:
        there = among(version, field.versions)
        if field is not without and there.any():
            value = _tagged if field.is_tagged else _value
            size += there * value(field, columns, version, flexible)
    return size


def _tagged(field: Field, columns: Columns, version: Ints, _: Bools) -> Ints:
    """Bytes of a tagged field, 0 where it has its default: then it is not written."""
    written = _is_written(field, columns)
    if not written.any():
        return np.zeros(len(columns), np.int64)
    return written * tagged(_value(field, columns, version, _FLEXIBLE))


def _is_written(field: Field, columns: Columns) -> Bools:
    if field.is_array and not field.is_nullable:
        return columns.lengths(field.column) > 0
    if field.struct is None or field.is_array:
        return columns.differ(field.column, field.default)
    differ = [columns.differ(inner.column, inner.default) for inner in field.struct.fields]
    written: Bools = np.logical_or.reduce(differ)
    return written


def _value(field: Field, columns: Columns, version: Ints, flexible: Bools) -> Ints:
    if field.is_array:
        return _array(field, columns, version, flexible)
    if field.type == "string":
        return string_sizes(columns.utf8_lengths(field.column), flexible)
    if field.type == "records":
        sizes = columns.ints(field.column)
        return array_prefix(sizes, flexible) + sizes
    return np.zeros(len(columns), np.int64) + field.plain_sizes(version)


def _array(field: Field, columns: Columns, version: Ints, flexible: Bools) -> Ints:
    if pa.types.is_integer(columns.array(field.column).type):
        lengths = columns.ints(field.column)
        return array_prefix(lengths, flexible) + lengths * field.plain_sizes(version)
    elements = columns.nested(field.column)
    if field.partitions is not None:
        return _topics(field, field.partitions, elements, version, flexible)
    sizes = _elements(field, elements.flat, elements.spread(version))
    return array_prefix(elements.lengths, flexible) + elements.sums(sizes)


def _elements(field: Field, flat: Columns, version: Ints) -> Ints:
    if field.struct is not None:
        return _struct(field.struct, flat, version, without=field.partitions)
    return np.zeros(len(flat), np.int64) + field.plain_sizes(version)


def _topics(topics: Field, partitions: Field, flat: Nested, version: Ints, flexible: Bools) -> Ints:
    """Bytes of topics, from tables that list partitions: adjacent ones of a topic are under one."""
    versions = flat.spread(version)
    first = first_of_topic(flat)
    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, len(first)))
    flexible_versions = np.broadcast_to(flat.spread(flexible), len(first))
    sizes = first * _elements(topics, flat.flat, versions)
    sizes += _elements(partitions, flat.flat, versions)
    sizes[starts] += array_prefix(lengths, flexible_versions[starts])
    return array_prefix(flat.sums(first), flexible) + flat.sums(sizes)


# --- a FETCH in single numbers

_REQUEST, _RESPONSE = FETCH.request.body, FETCH.response.body
#: Versions that can be counted. Below: tagged fields of fixed size.
FETCH_VERSIONS: Final = FETCH.request.versions
_LATEST: Final = FETCH_VERSIONS[-1]

#: KIP-1166's high watermark of a partition (v18).
HIGH_WATERMARK_TAG_BYTES: Final = _REQUEST["Topics.Partitions.HighWatermark"].tag_bytes(_LATEST)
DIRECTORY_ID_TAG_BYTES: Final = _REQUEST["Topics.Partitions.ReplicaDirectoryId"].tag_bytes(_LATEST)
CURRENT_LEADER_TAG_BYTES: Final = _RESPONSE["Responses.Partitions.CurrentLeader"].tag_bytes(_LATEST)
#: Of a diverging epoch and, the same, of a snapshot id.
EPOCH_END_OFFSET_TAG_BYTES: Final = _RESPONSE["Responses.Partitions.SnapshotId"].tag_bytes(_LATEST)


class TopicTotals(NamedTuple):
    """Sums what the topics of a list of partitions take on the wire, at any FETCH version.

    Adjacent partitions of one topic travel under one topic; a topic that is in two places is
    written twice (``FetchRequest.Builder``, ``FetchResponse.toMessage``). So only the *runs* of a
    list matter, through four sums: their number, the bytes of what their topics go by and of the
    varints before it, and the bytes of the varints before their partitions.
    """

    runs: int = 0
    utf8_bytes: int = 0
    varint_bytes: int = 0
    length_varint_bytes: int = 0


class FetchPieces:
    """Sizes in bytes of what a FETCH of one version lists. Made by ``fetch_pieces``."""

    def __init__(self, version: int) -> None:
        #: Lengths are varints and fields may be tagged (KIP-482).
        self.is_flexible = version in _REQUEST.flexible
        self.topics_go_by_id = version in _REQUEST["Topics.TopicId"].versions
        #: Of partitions without records, aborted transactions and tagged fields.
        self.request_partition_bytes = _REQUEST["Topics.Partitions"].plain_bytes(version)
        plain = _RESPONSE["Responses.Partitions"].plain_bytes(version)
        self.response_partition_bytes = plain + 2 * self._array_prefix(0)
        #: Sessions list the same few topics again and again.
        self.topics_bytes = lru_cache(4096)(self._topics_bytes)

    def _topics_bytes(self, topics: TopicTotals) -> int:
        runs = topics.runs
        if not self.is_flexible:
            return 4 + runs * (2 + 4) + topics.utf8_bytes
        names = topics.utf8_bytes + topics.varint_bytes
        if self.topics_go_by_id:
            names = UUID_BYTES * runs
        return self._array_prefix(runs) + names + topics.length_varint_bytes + runs

    def _array_prefix(self, n: int) -> int:
        return unsigned_varint_bytes(n + 1) if self.is_flexible else 4


#: The pieces of one of ``FETCH_VERSIONS``.
fetch_pieces = lru_cache(FetchPieces)

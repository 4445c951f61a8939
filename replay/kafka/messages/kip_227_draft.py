"""IncrementalFetchRequest and -Response of KIP-227's draft (version 3 of the page).

Kafka of that time had no flexible versions: strings are int16 length and UTF-8, arrays int32 length
and elements, records int32 length and bytes, topics go by name; headers are the classic ones. The
draft's request has no ``max_bytes`` of its own and forgets no partition; its response names the
64-bit uuid that the session goes by. An ordinary FetchResponse gets the same uuid and changes in
nothing else.

``partition_id`` is declared STRING in the request and INT32 in the response. That is likely a slip
(a partition is an int32 everywhere else in Kafka), so both can be counted.

Source: KIP-227, version 3, "Public Interfaces".
"""

from typing import Final, NamedTuple

from . import schemas
from .layout import field_of, messages_of
from .sizes import CORRELATION_ID_BYTES, FRAME_BYTES, REQUEST_HEADER_BYTES

#: The uuid that the draft adds to an ordinary FetchResponse.
DRAFT_UUID_BYTES: Final = field_of(schemas.FETCH_RESPONSE_UUID).plain_bytes(0)
_ARRAY_LENGTH_BYTES = 4
_STRING_LENGTH_BYTES = 2
_INT32_BYTES = 4
_REQUEST, _RESPONSE = (message.body for message in messages_of(schemas.INCREMENTAL_FETCH).values())


class DraftFetchPieces(NamedTuple):
    """Sizes in bytes of what the draft's two messages are made of.

    A message is its fixed part + a ``topic_bytes`` for each run of adjacent partitions of a topic +
    its partitions. No size depends on the number of others.
    """

    partition_id_is_string: bool

    def request_fixed_bytes(self, client_id_bytes: int) -> int:
        overhead = FRAME_BYTES + REQUEST_HEADER_BYTES + client_id_bytes
        return overhead + _REQUEST.plain_bytes(0) + _ARRAY_LENGTH_BYTES

    def response_fixed_bytes(self) -> int:
        overhead = FRAME_BYTES + CORRELATION_ID_BYTES
        return overhead + _RESPONSE.plain_bytes(0) + _ARRAY_LENGTH_BYTES

    def topic_bytes(self, name_bytes: int) -> int:
        """A topic less its partitions, from the length of its name in UTF-8."""
        return _STRING_LENGTH_BYTES + name_bytes + _ARRAY_LENGTH_BYTES

    def request_partition_bytes(self, partition: int) -> int:
        """A partition requested; as a string its id takes a byte a digit."""
        digits = _STRING_LENGTH_BYTES + len(str(partition))
        partition_id = digits if self.partition_id_is_string else _INT32_BYTES
        return partition_id + _REQUEST["Topics.Partitions"].plain_bytes(0)

    def response_partition_bytes(
        self, record_bytes: int | None, aborted_transactions: int | None = None
    ) -> int:
        """A partition returned. None is null: it takes what 0 takes."""
        plain = _RESPONSE["Topics.Partitions"].plain_bytes(0) + 2 * _ARRAY_LENGTH_BYTES
        aborted = _RESPONSE["Topics.Partitions.AbortedTransactions"].plain_bytes(0)
        return plain + aborted * (aborted_transactions or 0) + (record_bytes or 0)

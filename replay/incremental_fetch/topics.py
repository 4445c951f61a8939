"""What the topics of a list of partitions take on the wire, whatever the FETCH version.

In a FETCH, adjacent partitions of one topic travel under one topic; a topic that stands in two
places is written twice (``FetchRequest.Builder``, ``FetchResponse.toMessage``). So the size of a
list depends on the order of its partitions, but only through its *runs*: how long each stretch of
one topic is. Four sums over the runs tell what they take at any version.
"""

from __future__ import annotations

from typing import NamedTuple

from kip_replay.replay.kafka.messages.encoding import UUID_BYTES, unsigned_varint_bytes
from kip_replay.replay.kafka.messages.fetch_pieces import FetchPieces


class TopicTotals(NamedTuple):
    """Sums over the runs of a list: their number, and bytes.

    ``utf8_bytes`` and ``varint_bytes`` are of what the topics go by and of the varint before it,
    ``length_varint_bytes`` of the varints before their partitions.
    """

    runs: int = 0
    utf8_bytes: int = 0
    varint_bytes: int = 0
    length_varint_bytes: int = 0

    def bytes_at(self, pieces: FetchPieces) -> int:
        """All topics of a message less their partitions (``FetchPieces.topics_bytes``)."""
        runs = self.runs
        if not pieces.is_flexible:
            return 4 + runs * (2 + 4) + self.utf8_bytes
        names = UUID_BYTES * runs if pieces.topics_go_by_id else self.utf8_bytes + self.varint_bytes
        number = 1 if runs < 127 else unsigned_varint_bytes(runs + 1)
        return number + names + self.length_varint_bytes + runs


def length_varint_bytes(partitions: int) -> int:
    """The varint before a topic's partitions; a run of none is not there."""
    if partitions < 127:
        return 1 if partitions else 0
    return unsigned_varint_bytes(partitions + 1)

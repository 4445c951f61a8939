"""Kafka's messages as data (``schemas``), and their exact bytes on the wire.

Theory
------
A request log does not have the bytes that a request took, but everything that they follow from. On
the wire are 4 bytes of frame, a header and a body. Since KIP-482 ("flexible versions") lengths
are unsigned varints and optional fields are tagged; before, lengths are int16 (strings) or int32
(arrays, records). Source: ``MessageDataGenerator``.

``request_bytes`` and ``response_bytes`` take an API and a record batch whose columns are named as
in the tables ``fetches``, ``produces`` or ``broker_heartbeats`` and return one INT64 per row: null
where the row has no such body, or where the schema lacks the version. They assume what every client
and broker does: adjacent partitions of one topic travel under one topic, and no topic travels
without partitions. ``fetch_pieces`` has the same sizes in single numbers, for replays that follow a
session by its changes.
"""

from typing import Final

from .columns import records_field_bytes as records_field_bytes
from .layout import APIS as APIS
from .layout import BROKER_HEARTBEAT as BROKER_HEARTBEAT
from .layout import FETCH as FETCH
from .layout import PRODUCE as PRODUCE
from .layout import Api as Api
from .layout import field_of
from .schemas import LOWEST_ACKNOWLEDGED_OFFSET
from .sizes import HIGH_WATERMARK_TAG_BYTES as HIGH_WATERMARK_TAG_BYTES
from .sizes import newer_versions as newer_versions
from .sizes import request_bytes as request_bytes
from .sizes import response_bytes as response_bytes

#: The draft KIP's ``LowestAcknowledgedOffset`` in a BrokerHeartbeatResponse.
LOWEST_ACKNOWLEDGED_OFFSET_BYTES: Final = field_of(LOWEST_ACKNOWLEDGED_OFFSET).plain_bytes(1)

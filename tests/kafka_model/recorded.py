"""FETCHes as tuples: rows of the replay's input, and the elements of their lists."""

from collections import namedtuple
from typing import Any

from kip_replay.replay.incremental_fetch import INPUT_SCHEMA


def _element(name: str, of_list: str) -> Any:
    return namedtuple(name, INPUT_SCHEMA.field(of_list).type.value_type.names)


class _Keyed:
    """Which partition it is: its topic's id, else the topic's name, and its index."""

    __slots__ = ()

    @property
    def key(self: Any) -> tuple[str, int]:
        return self.topic_id or self.topic or "", self.partition


class RequestedPartition(_Keyed, _element("RequestedPartition", "request_partitions")):
    __slots__ = ()


class ReturnedPartition(_Keyed, _element("ReturnedPartition", "response_partitions")):
    __slots__ = ()


class ForgottenPartition(_Keyed, _element("ForgottenPartition", "forgotten_partitions")):
    __slots__ = ()


NodeEndpoint = _element("NodeEndpoint", "node_endpoints")


class RecordedFetch(namedtuple("RecordedFetch", INPUT_SCHEMA.names)):
    """A row, its lists as lists of the tuples above."""

    __slots__ = ()

    @property
    def is_full(self) -> bool:
        return self.api_version < 7 or self.session_epoch in (0, -1)

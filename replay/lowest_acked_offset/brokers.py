"""A broker as the controller knows it: its heartbeats, its state and its session.

Sessions are those of Kafka's ``BrokerHeartbeatTracker``. No line says when a silent broker is
fenced. The controller does it when nothing has come for ``broker.session.timeout.ms`` and looks
every eighth of that, so after 10.125 s at the latest. Here a session ends at that latest moment, so
that nothing is claimed too early.
"""

from heapq import heappop, heappush, heapreplace
from typing import NamedTuple

import msgspec

#: broker.session.timeout.ms, Kafka's default.
SESSION_TIMEOUT_US = 9_000_000
#: ``maybeFenceStaleBroker`` runs this often in a session timeout.
SCANS_PER_SESSION = 8
#: After all times.
NEVER = 2**63
#: The raw offset of a broker from which nothing came since it was reset.
RESET_OFFSET = -1


class Heartbeat(NamedTuple):
    """A BROKER_HEARTBEAT without error: taken up at ``handled_us``, its response at ``built_us``.

    ``is_fenced`` is the response's: the broker's state after this heartbeat.
    """

    controller_id: int
    broker_id: int
    broker_epoch: int
    handled_us: int
    built_us: int
    offset: int
    is_fenced: bool
    want_shut_down: bool


class Broker(msgspec.Struct):
    """A broker as the controller last left it; ``known`` since it started."""

    epoch: int
    fenced: bool = True
    stopping: bool = False
    known: int = RESET_OFFSET


class Sessions(msgspec.Struct):
    """When each broker last sent a heartbeat, and a heap of (no later than its end, broker)."""

    timeout_us: int = SESSION_TIMEOUT_US
    contact_us: dict[int, int] = {}
    ends: list[tuple[int, int]] = []

    @property
    def fenced_after_us(self) -> int:
        """A silent broker is fenced at the latest after this."""
        return self.timeout_us + self.timeout_us // SCANS_PER_SESSION

    def touch(self, at: int, broker_id: int) -> None:
        """``touch``: the broker's session begins, or lasts from this heartbeat on."""
        if broker_id not in self.contact_us:
            heappush(self.ends, (at, broker_id))
        self.contact_us[broker_id] = at

    def first_end(self, until: int) -> int:
        """When the first session ends; ``NEVER`` if none does up to a time."""
        while self.ends and self.ends[0][0] <= until:
            no_later, broker_id = self.ends[0]
            end = self.contact_us[broker_id] + self.fenced_after_us
            if end <= no_later:
                return no_later
            heapreplace(self.ends, (end, broker_id))
        return NEVER

    def end_first(self) -> int:
        """``maybeRemoveExpired``: end the session that ends first. -> its broker."""
        _, broker_id = heappop(self.ends)
        del self.contact_us[broker_id]
        return broker_id

"""A broker as the controller knows it: its heartbeats, its state and its session.

Sessions are those of Kafka's ``BrokerHeartbeatTracker``. No line says when a silent broker is
fenced. The controller does it when nothing has come for ``broker.session.timeout.ms`` and looks
every eighth of that, so after 10.125 s at the latest. Here a session ends at that latest moment, so
that nothing is claimed too early.
"""

from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

import msgspec

#: broker.session.timeout.ms, Kafka's default.
SESSION_TIMEOUT_US = 9_000_000
#: A silent broker is fenced at the latest after this: ``maybeFenceStaleBroker`` runs so often.
FENCED_AFTER_US = SESSION_TIMEOUT_US + SESSION_TIMEOUT_US // 8
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
    """When each broker last sent a heartbeat, in that order; none ends before ``ends_us``."""

    contact_us: dict[int, int] = {}
    ends_us: int = 0

    def touch(self, at: int, broker_id: int) -> None:
        """``touch``: the broker's session begins, or lasts from this heartbeat on."""
        self.contact_us.pop(broker_id, None)
        self.contact_us[broker_id] = at
        if at + FENCED_AFTER_US < self.ends_us:
            self.ends_us = at + FENCED_AFTER_US

    def first_end(self, until: int) -> int:
        """When the first session ends; ``NEVER`` if none does up to a time."""
        if until < self.ends_us:
            return NEVER
        self.ends_us = min(self.contact_us.values(), default=0) + FENCED_AFTER_US
        end = next(iter(self.contact_us.values()), NEVER) + FENCED_AFTER_US
        return end if end <= until else NEVER

    def silent(self, at: int) -> Iterator[int]:
        """The brokers whose sessions may have ended already."""
        return takewhile(
            lambda broker: self.contact_us[broker] + SESSION_TIMEOUT_US <= at, self.contact_us
        )

    def end_first(self) -> int:
        """``maybeRemoveExpired``: end the session that ends first. -> its broker."""
        broker_id = next(iter(self.contact_us))
        del self.contact_us[broker_id]
        return broker_id

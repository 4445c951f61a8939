"""Zones: those of brokers by ``broker.rack``, those of clients by what they send or are stated."""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

#: Clients that are remembered.
_CLIENTS_MAX = 10_000


class Zones:
    """``of_brokers``: by node id. ``stated``: the manifest's ``client_zones``."""

    def __init__(self, of_brokers: Mapping[int, str], stated: Mapping[str, str]) -> None:
        self.of_brokers, self._stated = of_brokers, stated
        ranges = ((_range(name), zone) for name, zone in stated.items())
        self._ranges = [(of, zone) for of, zone in ranges if of is not None]
        self._of_stated = lru_cache(_CLIENTS_MAX)(self._find_stated)

    def of_client(self, rack_id: str | None, client_id: str | None, host: str | None) -> str | None:
        """Returns the zone of a client: its rack id, else what is stated of its id or address."""
        return rack_id or (self._of_stated(client_id, host) if self._stated else None)

    def _find_stated(self, client_id: str | None, host: str | None) -> str | None:
        names = (name for name in (client_id, host) if name and name in self._stated)
        name = next(names, None)
        return self._by_range(host) if name is None else self._stated[name]

    def _by_range(self, host: str | None) -> str | None:
        try:
            address = ip_address(host or "")
        except ValueError:
            return None
        found = [(of.prefixlen, zone) for of, zone in self._ranges if address in of]
        return max(found)[1] if found else None  # the narrowest


def count_zones(zones: Iterable[str]) -> int:
    """Counts zones, without case."""
    return len({zone.casefold() for zone in zones})


def _range(name: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(name, strict=False) if "/" in name else None
    except ValueError:
        return None

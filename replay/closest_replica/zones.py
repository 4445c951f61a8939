"""Zones: those of brokers by ``broker.rack``, those of clients by what they send or are stated."""

from collections.abc import Mapping
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network

import msgspec


class Zones(msgspec.Struct):
    """``of_brokers``: by node id. ``stated``: the manifest's ``client_zones``."""

    stated: Mapping[str, str] = {}
    of_brokers: dict[int, str] = {}
    _of_clients: dict[tuple[str | None, str | None], str | None] = {}

    @property
    def count(self) -> int:
        """Returns how many zones have brokers."""
        return len({zone.casefold() for zone in self.of_brokers.values()})

    def of_client(self, rack_id: str | None, client_id: str | None, host: str | None) -> str | None:
        """Returns the zone of a client: its rack id, else what is stated of its id or address."""
        if rack_id or not self.stated:
            return rack_id or None
        key = client_id, host
        if key not in self._of_clients:
            names = [self.stated[name] for name in key if name and name in self.stated]
            self._of_clients[key] = names[0] if names else self._by_range(host)
        return self._of_clients[key]

    def _by_range(self, host: str | None) -> str | None:
        try:
            address = ip_address(host or "")
        except ValueError:
            return None
        ranges = [(r, zone) for name, zone in self.stated.items() if (r := _range(name))]
        found = [(r.prefixlen, zone) for r, zone in ranges if address in r]
        return max(found)[1] if found else None  # the narrowest


def _range(name: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(name, strict=False) if "/" in name else None
    except ValueError:
        return None

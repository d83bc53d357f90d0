"""Networks with names, as the processor ``network_direction`` knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

NETWORKS: Mapping[str, tuple[str, ...]] = {
    "private": ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fd00::/8"),
    "loopback": ("127.0.0.0/8", "::1/128"),
    "link_local_unicast": ("169.254.0.0/16", "fe80::/10"),
    "link_local_multicast": ("224.0.0.0/24", *(f"ff{flags:x}2::/16" for flags in range(16))),
    "interface_local_multicast": tuple(f"ff{flags:x}1::/16" for flags in range(16)),
    "multicast": ("224.0.0.0/4", "ff00::/8"),
    "unspecified": ("0.0.0.0/32", "::/128"),
    "broadcast": ("255.255.255.255/32",),
}

_LOCAL = ("loopback", "unspecified", "link_local_unicast", "broadcast")
COMPLEMENTS: Mapping[str, tuple[str, ...]] = {
    "public": ("private", *_LOCAL, "link_local_multicast", "interface_local_multicast"),
    "unicast": (*_LOCAL, "multicast"),
    "global_unicast": (*_LOCAL, "multicast"),
}
"""Names of all addresses that are in none of these networks."""


def direction(source: str | None, destination: str | None, networks: Sequence[str] | str | None) -> str | None:
    """The direction of a connection, for networks that an event has; None where one of them is missing or is no address."""
    if source is None or destination is None or networks is None:
        return None
    names = [networks] if isinstance(networks, str) else networks
    try:
        inside = [any(is_inside(address, name) for name in names) for address in map(ip_address, (source, destination))]
    except ValueError:
        return None
    return {(True, True): "internal", (True, False): "outbound", (False, True): "inbound"}.get((inside[0], inside[1]), "external")


def is_inside(address: IPv4Address | IPv6Address, name: str) -> bool:
    """Whether an address is in a network, which has a name or is ``address/bits``. Raises ValueError for another one."""
    if name in COMPLEMENTS:
        return not any(is_inside(address, one) for one in COMPLEMENTS[name])
    return any(address in _parse(network) for network in NETWORKS.get(name, (name,)))


@lru_cache(maxsize=1024)
def _parse(network: str) -> IPv4Network | IPv6Network:
    return ip_network(network, strict=False)

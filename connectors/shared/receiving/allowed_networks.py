"""Networks that may send; the result is cached by address."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

_MAX_CACHED_ADDRESSES = 1 << 14
"""Maximum number of cached addresses; datagrams can claim any address."""


def network_error(network: str) -> str | None:
    """Return what is wrong with a network's text, or None."""
    try:
        ip_network(network)
    except ValueError as error:
        return str(error)
    return None


class AllowedNetworks:
    """Checks whether an address is in one of the networks; every address is if there are none."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks = [ip_network(network) for network in networks]
        self._cache: dict[str, bool] = {}

    def __call__(self, address: str) -> bool:
        """Return whether an IP address may send."""
        if not self._networks:
            return True
        answer = self._cache.get(address)
        if answer is None:
            if len(self._cache) >= _MAX_CACHED_ADDRESSES:
                self._cache.clear()
            answer = self._cache[address] = self._is_allowed(address)
        return answer

    def _is_allowed(self, address: str) -> bool:
        """Sockets of IPv6 name senders with IPv4 as ``::ffff:192.0.2.7``; a sender that has gone already has no address."""
        try:
            parsed = ip_address(address.partition("%")[0])
        except ValueError:
            return False
        parsed = getattr(parsed, "ipv4_mapped", None) or parsed
        return any(parsed in network for network in self._networks)

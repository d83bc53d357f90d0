"""Who may send: networks, looked up once for each address."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address, ip_network

_REMEMBERED = 1 << 14
"""Addresses whose answer is kept; datagrams can claim to come from anywhere."""


def problem(network: str) -> str | None:
    """What is wrong with a network's text."""
    try:
        ip_network(network)
    except ValueError as error:
        return str(error)
    return None


class Allowed:
    """Whether an address lies in one of some networks; all do when there is none."""

    def __init__(self, networks: Sequence[str]) -> None:
        self._networks = [ip_network(network) for network in networks]
        self._known: dict[str, bool] = {}

    def __call__(self, address: str) -> bool:
        """The answer for an IP address."""
        if not self._networks:
            return True
        answer = self._known.get(address)
        if answer is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            asked = ip_address(address.partition("%")[0])
            answer = self._known[address] = any(asked in network for network in self._networks)
        return answer

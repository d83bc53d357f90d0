"""Which addresses of a column are inside which networks.

IPv4 inside IPv6 (RFC 4291, 2.5.5.2) is IPv4, as everywhere in the engine: ``::ffff:10.0.0.1`` is inside 10.0.0.0/8, and not
inside ::/0. An IPv6 address may have a zone (RFC 4007), which does not count. Accepted forms are those of Python's `ipaddress`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, TypeAlias

from etl.columns.texts import Texts

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_COLON, _LOW, _MAPPED = ord(":"), (1 << 64) - 1, 0xFFFF


class NetworkSet:
    """Networks, numbered in their order. Nothing is compiled before the first search."""

    def __init__(self, networks: Sequence[Network]) -> None:
        networks = [plain_network(one) for one in networks]
        self._fours = [(number, one) for number, one in enumerate(networks) if isinstance(one, IPv4Network)]
        self._sixes = [(number, one) for number, one in enumerate(networks) if isinstance(one, IPv6Network)]

    def find(self, texts: Texts) -> Iterator[tuple[int, Any]]:
        """Yield numbers of networks, each with the indexes of the texts (int64[m]) that are addresses inside it."""
        rows, high, low = _sixes(texts)
        is_mapped = (high == 0) & ((low >> 32) == _MAPPED)
        if self._fours:
            yield from self._find_fours(texts, rows[is_mapped], low[is_mapped])
        if self._sixes:
            yield from self._find_sixes(rows[~is_mapped], high[~is_mapped], low[~is_mapped])

    def contains(self, texts: Texts) -> Any:
        """bool[n]: whether each text is an address inside any of the networks."""
        import numpy as np

        found = np.zeros(len(texts.address), np.bool_)
        for _, indexes in self.find(texts):
            found[indexes] = True
        return found

    @cached_property
    def _bounds(self) -> tuple[Any, list[list[int]]]:
        """The sorted bounds of IPv4 networks (int64), and the networks around the addresses from each bound to the next."""
        import numpy as np

        ranges = [(number, int(one[0]), int(one[-1]) + 1) for number, one in self._fours]
        starts = sorted({bound for _, *ends in ranges for bound in ends})
        return np.array(starts, np.int64), [[number for number, low, high in ranges if low <= start < high] for start in starts]

    def _find_fours(self, texts: Texts, mapped: Any, low: Any) -> Iterator[tuple[int, Any]]:
        """One binary search an address finds all networks around it. ``mapped``: the texts that are IPv4 inside IPv6."""
        import numpy as np

        from etl.columns.ip_kernel import parse_ipv4

        bounds, inside = self._bounds
        address = np.empty(len(texts.address), np.int64)
        parse_ipv4(texts.address, texts.length, address)
        address[mapped] = low & 0xFFFFFFFF
        piece = np.searchsorted(bounds, address, "right") - 1
        for at in np.unique(piece[(piece >= 0) & (address >= 0)]).tolist():
            for number in inside[at]:
                yield number, np.flatnonzero(piece == at)

    def _find_sixes(self, rows: Any, high: Any, low: Any) -> Iterator[tuple[int, Any]]:
        """Network by network, over the addresses of IPv6."""
        import numpy as np

        for number, network in self._sixes:
            mask, base = int(network.netmask), int(network.network_address)
            upper = (high & np.uint64(mask >> 64)) == np.uint64(base >> 64)
            yield number, rows[upper & ((low & np.uint64(mask & _LOW)) == np.uint64(base & _LOW))]


def plain_address(text: str) -> Address | None:
    """An address; IPv4 inside IPv6 as IPv4, None for any other text."""
    try:
        found = ip_address(text)
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def plain_network(network: Network) -> Network:
    """A network; one of IPv4 inside IPv6 as IPv4."""
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    return network if mapped is None or network.prefixlen < 96 else IPv4Network((mapped, network.prefixlen - 96))


def _sixes(texts: Texts) -> tuple[Any, Any, Any]:
    """The indexes of the texts that are addresses of IPv6 (int64[m]), and the upper and lower halves of these (uint64[m])."""
    import numpy as np

    from etl.columns.ip_kernel import parse_ipv6

    rows = np.flatnonzero(texts.contains_byte(_COLON))
    high, low = np.zeros((2, len(rows)), np.uint64)
    valid = np.zeros(len(rows), np.bool_)
    if len(rows):
        parse_ipv6(texts.address[rows], texts.length[rows], high, low, valid)
    return rows[valid], high[valid], low[valid]

"""Which addresses of a column are inside which networks.

Addresses and networks of different versions do not match: ``::ffff:10.0.0.1`` is not inside 10.0.0.0/8. An IPv6 address may have
a zone (RFC 4007), which does not count. Accepted forms are those of Python's `ipaddress`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network
from typing import Any, TypeAlias

from etl.columns.texts import Texts

Network: TypeAlias = IPv4Network | IPv6Network

_COLON, _LOW = ord(":"), (1 << 64) - 1


class NetworkSet:
    """Networks, numbered in their order. Nothing is compiled before the first search."""

    def __init__(self, networks: Sequence[Network]) -> None:
        self._fours = [(number, one) for number, one in enumerate(networks) if isinstance(one, IPv4Network)]
        self._sixes = [(number, one) for number, one in enumerate(networks) if isinstance(one, IPv6Network)]

    def find(self, texts: Texts) -> Iterator[tuple[int, Any]]:
        """Yield numbers of networks, each with the indexes of the texts (int64[m]) that are addresses inside it."""
        if self._fours:
            yield from self._find_fours(texts)
        if self._sixes:
            yield from self._find_sixes(texts)

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

    def _find_fours(self, texts: Texts) -> Iterator[tuple[int, Any]]:
        """One binary search an address finds all networks around it."""
        import numpy as np

        from etl.columns.ip_kernel import parse_ipv4

        bounds, inside = self._bounds
        address = np.empty(len(texts.address), np.int64)
        parse_ipv4(texts.address, texts.length, address)
        piece = np.searchsorted(bounds, address, "right") - 1
        for at in np.unique(piece[(piece >= 0) & (address >= 0)]).tolist():
            for number in inside[at]:
                yield number, np.flatnonzero(piece == at)

    def _find_sixes(self, texts: Texts) -> Iterator[tuple[int, Any]]:
        """Network by network, over the texts with a colon."""
        import numpy as np

        from etl.columns.ip_kernel import parse_ipv6

        rows = np.flatnonzero(texts.contains_byte(_COLON))
        if not len(rows):
            return
        high: Any = np.zeros(len(rows), np.uint64)
        low: Any = np.zeros(len(rows), np.uint64)
        valid = np.zeros(len(rows), np.bool_)
        parse_ipv6(texts.address[rows], texts.length[rows], high, low, valid)
        for number, network in self._sixes:
            mask, base = int(network.netmask), int(network.network_address)
            upper = (high & np.uint64(mask >> 64)) == np.uint64(base >> 64)
            yield number, rows[valid & upper & ((low & np.uint64(mask & _LOW)) == np.uint64(base & _LOW))]

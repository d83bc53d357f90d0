"""Networks that addresses of one field may lie in: their bounds in order, so that an address is looked up once for all."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts, owned_array, taken
from etl.rules.conditions.predicates import Network
from etl.rules.engine.address_kernel import parse_ipv4


class Networks:
    """Predicates of one field, by number."""

    def __init__(self, predicates: Sequence[tuple[int, Network]]) -> None:
        parsed = [(number, ipaddress.ip_network(one.network, strict=False)) for number, one in predicates]
        self._sixes = [(number, network) for number, network in parsed if network.version == 6]
        fours = [(number, int(network[0]), int(network[-1]) + 1) for number, network in parsed if network.version == 4]
        starts = sorted({bound for _, *ends in fours for bound in ends})
        self._bounds = np.array(starts, np.int64)
        self._inside = [[number for number, low, high in fours if low <= start < high] for start in starts]

    def find(self, array: pa.Array, texts: Texts) -> list[tuple[int, Any]]:
        """Predicates and the places of addresses inside."""
        address = np.empty(len(texts.address), np.int64)
        parse_ipv4(texts.address, texts.length, address)
        piece = np.searchsorted(self._bounds, address, "right") - 1
        pieces = np.unique(piece[(piece >= 0) & (address >= 0)]).tolist()
        found = [(number, np.flatnonzero(piece == at)) for at in pieces for number in self._inside[at]]
        return found + self._find_six(array, texts) if self._sixes else found

    def _find_six(self, array: pa.Array, texts: Texts) -> list[tuple[int, Any]]:
        """IPv6 through `ipaddress`, each text once."""
        places = np.flatnonzero(texts.have(ord(":")))
        addresses = [_address(text) for text in owned_array(taken(array, places)).to_pylist()]
        inside = [(number, [one is not None and one in network for one in addresses]) for number, network in self._sixes]
        return [(number, places[np.array(mask, bool)]) for number, mask in inside]


def _address(text: str) -> ipaddress.IPv6Address | ipaddress.IPv4Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None

"""``ip_in(ip, network…)``: whether a text is an address inside one of some networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from etl.columns.ip_networks import Network, NetworkSet, plain_address, plain_network
from etl.columns.texts import Texts


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Parse networks. Raises ValueError that quotes the invalid text."""
    return tuple(_network(text) for text in texts)


def contains(networks: Sequence[Network]) -> Callable[[Any], Any]:
    """A function: texts → whether they are inside a network; null for null, false for what is not an address."""
    return partial(_inside, NetworkSet(networks), tuple(networks))


def ip_in(address: str | None, *networks: str) -> bool | None:
    """Whether one address is inside a network, for Spark."""
    if address is None:
        return None
    return _is_inside(address, parse_networks(networks))


def _inside(known: NetworkSet, networks: Sequence[Network], texts: Any) -> Any:
    if isinstance(texts, pa.Scalar):
        return pa.scalar(_is_inside(texts.as_py(), networks) if texts.is_valid else None, pa.bool_())
    located = Texts.of(texts)
    return pa.array(known.contains(located), mask=located.length < 0)


def _is_inside(text: str, networks: Sequence[Network]) -> bool:
    address = plain_address(text)
    return address is not None and any(address in network for network in networks)


def _network(text: str) -> Network:
    try:
        return plain_network(ipaddress.ip_network(text, strict=False))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a network; write one such as 10.0.0.0/8 or 2001:db8::/32") from error

"""``ip_in(ip, network…)``: whether a text is an address inside one of some networks."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"


def parse_networks(texts: Sequence[str]) -> tuple[Network, ...]:
    """Parse networks. Raises ValueError that quotes the invalid text."""
    return tuple(_network(text) for text in texts)


def contains(networks: Sequence[Network]) -> Callable[[Any], Any]:
    """A function: texts → whether they are inside a network; null for null, false for what is no address.

    One regular expression matches IPv4 addresses; each distinct text with a colon is parsed by `ipaddress`.
    """
    shapes = [_ipv4_pattern(network) for network in networks if isinstance(network, ipaddress.IPv4Network)]
    pattern = rf"\A(?:{'|'.join(shapes)})\z" if shapes else None
    return partial(_inside, pattern, tuple(networks))


def ip_in(address: str | None, *networks: str) -> bool | None:
    """Whether one address is inside a network, for Spark."""
    if address is None:
        return None
    return _is_inside(address, parse_networks(networks))


def _inside(pattern: str | None, networks: tuple[Network, ...], texts: Any) -> Any:
    if isinstance(texts, pa.Scalar):
        return pa.scalar(_is_inside(texts.as_py(), networks) if texts.is_valid else None, pa.bool_())
    found = pc.match_substring_regex(texts, pattern) if pattern else pc.and_(pc.is_valid(texts), False)
    colons = pc.fill_null(pc.match_substring(texts, ":"), False)
    if not pattern:
        found = pc.if_else(pc.is_valid(texts), False, pa.scalar(None, pa.bool_()))
    if not colons.true_count:
        return found
    distinct = pc.unique(texts.filter(colons))
    inside = [text for text in distinct.to_pylist() if _is_inside(text, networks)]
    return pc.if_else(colons, pc.is_in(texts, value_set=pa.array(inside, pa.string())), found)


def _is_inside(text: str, networks: Sequence[Network]) -> bool:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return any(address in network for network in networks)


def _network(text: str) -> Network:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a network; write one such as 10.0.0.0/8 or 2001:db8::/32") from error


def _ipv4_pattern(network: ipaddress.IPv4Network) -> str:
    first, last = network.network_address.packed, network.broadcast_address.packed
    return r"\.".join(_octets(low, high) for low, high in zip(first, last, strict=True))


def _octets(low: int, high: int) -> str:
    if (low, high) == (0, 255):
        return _OCTET
    return str(low) if low == high else "(?:" + "|".join(str(n) for n in range(low, high + 1)) + ")"

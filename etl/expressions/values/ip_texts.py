"""Functions of IPv4 addresses in columns: numbers from a compiled kernel, classes by search in a table of intervals."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.ip_kernel import parse_ipv4
from etl.columns.texts import Texts

_BOUNDS = (
    "0.0.0.0/8", "0.0.0.0/32", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
    "192.0.0.0/29", "192.0.0.8/32", "192.0.0.9/32", "192.0.0.10/32", "192.0.0.170/31", "192.0.2.0/24", "192.31.196.0/24",
    "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24",
    "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "255.255.255.255/32",
)  # fmt: skip
"""The networks of the IANA IPv4 Special-Purpose Address Registry (RFC 6890), and multicast: addresses between their bounds are of
one class."""


def numbers(texts: pa.StringArray) -> Any:
    """int64[n]: IPv4 addresses as numbers, -1 for other texts and nulls."""
    found = Texts.of(texts)
    result = np.empty(len(texts), np.int64)
    parse_ipv4(found.address, found.length, result)
    return result


@cache
def _starts() -> Any:
    networks = [ipaddress.IPv4Network(text) for text in _BOUNDS]
    bounds = {0, *(int(one.network_address) for one in networks), *(int(one.broadcast_address) + 1 for one in networks)}
    return np.array(sorted(bounds), np.int64)


def classes(class_of: Callable[[ipaddress.IPv4Address], str], given: Any) -> pa.StringArray:
    """The class of each number; ``class_of`` is called once for each interval."""
    starts = _starts()
    table = pa.array([class_of(ipaddress.IPv4Address(int(start))) for start in starts if start < 1 << 32], pa.string())
    return table.take(pa.array(np.searchsorted(starts, np.maximum(given, 0), side="right") - 1))


def texts(given: Any) -> pa.StringArray:
    """Numbers as dotted addresses."""
    octets = pa.array([str(number) for number in range(256)], pa.string())
    return pc.binary_join_element_wise(*(octets.take(pa.array(given >> shift & 0xFF)) for shift in (24, 16, 8, 0)), ".")

"""Functions of IP addresses: of version 4 on Arrow, of version 6 in Python, once for each distinct value."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.bound_node import BoundNode
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import Fast, RowError, by_value, constant, usually_on_arrow
from etl.expressions.widening import BOOLEAN, INT32, STRING

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
WIDE = pa.decimal128(38, 0)
_NO_ADDRESS = "null for null and for what is not an address"
_MAX_CHARACTERS = 100
"""Characters of the longest text that may be an address, with a zone."""


def parse_address(text: str) -> Address | None:
    """An address, without its zone; IPv4 inside IPv6 (``::ffff:192.0.2.1``) is IPv4."""
    if len(text) > _MAX_CHARACTERS:
        return None
    try:
        found = ipaddress.ip_address(text.strip().partition("%")[0])
    except ValueError:
        return None
    inner = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return inner or found


def _of_address(function: Callable[..., Any]) -> Callable[..., Any]:
    def one(text: str, *more: Any) -> Any:
        address = parse_address(text)
        return None if address is None else function(address, *more)

    return one


_CARRIER = ipaddress.ip_network("100.64.0.0/10")
_PRIVATE = tuple(map(ipaddress.ip_network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7")))
_DOCUMENTATION = tuple(map(ipaddress.ip_network, ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32")))

_CLASSES: tuple[tuple[str, Callable[[Address], bool]], ...] = (
    ("unspecified", lambda address: address.is_unspecified),
    ("loopback", lambda address: address.is_loopback),
    ("multicast", lambda address: address.is_multicast),
    ("link_local", lambda address: address.is_link_local),
    ("broadcast", lambda address: int(address) == 2**32 - 1 and address.version == 4),
    ("carrier_nat", lambda address: address.version == 4 and address in _CARRIER),
    (
        "documentation",
        lambda address: any(address in network for network in _DOCUMENTATION if network.version == address.version),
    ),
    ("private", lambda address: any(address in network for network in _PRIVATE if network.version == address.version)),
    ("reserved", lambda address: address.is_reserved or not address.is_global),
)


def _class(address: Address) -> str:
    return next((name for name, test in _CLASSES if test(address)), "public")


def _network(address: Address, prefix: int) -> str:
    if not 0 <= prefix <= address.max_prefixlen:
        raise RowError(f"a prefix of IPv{address.version} has 0 to {address.max_prefixlen} bits, not {prefix}")
    return str(ipaddress.ip_network((address, prefix), strict=False))


def _anonymize(address: Address, bits4: int = 24, bits6: int = 48) -> str:
    bits = bits4 if address.version == 4 else bits6
    if not 0 <= bits <= address.max_prefixlen:
        raise RowError(f"a prefix of IPv{address.version} has 0 to {address.max_prefixlen} bits, not {bits}")
    return str(ipaddress.ip_network((address, bits), strict=False).network_address)


def _from_integer(number: int, version: int | None = None) -> str | None:
    number = int(number)
    if not 0 <= number < 2**128:
        return None
    if version == 6 or (version is None and number >= 2**32):
        return str(ipaddress.IPv6Address(number))
    return str(ipaddress.IPv4Address(number)) if number < 2**32 else None


def _to_integer(address: Address) -> int | None:
    """None where 38 digits are not enough: addresses of IPv6 from 4b3b:: on."""
    return int(address) if int(address) < 10**38 else None


def _reverse(address: Address) -> str:
    return address.reverse_pointer


def _of_ipv4(make: Callable[[Any], pa.Array]) -> Fast:
    """What numbers of IPv4 addresses give; other texts are left to Python."""

    def fast(column: pa.Array) -> tuple[pa.Array, Any]:
        from etl.expressions.values import ip_texts

        found = ip_texts.numbers(column)
        return make(found), found >= 0

    return fast


def _classes(numbers: Any) -> pa.StringArray:
    from etl.expressions.values import ip_texts

    return ip_texts.classes(_class, numbers)


def _shown(prefix: int, suffix: str = "") -> Fast:
    """Addresses of IPv4 with zeros after the prefix."""

    def make(numbers: Any) -> pa.StringArray:
        from etl.expressions.values import ip_texts

        found = ip_texts.texts(numbers & (0xFFFFFFFF << 32 - prefix & 0xFFFFFFFF))
        return pc.binary_join_element_wise(found, suffix, "") if suffix else found

    return _of_ipv4(make)


def _build_network(address: BoundNode, prefix: BoundNode) -> BoundNode:
    known, bits = constant(prefix)
    if not known or bits is None or not 0 <= bits <= _MAX_BITS_OF_IPV4:
        return by_value(STRING, _of_address(_network))(address, prefix)
    return usually_on_arrow(STRING, _shown(bits, f"/{bits}"), lambda text: _of_address(_network)(text, bits))(address)


def _build_anonymize(address: BoundNode, *bits: BoundNode) -> BoundNode:
    known = [constant(one) for one in bits]
    limits = zip(known, (_MAX_BITS_OF_IPV4, _MAX_BITS_OF_IPV6), strict=False)
    if not all(is_known and value is not None and 0 <= value <= limit for (is_known, value), limit in limits):
        return by_value(STRING, _of_address(_anonymize))(address, *bits)
    given = [int(value) for _, value in known]
    fast = _shown(given[0] if given else _BITS_OF_IPV4)
    return usually_on_arrow(STRING, fast, lambda text: _of_address(_anonymize)(text, *given))(address)


_MAX_BITS_OF_IPV4, _MAX_BITS_OF_IPV6, _BITS_OF_IPV4 = 32, 128, 24


_FAST: Mapping[str, Fast] = {
    "ip_version": _of_ipv4(lambda numbers: pa.repeat(pa.scalar(4, INT32), len(numbers))),
    "ip_class": _of_ipv4(_classes),
    "ip_is_private": _of_ipv4(lambda numbers: pc.equal(_classes(numbers), "private")),
    "ip_to_integer": _of_ipv4(lambda numbers: pc.cast(pa.array(numbers), WIDE)),
    "ip_normalize": _shown(_MAX_BITS_OF_IPV4),
}
"""Functions of one address on Arrow, for addresses of IPv4."""

_BUILT: Mapping[str, Callable[..., BoundNode]] = {"ip_network": _build_network, "ip_anonymize": _build_anonymize}


def _entry(
    name: str, arguments: str, result: str, function: Callable[..., Any], about: str, example: str, gives: Any, **more: Any
) -> LibraryFunction:
    types = {"boolean": BOOLEAN, "string": STRING, "int": INT32, "decimal(38,0)": WIDE}
    build = _BUILT.get(name) or by_value(types[result], function, fails="errors" in more)
    if name in _FAST:
        build = usually_on_arrow(types[result], _FAST[name], function)
    loops = name not in _FAST and name not in _BUILT
    return LibraryFunction(name, arguments, result, build, about, example, gives, null=_NO_ADDRESS, loops=loops, **more)


FUNCTIONS = (
    _entry("ip_version", "address: text", "int", _of_address(lambda address: address.version), "4 or 6.", "ip_version('::1')", 6),
    _entry(
        "ip_is_private",
        "address: text",
        "boolean",
        _of_address(lambda address: _class(address) == "private"),
        "Whether an address is of a private network (RFC 1918, RFC 4193).",
        "ip_is_private('192.168.1.7')",
        True,
    ),
    _entry(
        "ip_class",
        "address: text",
        "string",
        _of_address(_class),
        "public, private, loopback, link_local, multicast, broadcast, unspecified, carrier_nat, documentation or reserved.",
        "ip_class('127.0.0.1')",
        "loopback",
    ),
    _entry(
        "ip_network",
        "address: text, prefix: integer",
        "string",
        _of_address(_network),
        "The network of an address with a prefix of some bits.",
        "ip_network('10.1.2.3', 24)",
        "10.1.2.0/24",
        errors="a prefix that is longer than the address",
    ),
    _entry(
        "ip_anonymize",
        "address: text, bits_of_ipv4: integer?, bits_of_ipv6: integer?",
        "string",
        _of_address(_anonymize),
        "The address with zeros after the first 24 bits, of IPv6 after 48, or as many as are given.",
        "ip_anonymize('203.0.113.77')",
        "203.0.113.0",
        errors="a prefix that is longer than the address",
    ),
    _entry(
        "ip_to_integer",
        "address: text",
        "decimal(38,0)",
        _of_address(_to_integer),
        "The address as a number; null where 38 digits are not enough.",
        "ip_to_integer('10.0.0.1')",
        "167772161",
    ),
    _entry(
        "ip_from_integer",
        "number: number, version: integer?",
        "string",
        _from_integer,
        "The address of a number: IPv4 below 2³², or the version that is given.",
        "ip_from_integer(167772161)",
        "10.0.0.1",
    ),
    _entry(
        "ip_normalize",
        "address: text",
        "string",
        _of_address(str),
        "The address in its shortest form, without a zone.",
        "ip_normalize('2001:DB8:0:0::1')",
        "2001:db8::1",
    ),
    _entry(
        "ip_reverse",
        "address: text",
        "string",
        _of_address(_reverse),
        "The name of an address for reverse DNS.",
        "ip_reverse('10.1.2.3')",
        "3.2.1.10.in-addr.arpa",
    ),
)

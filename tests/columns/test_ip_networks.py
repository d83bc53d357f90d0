"""Addresses in networks are those that Python's `ipaddress` finds."""

from __future__ import annotations

import ipaddress

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from etl.columns.ip_networks import NetworkSet
from etl.columns.texts import Texts

NETWORKS = (
    *("10.0.0.0/8", "10.1.0.0/16", "10.1.2.3/32", "0.0.0.0/0", "255.255.255.255"),
    *("::/0", "2001:db8::/32", "2001:db8:0:0:8000::/65", "fe80::/10", "::1", "::ffff:10.0.0.0/104"),
)
ADDRESSES = st.one_of(
    st.ip_addresses().map(str),
    st.integers(0, 0xFFFF).map(lambda n: f"10.1.{n >> 8}.{n & 255}"),
    st.integers(0, 0xFFFF).map(lambda n: f"2001:db8::{n:x}:0:0:0"),
    st.ip_addresses(v=4).map(lambda a: f"::ffff:{a}"),
    st.sampled_from(["fe80::1%eth0", "fe80::1%", "fe80::1%a%b", "%eth0", "10.1.2.3%eth0", "010.1.2.3", "", "::", "1::2::3"]),
    st.text("0123456789abcdef:.%/", max_size=40),
)


def inside(text: str | None, network: str) -> bool:
    """Of addresses as Python says; IPv4 inside IPv6 is IPv4."""
    try:
        address = ipaddress.ip_address(text or "")
    except ValueError:
        return False
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (inner or address) in ipaddress.ip_network({"::ffff:10.0.0.0/104": "10.0.0.0/8"}.get(network, network))


@pytest.mark.slow
@settings(deadline=None)  # kernels are compiled at their first call
@given(st.lists(st.none() | ADDRESSES, max_size=20), st.lists(st.sampled_from(NETWORKS), min_size=1, max_size=6))
@example(["::ffff:10.1.2.3", "::ffff:a01:203%1", "::ffff:11.0.0.1"], list(NETWORKS))
@example(["fe80::1%eth0", "fe80::1%", "fe80::1%a%b"], ["fe80::/10"])
def test_networks_contain_the_addresses_that_python_says(texts: list[str | None], networks: list[str]) -> None:
    known = NetworkSet([ipaddress.ip_network(one) for one in networks])

    found: dict[int, list[int]] = {number: [] for number in range(len(networks))}
    for number, indexes in known.find(Texts.of(pa.array(texts, pa.string()))):
        found[number] += indexes.tolist()

    expected = {n: [at for at, text in enumerate(texts) if inside(text, network)] for n, network in enumerate(networks)}
    assert {number: sorted(rows) for number, rows in found.items()} == expected


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string(), pa.string_view()])
def test_any_network_counts_in_any_type_of_text(type_: pa.DataType) -> None:
    known = NetworkSet([ipaddress.ip_network(one) for one in ("10.0.0.0/8", "::1")])

    assert known.contains(Texts.of(pa.array(["10.1.1.1", None, "::1", "11.1.1.1", "no"], type_))).tolist() == [
        *(True, False, True),
        *(False, False),
    ]

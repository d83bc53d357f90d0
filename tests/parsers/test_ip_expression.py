"""IP addresses: exactly what Python's ipaddress takes."""

from __future__ import annotations

import re
from ipaddress import IPv6Address, ip_address

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parsers.weblog.ip_expression import IP, ZONE

PARTS = st.sampled_from(["", "0", "1", "ab", "FFFF", "12345", "g", "1.2.3.4", "256.1.1.1"])
TEXTS = (
    st.ip_addresses().map(str)
    | st.ip_addresses(v=6).map(lambda address: address.exploded)
    | st.integers(0, 2**16).map(lambda number: str(IPv6Address(number << 64)))
    | st.lists(PARTS, min_size=2, max_size=9).map(":".join)
    | st.lists(st.sampled_from(["0", "9", "99", "199", "249", "255", "256", "01", ""]), min_size=3, max_size=5).map(".".join)
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_an_address_is_what_python_takes(text: str) -> None:
    try:
        ip_address(text)
    except ValueError:
        assert not re.fullmatch(IP, text)
    else:
        assert re.fullmatch(IP, text)


def test_zones() -> None:
    assert re.fullmatch(IP + ZONE, "fe80::1%eth0.1")
    assert not re.fullmatch(IP, "fe80::1%eth0")

"""Of the networks and ranges around a value, the one that begins last is found."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from etl.columns.ip_kernel import parse_addresses
from etl.columns.texts import Texts
from etl.tables import section_file
from etl.tables.interval_index import NetworkCollector, NetworkIndex, RangeCollector, RangeIndex


def read(texts: list[str | None]) -> list[int | None]:
    """Addresses as the kernel reads them."""
    column = pa.array(texts, pa.string())
    places = Texts.of(column)
    high, low, valid = np.zeros(len(texts), np.uint64), np.zeros(len(texts), np.uint64), np.empty(len(texts), np.bool_)
    parse_addresses(places.address, places.length, high, low, valid)
    return [int(h) << 64 | int(lo) if ok else None for h, lo, ok in zip(high, low, valid, strict=True)]


def by_library(text: str) -> int | None:
    """The same by Python: IPv4 addresses among those of IPv6, no zones."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    if "%" in text:
        return None
    return int(found) if found.version == 6 else 0xFFFF << 32 | int(found)


forms = st.one_of(
    st.ip_addresses().map(str),
    st.ip_addresses(v=6).map(lambda a: a.exploded),
    st.ip_addresses(v=4).map(lambda a: f"::ffff:{a}"),
    st.lists(st.sampled_from(["0", "1", "ffff", "", ":", "::", "1.2.3.4", "12345", "g", ".", "%e"]), max_size=10).map(":".join),
    st.text("0123456789abcdefABCDEF:.%/", max_size=46),
)


@settings(deadline=None)  # kernels are compiled at their first call
@given(forms)
@example("::")
@example("1::")
@example("::1.2.3.4")
@example("1:2:3:4:5:6:7::")
@example("::2:3:4:5:6:7:8")
@example("1:2:3:4:5:6:1.2.3.4")
@example("1:2:3:4:5:6:7:1.2.3.4")
@example("1::1.2.3.4:5")
@example("1:2:3:4:5:6:7:8:")
@example(":1:2:3:4:5:6:7")
@example("01.2.3.4")
def test_addresses_are_read_as_python_reads_them(text: str) -> None:
    assert read([text]) == [by_library(text)]


def opened(folder: Path, gathered: NetworkCollector | RangeCollector, index: Any) -> Any:
    arrays, _, _ = gathered.sections(several=False)
    section_file.write(folder / "t", {}, arrays, {})
    return index(section_file.SectionFile(folder / "t"))


def held(folder: Path, networks: list[str | None], expected: list[str | None]) -> tuple[list[int], NetworkCollector]:
    gathered = NetworkCollector()
    gathered.add([pa.array(networks, pa.string())])
    return opened(folder, gathered, NetworkIndex).find([pa.array(expected, pa.string())]).tolist(), gathered


def test_the_longest_prefix_counts(tmp_path: Path) -> None:
    networks = ["10.0.0.0/8", "10.1.0.0/16", "10.1.2.0/24", "10.1.2.3", "2001:db8::/32", "2001:db8::/48", "0.0.0.0/0"]
    expected = [
        "10.2.0.0",
        "10.1.255.255",
        "10.1.2.4",
        "10.1.2.3",
        "2001:db8:1::",
        "2001:db8:0:1::",
        "192.0.2.1",
        "::1",
        "x",
        None,
    ]

    found, gathered = held(tmp_path, [*networks], [*expected])

    assert found == [0, 1, 2, 3, 4, 5, 6, -1, -1, -1]
    assert gathered.missing == 0


def test_what_is_no_network_is_left_out(tmp_path: Path) -> None:
    gathered = NetworkCollector()

    kept = gathered.add([pa.array(["10.0.0.0/8", "10.0.0.0/33", "", None, "10.0.0.0/", "10/8", "::/129", "1.2.3.4/x", "::/0"])])

    assert np.flatnonzero(kept).tolist() == [0, 8]
    assert gathered.missing == 7


def test_of_equal_networks_the_first_row_counts(tmp_path: Path) -> None:
    assert held(tmp_path, ["10.0.0.0/8", "10.9.9.9/8", "::ffff:10.0.0.0/104"], ["10.0.0.1"])[0] == [0]


def test_an_empty_table_holds_nothing(tmp_path: Path) -> None:
    assert held(tmp_path, [], ["10.0.0.1", "::1"])[0] == [-1, -1]


network = st.tuples(st.ip_addresses(), st.integers(0, 128)).map(
    lambda pair: ipaddress.ip_network((pair[0], pair[1] % (33 if pair[0].version == 4 else 129)), strict=False)
)
near = st.one_of(
    network,
    st.tuples(st.integers(0, 7), st.integers(24, 32)).map(lambda p: ipaddress.ip_network((p[0] << 4, p[1]), strict=False)),
)


@pytest.mark.slow
@settings(deadline=None)  # kernels are compiled at their first call
@given(
    st.lists(near, max_size=12),
    st.lists(st.one_of(st.ip_addresses(), st.integers(0, 300).map(ipaddress.IPv4Address)), max_size=12),
)
def test_the_row_is_that_of_python(tmp_path_factory: pytest.TempPathFactory, networks: list[Any], expected: list[Any]) -> None:
    expected = [*expected, *(n.network_address for n in networks), *(n.broadcast_address for n in networks)]

    found, _ = held(tmp_path_factory.mktemp("t"), [str(n) for n in networks], [str(a) for a in expected])

    def best(address: Any) -> int:
        mapped = address.ipv4_mapped if address.version == 6 and address.ipv4_mapped else address
        around = [
            (n.prefixlen + (96 if n.version == 4 else 0), -row) for row, n in enumerate(networks) if _inside(address, mapped, n)
        ]
        return -max(around)[1] if around else -1

    assert found == [best(address) for address in expected]


def _inside(address: Any, mapped: Any, network_: Any) -> bool:
    if network_.version == 4:
        return mapped.version == 4 and mapped in network_
    return (address if address.version == 6 else ipaddress.IPv6Address(0xFFFF << 32 | int(address))) in network_


ranges = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=12)


@pytest.mark.slow
@settings(deadline=None)  # kernels are compiled at their first call
@given(ranges, st.sampled_from([pa.int64(), pa.float64(), pa.int32()]))
def test_of_ranges_around_a_value_the_last_to_begin_counts(
    tmp_path_factory: pytest.TempPathFactory, bounds: list[tuple[int, int]], type_: pa.DataType
) -> None:
    gathered = RangeCollector()
    kept = gathered.add([pa.array([a for a, _ in bounds], type_), pa.array([b for _, b in bounds], type_)])
    index = opened(tmp_path_factory.mktemp("t"), gathered, RangeIndex)
    good = [(a, b) for a, b in bounds if a <= b]

    found = index.find([pa.array([None, *range(-1, 32)], type_)]).tolist()

    def best(value: int) -> int:
        around = [(a, -b, -row) for row, (a, b) in enumerate(good) if a <= value <= b]
        return -max(around)[2] if around else -1

    assert found == [-1, *(best(value) for value in range(-1, 32))]
    assert gathered.missing == len(bounds) - len(good)
    assert (kept is None) == (len(good) == len(bounds))


def test_times_and_fractions_have_ranges(tmp_path: Path) -> None:
    times = [datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3)]
    gathered = RangeCollector()
    gathered.add([pa.array(times[:1]), pa.array(times[1:2])])
    fractions = RangeCollector()
    fractions.add([pa.array([0.5]), pa.array([1.5])])

    assert opened(tmp_path, gathered, RangeIndex).find([pa.array(times)]).tolist() == [0, 0, -1]
    assert opened(tmp_path, fractions, RangeIndex).find([pa.array([0.4, 0.5, 1.0, 1.5, 1.6, float("nan")])]).tolist() == [
        -1,
        0,
        0,
        0,
        -1,
        -1,
    ]

"""The parser `geoip`, with small MaxMind DB files that are written here."""

from __future__ import annotations

import struct
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from etl.api import ComponentError
from etl.expressions import analyse, compile_expression
from parsers.geoip.parser import Geoip

ULM = {
    "city": {"names": {"en": "Ulm", "ru": "Ульм"}},
    "continent": {"code": "EU", "names": {"en": "Europe", "ru": "Европа"}},
    "country": {"iso_code": "DE", "names": {"en": "Germany"}},
    "location": {"latitude": 48.4, "longitude": 9.99, "time_zone": "Europe/Berlin"},
    "postal": {"code": "89073"},
    "subdivisions": [{"iso_code": "X", "names": {"en": "South"}}, {"iso_code": "BW", "names": {"en": "Baden-Württemberg"}}],
}
PLACES = {"203.0.113.0/24": ULM, "2001:db8::/32": {"country": {"iso_code": "FR", "names": {"en": "France"}}}}
NETWORKS = {"203.0.113.0/25": {"autonomous_system_number": 64500, "autonomous_system_organization": "Example"}}

# ── Writing files: MaxMind DB File Format Specification 2.0 ───────────────────────────────────────


WIDE = {"node_count": 6, "autonomous_system_number": 6, "build_epoch": 9}
"""Keys whose numbers have 32 or 64 bits: their kinds. Others have 16."""


def encoded(value: Any, kind: int = 5) -> bytes:
    """A value of the data section."""
    if isinstance(value, dict):
        members = (encoded(key) + encoded(item, WIDE.get(key, 5)) for key, item in value.items())
        return head(7, len(value)) + b"".join(members)
    if isinstance(value, list):
        return head(11, len(value)) + b"".join(map(encoded, value))
    if isinstance(value, str):
        return head(2, len(value.encode())) + value.encode()
    if isinstance(value, float):
        return head(3, 8) + struct.pack(">d", value)
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return head(kind, len(data)) + data


def head(kind: int, size: int) -> bytes:
    """The control byte: the kind in its first 3 bits, or after it for kinds from 8 on; sizes from 29 in one more byte."""
    short, rest = (size, b"") if size < 29 else (29, bytes([size - 29]))
    return (bytes([kind << 5 | short]) if kind < 8 else bytes([short, kind - 7])) + rest


def database(records: dict[str, Any], ip_version: int = 6, kind: str = "Test-City") -> bytes:
    """A file: search tree of 24-bit records, 16 zero bytes, data, metadata."""
    nodes: list[list[int | None]] = [[None, None]]
    data = b""
    offsets = []
    for network, record in records.items():
        address = ip_network(network)
        bits = f"{int(address.network_address):0{address.max_prefixlen}b}"[: address.prefixlen]
        bits = "0" * 96 + bits if address.version == 4 and ip_version == 6 else bits
        node = 0
        for bit in bits[:-1]:
            child = nodes[node][int(bit)]
            if child is None:
                child = len(nodes)
                nodes.append([None, None])
                nodes[node][int(bit)] = child
            node = child
        offsets.append(len(data))
        nodes[node][int(bits[-1])] = -len(offsets)
        data += encoded(record)
    count = len(nodes)

    def target(child: int | None) -> int:
        return count if child is None else child if child >= 0 else count + 16 + offsets[-child - 1]

    tree = b"".join(target(child).to_bytes(3, "big") for node in nodes for child in node)
    meta = {"node_count": count, "record_size": 24, "ip_version": ip_version, "database_type": kind, "languages": ["en"]}
    meta |= {"binary_format_major_version": 2, "binary_format_minor_version": 0, "build_epoch": 1, "description": {"en": "test"}}
    return tree + bytes(16) + data + b"\xab\xcd\xefMaxMind.com" + encoded(meta)


@pytest.fixture
def places(tmp_path: Path) -> str:
    path = tmp_path / "places.mmdb"
    path.write_bytes(database(PLACES))
    return str(path)


@pytest.fixture
def networks(tmp_path: Path) -> str:
    path = tmp_path / "networks.mmdb"
    path.write_bytes(database(NETWORKS, ip_version=4, kind="Test-ASN"))
    return str(path)


# ── Tests ─────────────────────────────────────────────────────────────────────────────────────────


def run(step: Geoip, *addresses: str | None) -> tuple[list[dict[str, Any]], list[str]]:
    batch = pa.RecordBatch.from_pydict({step.field: pa.array(addresses, pa.string())})
    events, rejects = step.open(batch.schema)(batch)
    assert events.schema == step.fields(batch.schema)
    assert events.num_rows + sum(r.events.num_rows for r in rejects) == len(addresses)
    return events.to_pylist(), [reason for reject in rejects for reason in reject.reasons.to_pylist()]


def test_places_and_networks(places: str, networks: str) -> None:
    (event,), _ = run(Geoip(geo_database=places, as_database=networks), "203.0.113.5")

    assert event == {
        "source.ip": "203.0.113.5",
        "source.geo.continent_code": "EU",
        "source.geo.continent_name": "Europe",
        "source.geo.country_iso_code": "DE",
        "source.geo.country_name": "Germany",
        "source.geo.region_iso_code": "DE-BW",
        "source.geo.region_name": "Baden-Württemberg",
        "source.geo.city_name": "Ulm",
        "source.geo.postal_code": "89073",
        "source.geo.timezone": "Europe/Berlin",
        "source.geo.location.lat": 48.4,
        "source.geo.location.lon": 9.99,
        "source.as.number": 64500,
        "source.as.organization.name": "Example",
    }


def test_places_as_a_function_of_expressions(places: str, networks: str) -> None:
    batch = pa.record_batch({"ip": pa.array(["203.0.113.5", "::ffff:203.0.113.9", "10.1.2.3", "x", None])})

    def values(detail: str, path: str) -> list[object]:
        return list(compile_expression(f"geo(ip, '{detail}', '{path}')", batch.schema)(batch).values.to_pylist())

    assert values("country", places) == ["DE", "DE", None, None, None]
    assert values("latitude", places)[0] == 48.4
    assert values("asn", networks)[0] == 64500
    [finding] = analyse(f"geo(ip, 'town', '{places}')", batch.schema).findings
    assert (finding.message, "city_name" in (finding.hint or "")) == ("there is no detail 'town'", True)
    [finding] = analyse("geo(ip, 'city', '/none.mmdb')", batch.schema).findings
    assert "MaxMind DB file '/none.mmdb' cannot be read" in finding.message


@pytest.mark.parametrize(
    ("address", "country"),
    [
        ("2001:db8::1", "FR"),
        ("2001:db8::1%eth0", "FR"),
        ("::ffff:203.0.113.9", "DE"),
        ("10.1.2.3", None),
        ("192.168.0.1", None),
        ("::1", None),
        (None, None),
    ],
)
def test_addresses(places: str, networks: str, address: str | None, country: str | None) -> None:
    (event,), _ = run(Geoip(geo_database=places, as_database=networks), address)

    assert event["source.geo.country_iso_code"] == country


def test_what_is_no_address_fails_alone(places: str) -> None:
    addresses = ["203.0.113.1", "-", "", "203.0.113.1:80", "203.0.113.256", "x" * 100, "2001:db8::1"]

    events, reasons = run(Geoip(geo_database=places), *addresses)

    assert [event["source.ip"] for event in events] == ["203.0.113.1", "2001:db8::1"]
    assert reasons[0] == "'-' is not an IP address"
    assert len(reasons) == 5


def test_language(places: str) -> None:
    (event,), _ = run(Geoip(geo_database=places, language="ru"), "203.0.113.1")

    assert event["source.geo.city_name"] == "Ульм"
    assert event["source.geo.country_name"] == "Germany", "English where the file has no other"


@pytest.mark.parametrize(("field", "target", "name"), [("ip", None, "geo.city_name"), ("a.b.ip", None, "a.b.geo.city_name")])
def test_target(places: str, field: str, target: str | None, name: str) -> None:
    assert name in Geoip(geo_database=places, field=field, target=target).parsed_fields().names
    assert "client.geo.city_name" in Geoip(geo_database=places, field=field, target="client").parsed_fields().names


def test_a_replaced_file_is_read_anew(places: str) -> None:
    step = Geoip(geo_database=places)
    before, _ = run(step, "203.0.113.1")
    other = Path(places).with_name("new.mmdb")
    other.write_bytes(database({"203.0.113.0/24": {"country": {"iso_code": "AT"}}}))
    other.rename(places)

    after, _ = run(step, "203.0.113.1")

    assert [event["source.geo.country_iso_code"] for event in before + after] == ["DE", "AT"]


def test_values_of_other_kinds_than_expected_are_null(tmp_path: Path) -> None:
    path = tmp_path / "odd.mmdb"
    record = {"city": "Ulm", "country": {"iso_code": 5, "names": ["x"]}, "location": {"latitude": "north"}, "subdivisions": []}
    path.write_bytes(database({"203.0.113.0/24": record}))

    (event,), _ = run(Geoip(geo_database=str(path)), "203.0.113.1")

    assert {value for name, value in event.items() if name != "source.ip"} == {None}


def test_findings(places: str, tmp_path: Path) -> None:
    schema = pa.schema([("source.ip", pa.string())])
    (tmp_path / "junk.mmdb").write_bytes(b"junk" * 100)

    def check_codes(**options: Any) -> list[tuple[str, tuple[str | int, ...]]]:
        return [(finding.code, finding.path) for finding in Geoip(**options).check(schema)]

    assert check_codes() == [("no-database", ())]
    assert check_codes(geo_database=str(tmp_path / "none.mmdb")) == [("unreadable-file", ("geo_database",))]
    assert check_codes(as_database=str(tmp_path / "junk.mmdb")) == [("unreadable-file", ("as_database",))]
    assert check_codes(geo_database=str(tmp_path)) == [("unreadable-file", ("geo_database",))]
    assert check_codes(geo_database=places) == []


def test_a_file_that_is_gone_when_it_runs(tmp_path: Path) -> None:
    with pytest.raises(ComponentError, match="cannot be read"):
        Geoip(geo_database=str(tmp_path / "none.mmdb")).compile()


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.none() | st.text(max_size=20) | st.ip_addresses().map(str), max_size=6))
def test_no_text_raises(places: str, texts: list[str | None]) -> None:
    run(Geoip(geo_database=places), *texts)

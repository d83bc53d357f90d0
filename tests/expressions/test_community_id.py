"""Community IDs: the published vectors, all at once and one by one, and against the standard library's SHA-1."""

from __future__ import annotations

import base64
import hashlib
import socket
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.expressions import analyse, compile_expression
from etl.expressions.values.community_id import community_id, community_ids

VECTORS = yaml.load((Path(__file__).parent / "community_ids.yaml").read_text(), Loader=yaml.CSafeLoader)
FIELDS = pa.schema(
    [("a", pa.string()), ("b", pa.string()), ("p", pa.int32()), ("q", pa.int64()), ("t", pa.string())],
)


def columns() -> list[pa.Array]:
    """The vectors as columns."""
    types = (pa.string(), pa.string(), pa.int64(), pa.int64(), pa.string())
    return [pa.array([vector[at] for vector in VECTORS], type_) for at, type_ in enumerate(types)]


def test_a_column_of_flows_has_the_published_ids() -> None:
    assert community_ids(*columns()).to_pylist() == [vector[5] for vector in VECTORS]


def test_another_seed_gives_other_ids() -> None:
    found = community_ids(*columns(), seed=1).to_pylist()

    assert [one for one, vector in zip(found, VECTORS, strict=True) if vector[6]] == [
        vector[6] for vector in VECTORS if vector[6]
    ]


@pytest.mark.parametrize("vector", VECTORS)
def test_one_flow_has_the_published_id(vector: list[Any]) -> None:
    assert community_id(*vector[:5]) == vector[5]


def test_the_function_of_expressions_takes_columns_and_constants() -> None:
    batch = pa.record_batch(columns(), names=FIELDS.names).cast(FIELDS)

    found = compile_expression("community_id(a, b, p, q, t)", FIELDS)(batch).values
    fixed = compile_expression("community_id('192.168.1.52', b, 54585, q, 'udp', 1)", FIELDS)(batch.slice(2, 1)).values

    assert found.to_pylist() == [vector[5] for vector in VECTORS]
    assert fixed.to_pylist() == [VECTORS[2][6]]


def test_a_wrong_call_is_a_finding() -> None:
    (few,) = analyse("community_id(a, b)", FIELDS).findings
    (seed,) = analyse("community_id(a, b, p, q, t, 65536)", FIELDS).findings

    assert "5 to 6" in few.message or "argument" in few.message
    assert "65535" in seed.message


@pytest.mark.slow
@settings(deadline=None)
@given(st.data())
def test_ids_are_sha_1_of_the_ordered_ends(data: st.DataObject) -> None:
    ends = data.draw(st.sampled_from([st.ip_addresses(v=4), st.ip_addresses(v=6)]))
    flow = sorted((data.draw(ends), data.draw(st.integers(0, 65535))) for _ in range(2))
    seed = data.draw(st.integers(0, 65535))

    packed = seed.to_bytes(2, "big") + b"".join(ip.packed for ip, _ in flow) + bytes([17, 0])
    digest = hashlib.sha1(packed + b"".join(port.to_bytes(2, "big") for _, port in flow), usedforsecurity=False).digest()

    (one, port), (other, other_port) = flow
    assert community_id(str(one), str(other), port, other_port, "udp", seed) == "1:" + base64.b64encode(digest).decode()


@pytest.mark.slow
@settings(deadline=None)
@given(
    st.from_regex(r"[0-9a-fA-F]{0,4}([:.]{1,2}[0-9a-fA-F]{0,4}){0,8}", fullmatch=True)
    | st.text(alphabet="0123456789:.af%", max_size=20)
)
def test_addresses_are_those_of_the_system(text: str) -> None:
    found = [community_id(text, other, 1, 2, "tcp") for other in ("192.0.2.1", "2001:db8::1")]

    assert [one is not None for one in found] == [_is_address(text, socket.AF_INET), _is_address(text, socket.AF_INET6)]


def _is_address(text: str, family: socket.AddressFamily) -> bool:
    try:
        return bool(socket.inet_pton(family, text))
    except OSError:
        return False


@pytest.mark.slow
@settings(deadline=None)
@given(st.data())
def test_both_directions_of_a_flow_have_one_id(data: st.DataObject) -> None:
    ends = data.draw(st.sampled_from([st.ip_addresses(v=4), st.ip_addresses(v=6)]))
    one, other = (str(data.draw(ends)) for _ in range(2))
    port, other_port = (data.draw(st.integers(0, 65535)) for _ in range(2))

    assert community_id(one, other, port, other_port, "tcp") == community_id(other, one, other_port, port, "tcp")

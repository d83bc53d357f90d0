"""Community IDs: the published vectors, all at once and one by one, and SHA-1 against the standard library's."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.expressions import analyse, compile_expression
from etl.expressions.community_id import community_id, community_ids
from etl.expressions.sha1 import LONGEST, digests

VECTORS = yaml.safe_load((Path(__file__).parent / "community_ids.yaml").read_text())
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


@settings(deadline=None)
@given(st.lists(st.binary(max_size=LONGEST), min_size=1, max_size=5))
def test_digests_are_those_of_sha_1(texts: list[bytes]) -> None:
    messages = np.zeros((len(texts), 64), np.uint8)
    for row, text in enumerate(texts):
        messages[row, : len(text)] = np.frombuffer(text, np.uint8)

    found = digests(messages, np.array([len(text) for text in texts]))

    assert [bytes(row) for row in found] == [hashlib.sha1(text, usedforsecurity=False).digest() for text in texts]


@settings(deadline=None)
@given(st.data())
def test_both_directions_of_a_flow_have_one_id(data: st.DataObject) -> None:
    ends = data.draw(st.sampled_from([st.ip_addresses(v=4), st.ip_addresses(v=6)]))
    one, other = (str(data.draw(ends)) for _ in range(2))
    port, other_port = (data.draw(st.integers(0, 65535)) for _ in range(2))

    assert community_id(one, other, port, other_port, "tcp") == community_id(other, one, other_port, port, "tcp")

"""The entropy of texts, against the definition."""

import math
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.expressions import compile_expression
from etl.expressions.values.entropy import entropy


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.none() | st.text(max_size=40) | st.text("ab", max_size=300), max_size=5))
def test_the_entropy_is_that_of_the_bytes(texts: list[str | None]) -> None:
    batch = pa.record_batch({"x": pa.array(texts, pa.string())})

    found = compile_expression("entropy(x)", batch.schema)(batch).values.to_pylist()

    for text, value in zip(texts, found, strict=True):
        if text is None:
            assert value is None
            continue
        data = text.encode()
        shares = [count / len(data) for count in Counter(data).values()]
        assert value == pytest.approx(-sum(share * math.log2(share) for share in shares), abs=1e-12)
        assert value == entropy(text)


def test_constants_have_an_entropy() -> None:
    batch = pa.record_batch({"x": [1, 2]})

    assert compile_expression("entropy('abcd') + x", batch.schema)(batch).values.to_pylist() == [3.0, 4.0]

"""Columns of texts: for every type, slice and position in memory, results equal Python's slices."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.columns import texts as module
from etl.columns.texts import (
    Texts,
    concat_arrays,
    filter_batch,
    make_span_views,
    make_view_array,
    materialize,
    materialize_array,
    sum_text_bytes,
)

TYPES = [pa.string(), pa.large_string(), pa.string_view()]
LENGTHS = [0, 1, 3, 4, 5, 7, 8, 9, 11, 12, 13, 15, 16, 17, 31, 32, 33, 500]

FIXED = ["x" * n for n in LENGTHS] + ["é" * 6, "中" * 5]
SIGNS = [(0, 0x7F), (0x80, 0x7FF), (0x800, 0xD7FF), (0x10000, 0x10FFFF)]
"""Code points that take one, two, three and four bytes."""

randoms = st.integers(0, (1 << 32) - 1).map(Random)
"""A seed is drawn: Hypothesis takes longer to draw forty texts than the kernels take to read them."""


def make_text(random: Random) -> str | None:
    kind = random.randrange(3)
    if kind == 0:
        return None
    if kind == 1:
        return random.choice(FIXED)
    return "".join(chr(random.randint(*random.choice(SIGNS))) for _ in range(random.randrange(21)))


def make_array(random: Random) -> pa.Array:
    """A text array of any type, sliced."""
    whole = pa.array([make_text(random) for _ in range(random.randrange(41))], random.choice(TYPES))
    first = random.randint(0, len(whole))
    return whole.slice(first, random.randint(0, len(whole) - first))


def arrays() -> st.SearchStrategy[pa.Array]:
    return randoms.map(make_array)


def spans_of_all(found: Texts) -> tuple[np.ndarray, np.ndarray]:
    return np.minimum(found.length, 0).astype(np.int32), found.length.astype(np.int32)


@pytest.mark.slow
@settings(deadline=None)
@given(randoms)
def test_views_of_spans_equal_slices(random: Random) -> None:
    array = make_array(random)
    raw = [None if text is None else text.encode("ascii", "replace") for text in array.to_pylist()]
    plain = pa.array([None if text is None else text.decode() for text in raw], array.type)
    spans = [(-1, 5) if text is None else sorted(random.randint(0, len(text)) for _ in "ab") for text in raw]
    starts, ends = (np.array([span[side] for span in spans], np.int32) for side in (0, 1))

    found = make_span_views(starts, ends, Texts.of(plain))
    without_empty = make_span_views(starts, ends, Texts.of(plain), empty_is_null=True)

    expected = [None if text is None else text[a:b].decode() for text, (a, b) in zip(raw, spans, strict=True)]
    for views in (found, without_empty):
        views.validate(full=True)
        assert views.type == pa.string_view()
    assert found.to_pylist() == expected
    assert without_empty.to_pylist() == [text or None for text in expected]


@pytest.mark.slow
@settings(deadline=None)
@given(arrays())
def test_owned_equals_the_cast_of_arrow(array: pa.Array) -> None:
    batch = pa.record_batch([array, pa.array(range(len(array)))], names=["a", "b"])

    found = materialize(batch)

    found.validate(full=True)
    if array.type == pa.string_view():
        assert found.column(0).equals(array.cast(pa.string()))
    else:
        assert found is batch


@pytest.mark.slow
@settings(deadline=None)
@given(randoms)
def test_filtered_equals_the_filter_of_arrow(random: Random) -> None:
    array = make_array(random)
    rows = len(array)
    mask = pa.array(random.choices([True, False, None], k=rows), pa.bool_())
    strings = array.cast(pa.string())
    batch = pa.record_batch([array, pa.array(range(rows))], names=["a", "b"])

    found = filter_batch(batch, mask)

    found.validate(full=True)
    assert found.schema == batch.schema
    assert materialize(found).to_pylist() == batch.set_column(0, "a", strings).filter(mask).to_pylist()


@settings(deadline=None)
@given(arrays())
def test_text_bytes_count_the_rows_of_a_slice(array: pa.Array) -> None:
    assert sum_text_bytes(array) == sum(len(text.encode()) for text in array.to_pylist() if text)


@settings(deadline=None)
@given(arrays())
def test_lengths_are_bytes_and_null_is_below_zero(array: pa.Array) -> None:
    found = Texts.of(array)

    assert found.length.tolist() == [-1 if text is None else len(text.encode()) for text in array.to_pylist()]
    assert (found.address.dtype, found.length.dtype) == (np.uint64, np.int64)


def test_a_column_of_type_null_is_null() -> None:
    assert Texts.of(pa.nulls(2)).length.tolist() == [-1, -1]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("type_", TYPES[:2])
def test_a_text_that_ends_where_memory_ends(
    length: int, type_: pa.DataType, at_the_end_of_memory: Callable[[bytes], pa.Buffer]
) -> None:
    text = ("0123456789" * 50)[:length]
    offsets = pa.array([0, length, length], pa.int32() if type_ == pa.string() else pa.int64()).buffers()[1]
    array = pa.Array.from_buffers(type_, 2, [None, offsets, at_the_end_of_memory(text.encode())])

    found = Texts.of(array)
    views = make_span_views(*spans_of_all(found), found)

    assert views.to_pylist() == [text, ""]
    assert materialize_array(views).to_pylist() == [text, ""]


def test_texts_of_several_buffers_are_copied() -> None:
    parts = [pa.array([letter * 20, letter, None], pa.string_view()) for letter in "ab"]
    array = pa.concat_arrays(parts)
    assert len(array.buffers()) > 3

    found = Texts.of(array)
    views = make_span_views(*spans_of_all(found), found, empty_is_null=True)

    assert views.to_pylist() == array.to_pylist()
    assert materialize_array(array).to_pylist() == array.to_pylist()


def test_texts_beyond_the_reach_of_a_view_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    array = pa.array(["x" * 20, "y" * 30, None, ""])
    monkeypatch.setattr(module, "MAX_OFFSET", 40)

    found = Texts.of(array)
    views = make_span_views(*spans_of_all(found), found)

    assert views.cast(pa.string()).equals(array)


def test_strings_beyond_the_reach_of_their_offsets_become_large(monkeypatch: pytest.MonkeyPatch) -> None:
    views = pa.array(["x" * 20, "y" * 30, None], pa.string_view())
    monkeypatch.setattr(module, "MAX_OFFSET", 40)

    assert materialize_array(views).equals(views.cast(pa.large_string()))


def test_a_slice_of_a_large_column_has_its_own_base() -> None:
    array = pa.array(["x" * 100] * 10 + ["y" * 20])

    found = Texts.of(array.slice(10))

    assert found.buffer is not None
    assert found.buffer.size == 20


def test_views_keep_their_buffer_alive() -> None:
    found = Texts.of(pa.array(["a text of more than twelve bytes"] * 1000))
    views = make_span_views(*spans_of_all(found), found)
    del found

    assert set(views.to_pylist()) == {"a text of more than twelve bytes"}


def test_views_without_a_buffer() -> None:
    assert make_view_array(np.zeros((3, 4), np.uint32), np.array([1, 0, 1]), None).to_pylist() == ["", None, ""]


# ── Columns one after another ────────────────────────────────────────────────────────────────────


def test_views_into_one_buffer_are_joined_without_their_texts() -> None:
    views = pa.array(["a text that is too long for its view", None, "short", "one more text of some length"], pa.string_view())

    found = concat_arrays([(1, views.slice(3)), (2, None), (0, views.slice(0, 0)), (3, views.slice(0, 3))])

    assert found.type == pa.string_view()
    assert found.to_pylist() == [
        "one more text of some length",
        None,
        None,
        "a text that is too long for its view",
        None,
        "short",
    ]
    assert found.buffers()[2].address == views.buffers()[2].address


def test_views_into_several_buffers_are_joined_as_texts() -> None:
    parts = [pa.array([f"{'long ' * 5}{n}", "s"], pa.string_view()) for n in range(2)]

    found = concat_arrays([(2, part) for part in parts])

    assert found.type == pa.string()
    assert found.to_pylist() == parts[0].to_pylist() + parts[1].to_pylist()


def test_texts_and_numbers_are_joined_with_nulls_between() -> None:
    assert concat_arrays([(1, pa.array(["a"], pa.string_view())), (2, pa.array(["b", None]))]).to_pylist() == ["a", "b", None]
    assert concat_arrays([(1, None), (2, pa.array([1, 2]))]).to_pylist() == [None, 1, 2]

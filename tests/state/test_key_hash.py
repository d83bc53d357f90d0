"""Hashes of keys: equal values have equal hashes, whatever stores them, and other values have others."""

import datetime as dt
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.api import ComponentError
from etl.state.key_hash import PARTS, is_key_type, key_hashes, new_seed, part_of, sort_by_hash

DECIMAL = st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=-(10**6), max_value=10**6)
VALUES: list[tuple[pa.DataType, st.SearchStrategy]] = [
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-3, 3)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text(max_size=20)),
    (pa.binary(), st.binary(max_size=20)),
    (pa.binary(3), st.binary(min_size=3, max_size=3)),
    (pa.decimal128(10, 2), DECIMAL),
    (pa.decimal256(60, 2), DECIMAL),
    (pa.date32(), st.dates()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(dt.UTC))),
    (pa.time64("us"), st.times()),
    (pa.duration("us"), st.timedeltas(dt.timedelta(-9), dt.timedelta(9))),
    (pa.list_(pa.string()), st.lists(st.none() | st.text(max_size=2), max_size=3)),
    (pa.list_(pa.list_(pa.int8())), st.lists(st.none() | st.lists(st.integers(0, 1), max_size=2), max_size=2)),
    (
        pa.struct({"a": pa.int8(), "b": pa.string()}),
        st.fixed_dictionaries({"a": st.integers(0, 1), "b": st.none() | st.text("x")}),
    ),
]


def _pairs(column: pa.Array | pa.ChunkedArray, seed: int = 0) -> list[tuple[int, int]]:
    return list(zip(*key_hashes(pa.table({"k": column}), ["k"], seed).tolist(), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("type_", "values"), VALUES, ids=lambda one: str(one) if isinstance(one, pa.DataType) else "")
def test_rows_have_equal_hashes_exactly_if_their_values_are_equal(type_: pa.DataType, values: st.SearchStrategy) -> None:
    @settings(deadline=None, max_examples=50)  # of each of many types, which share their kernels
    @given(st.lists(st.none() | values, min_size=1), st.integers(0, 9))
    def law(some: list, cut: int) -> None:
        array = pa.array(some, type_)
        whole = _pairs(array)
        equal = {(repr(value) if isinstance(value, list | dict) else value, value is None) for value in array.to_pylist()}
        assert len(set(whole)) == len(equal)
        assert len({pair[0] for pair in whole}) == len({pair[1] for pair in whole}) == len(equal)
        assert _pairs(pa.chunked_array([array[:cut], array[cut:]])) == whole
        assert _pairs(array[cut:]) == whole[cut:]

    law()


@pytest.mark.parametrize(
    ("column", "others"),
    [
        (pa.array([1, -1, None], pa.int8()), [pa.int16(), pa.int32(), pa.int64()]),
        (pa.array([1.5, None, -0.0]), [pa.float32(), pa.float16()]),
        (
            pa.array(["", "a", None, "longer than a view is"]),
            [pa.large_string(), pa.string_view(), pa.binary(), pa.binary_view(), pa.dictionary(pa.int8(), pa.string())],
        ),
        (
            pa.array([["a"], [], None, [None]]),
            [pa.large_list(pa.string()), pa.list_(pa.string_view())],
        ),
        (pa.array([b"ab", None], pa.binary(2)), [pa.binary()]),
        (pa.array([decimal.Decimal("1.50"), None], pa.decimal128(7, 2)), [pa.decimal64(7, 2), pa.decimal128(9, 2)]),
    ],
)
def test_a_value_has_one_hash_in_whatever_type_it_is_stored(column: pa.Array, others: list[pa.DataType]) -> None:
    for other in others:
        assert _pairs(column.cast(other)) == _pairs(column), other
    assert _pairs(pa.RunEndEncodedArray.from_arrays([len(column)], column[:1])) == _pairs(column[:1]) * len(column)


def test_a_list_has_one_hash_in_every_layout() -> None:
    lists = [["a", None], None, ["b", "a"]]
    types = [pa.list_(pa.string(), 2), pa.list_view(pa.string()), pa.large_list_view(pa.string())]

    for type_ in types:
        assert _pairs(pa.array(lists, type_)[1:]) == _pairs(pa.array(lists))[1:], type_


def test_nan_is_one_value_and_so_is_zero() -> None:
    nans = np.array([0x7FF8000000000000, 0xFFF8000000000001, 0x7FF0000000000001], np.uint64).view(np.float64)

    assert len(set(_pairs(pa.array(nans, from_pandas=False)))) == 1
    assert len(set(_pairs(pa.array([0.0, -0.0])))) == 1


def test_null_empty_and_zero_are_three_keys() -> None:
    assert len({*_pairs(pa.array(["", None])), *_pairs(pa.array([0]))}) == 3
    assert len(set(_pairs(pa.array([[], None, [None], [None, None]], pa.list_(pa.int8()))))) == 4
    assert len(set(_pairs(pa.array([{"a": None}, None, {"a": 0}], pa.struct({"a": pa.int8()}))))) == 3
    assert _pairs(pa.nulls(1)) == _pairs(pa.array([None], pa.string())) == _pairs(pa.array([None], pa.int64()))


def test_the_order_and_the_bounds_of_columns_count() -> None:
    events = pa.table({"a": ["ab", "a", ""], "b": ["", "b", "ab"]})

    forward, back = key_hashes(events, ["a", "b"]), key_hashes(events, ["b", "a"])

    assert (
        len({*forward[0].tolist(), *back[0].tolist()}) == 4
    )  # two rows of each are rows of the other, in the order of the names
    assert len(set(key_hashes(events, ["a"])[0].tolist())) == 3


def test_texts_of_different_lengths_chosen_for_hash_bytes_do_not_collide() -> None:
    golden = 0x9E3779B97F4A7C15
    seven = b"chosen!"
    eight = (int.from_bytes(seven, "little") ^ (7 * golden ^ 8 * golden) & (1 << 64) - 1).to_bytes(8, "little")

    first, second = key_hashes(pa.table({"k": pa.array([seven, eight])}), ["k"])

    assert first[0] != first[1]
    assert second[0] != second[1]


def test_another_seed_gives_other_hashes() -> None:
    texts = pa.array([str(n) for n in range(1000)])

    assert not {h for pair in _pairs(texts, 1) for h in pair} & {h for pair in _pairs(texts, 2) for h in pair}
    assert new_seed() != new_seed()


def test_keys_are_spread_over_parts_and_over_the_hashes_of_a_part() -> None:
    hashes = key_hashes(pa.table({"k": np.arange(160_000)}), ["k"])
    parts = part_of(hashes)

    sizes = np.bincount(parts, minlength=PARTS)
    assert len(sizes) == PARTS
    assert sizes.min() > 9_500
    assert sizes.max() < 10_500
    upper = np.bincount((hashes[0][parts == 3] >> np.uint64(60)).astype(int), minlength=16)
    assert upper.min() > 500
    assert len(set(hashes[0].tolist())) == 160_000


def test_each_bit_of_a_key_changes_half_of_the_bits_of_both_hashes() -> None:
    for low in (0, 1 << 32):
        numbers = np.arange(2000, dtype=np.int64) + low
        before = key_hashes(pa.table({"k": numbers}), ["k"])
        for bit in range(64):
            changed = before ^ key_hashes(pa.table({"k": numbers ^ np.int64(np.uint64(1 << bit).astype(np.int64))}), ["k"])
            ones = np.bitwise_count(changed).mean(axis=1)
            assert ones.min() > 31
            assert ones.max() < 33


def test_a_map_is_no_key() -> None:
    type_ = pa.map_(pa.string(), pa.int8())

    assert not is_key_type(type_)
    assert not is_key_type(pa.list_(type_))
    with pytest.raises(ComponentError, match=r"field 'k' is map.*, which cannot be a key: use its members"):
        key_hashes(pa.table({"k": pa.array([None], type_)}), ["k"])


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 2), st.integers(0, 2)), max_size=300))
def test_rows_are_sorted_by_hashes_as_by_all_keys(rows: list[tuple[int, int, int]]) -> None:
    first, second, third = np.array(rows, np.uint64).reshape(-1, 3).T

    third = np.where(third > 2, third + np.arange(len(third)).astype(np.uint64), third)  # keys of one event, and of many

    assert sort_by_hash(third, first, second).tolist() == np.lexsort((first, second, third)).tolist()
    assert sort_by_hash(third).tolist() == np.argsort(third, kind="stable").tolist()

"""Events with values of all types, and aggregates of them over cuts into batches."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.aggregates.checks import check_aggregate
from etl.api import OFFSET, TIMESTAMP
from etl.state.aggregates import Accumulator, accumulator, column_names, finish, group, lift

UTC = dt.timezone.utc  # noqa: UP017
# Of floating-point numbers only one is large: sums do not cancel, so that they depend on the order in the last digits only.
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "y": (pa.int8(), [0, 1, -1, 127, -128]),
    "h": (pa.int16(), [0, 1, -7, 32767, -32768]),
    "i": (pa.int32(), [0, 1, -1, 42, 2**31 - 1, -(2**31)]),
    "l": (pa.int64(), [0, 1, -1, 2**31, -(2**32), 2**53 + 1, -(2**53) - 1, 2**60 + 7, -(2**60)]),
    "f": (pa.float32(), [0.0, -0.0, 1.5, -2.25, 0.1, 3e38, math.nan, math.inf, -math.inf]),
    "d": (pa.float64(), [0.0, -0.0, 1.0, -1.5, 0.1, 1e300, 5e-324, math.nan, math.inf, -math.inf]),
    "p": (pa.decimal128(10, 2), [Decimal(t) for t in ("0.00", "-0.01", "0.01", "1.50", "99999999.99", "-99999999.99")]),
    "q": (pa.decimal128(38, 0), [Decimal(t) for t in ("0", "1", "-7", "1" + "0" * 30, "-3" + "1" * 32)]),
    "w": (pa.decimal128(30, 30), [Decimal(t + "E-30") for t in ("0", "1", "-7", "9" * 30, "-123456789")]),
    "s": (pa.string(), ["", " ", "a", "A", "ab", "é", "e\u0301", "ß", "日本語", "😀", "\uffff", "a\x00b"]),
    "x": (pa.binary(), [b"", b"\x00", b"a", b"\xff", b"a\x80"]),
    "b": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [dt.date(1970, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(2024, 2, 29)]),
    "ts": (TIMESTAMP, [dt.datetime(1970, 1, 1, tzinfo=UTC), dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
                       dt.datetime(1, 1, 1, tzinfo=UTC), dt.datetime(9999, 12, 31, tzinfo=UTC)]),
    "tn": (pa.timestamp("us"), [dt.datetime(1970, 1, 1), dt.datetime(2024, 12, 30, 0, 0, 1)]),
}  # fmt: skip
"""Field → its type and values."""

NUMBERS = ("y", "h", "i", "l", "f", "d", "p", "q", "w")
GROUPED = pa.schema([("g", pa.int32()), ("time", TIMESTAMP), (OFFSET, pa.int64())])
SCHEMA = pa.schema([*GROUPED, *((name, type_) for name, (type_, _) in VALUES.items()), ("c", pa.bool_())])


def without_nan(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The events, with nulls for NaN."""
    for name in ("f", "d"):
        column = batch.column(name)
        filled = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
        batch = batch.set_column(batch.schema.names.index(name), batch.schema.field(name), filled)
    return batch


def events(rows: int, groups: int, seed: int) -> pa.RecordBatch:
    """Events with random values of all types, a third of them null; times repeat, offsets do not."""
    rng = random.Random(seed)

    def column(type_: pa.DataType, values: Sequence[Any]) -> pa.Array:
        return pa.array([rng.choice(values) if rng.random() < 0.7 else None for _ in range(rows)], type_)

    columns = {
        "g": pa.array([rng.randrange(groups) if rng.random() < 0.98 else None for _ in range(rows)], pa.int32()),
        "time": pa.array([rng.randrange(3) for _ in range(rows)], pa.int64()).cast(TIMESTAMP),
        OFFSET: pa.array(rng.sample(range(10 * rows), rows), pa.int64()),
        "c": column(pa.bool_(), [True, True, False]),
    }
    columns |= {name: column(*values) for name, values in VALUES.items()}
    return pa.record_batch([columns[name] for name in SCHEMA.names], schema=SCHEMA)


def accumulators(texts: Iterable[str], schema: pa.Schema = SCHEMA) -> dict[str, Accumulator]:
    """The accumulators of aggregates, by text."""
    found = {}
    for text in texts:
        one = accumulator(text, schema, "time")
        assert not isinstance(one, str), f"{text}: {one}"
        found[text] = one
    return found


def partial(batch: pa.RecordBatch, keys: Sequence[str], by_name: Mapping[str, Accumulator]) -> pa.Table:
    """The partial results of a batch."""
    columns = {name: batch.column(name) for name in keys} | lift(batch, by_name)
    merged = group(pa.table(columns), keys, by_name)
    assert merged.column_names == [*keys, *column_names(by_name)]
    assert merged.schema.types[len(keys) :] == [type_ for one in by_name.values() for type_ in one.types]
    return merged


Results = dict[Any, dict[str, Any]]


def at_once(
    batch: pa.RecordBatch, keys: Sequence[str], by_name: Mapping[str, Accumulator], schema: pa.Schema = SCHEMA
) -> Results:
    """Results of a batch that is not cut."""
    return results(partial(batch, keys, by_name), keys, by_name, schema)


def results(merged: pa.Table, keys: Sequence[str], by_name: Mapping[str, Accumulator], schema: pa.Schema = SCHEMA) -> Results:
    """Key → aggregate → result."""
    finished = finish(merged, by_name)
    for text, column in finished.items():
        assert column.type == _type_of(text, schema), text
        column.validate(full=True)
    rows = zip(*(values(merged.column(name).combine_chunks()) for name in keys), strict=True) if keys else [()] * len(merged)
    columns = zip(*(values(column) for column in finished.values()), strict=True)
    return {key: dict(zip(finished, row, strict=True)) for key, row in zip(rows, columns, strict=True)}


@cache
def _type_of(text: str, schema: pa.Schema) -> pa.DataType:
    return check_aggregate(text, schema).type


def values(array: pa.Array) -> list[Any]:
    """Python values; a NaN is the text ``NaN``, which equals itself; times are numbers, because Python's years end at 9999."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_timestamp(array.type):
        array = array.cast(pa.int64())
    return [_comparable(value) for value in array.to_pylist()]


def _comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [_comparable(one) for one in value]
    if isinstance(value, dict):
        return {name: _comparable(one) for name, one in value.items()}
    if isinstance(value, dt.datetime):  # Spark returns those of lists with a zone
        return value.replace(tzinfo=None)
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


def differences(ours: Mapping[Any, Any], theirs: Mapping[Any, Any], largest: float = 0) -> list[tuple[Any, ...]]:
    """(Key, aggregate, our result, other result) where they differ.

    Floating-point numbers may differ by the order of additions of numbers up to ``largest``.
    """
    assert ours.keys() == theirs.keys()
    pairs = ((key, text, one, theirs[key][text]) for key, row in ours.items() for text, one in row.items())
    return [pair for pair in pairs if not _same(*pair[2:], largest)]


def _same(one: Any, other: Any, largest: float) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-14 * largest)
    return bool(one == other)


BySpark = Callable[[pa.RecordBatch, Sequence[str], Sequence[str]], Results]
"""Batch, keys, aggregates → results as those of `at_once`."""

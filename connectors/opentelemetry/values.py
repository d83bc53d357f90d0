"""Arrow values as AnyValue of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from connectors.opentelemetry.wire_columns import BYTES, EMPTY, WireForm, where
from connectors.shared.text_template import large_texts


def encode_values(form: WireForm, values: pa.Array) -> pa.Array:
    """Return each value as AnyValue; null as an empty piece, which is not a value.

    Numbers, booleans and bytes keep their types; times, dates and decimals are texts; lists are arrays, structs and maps
    are lists of pairs, without members that are null.
    """
    is_valid = values.is_valid()
    return where(is_valid, _encode(form, values))


def encode_pairs(form: WireForm, names: Sequence[str], columns: Sequence[pa.Array]) -> Sequence[pa.Array]:
    """Return the pairs of each column, empty where a value is null."""
    return [
        where(column.is_valid(), form.pair(name, encode_values(form, column)))
        for name, column in zip(names, columns, strict=True)
    ]


def _encode(form: WireForm, values: pa.Array) -> pa.Array:
    type_ = values.type
    if pa.types.is_boolean(type_):
        return form.boolean(pc.fill_null(values, False))
    if pa.types.is_integer(type_) and type_ != pa.uint64():
        return form.integer(pc.fill_null(values, 0).cast(pa.int64()))
    if pa.types.is_floating(type_):
        return form.double(pc.fill_null(values.cast(pa.float64()), 0.0))
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return form.binary(pc.fill_null(values, b"").cast(BYTES))
    if pa.types.is_struct(type_):
        return _encode_struct(form, values)
    if pa.types.is_map(type_):
        return _encode_map(form, values)
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        elements, offsets = values.flatten(), _offsets(values)
        return form.array(encode_values(form, elements), offsets)
    return form.text(pc.fill_null(large_texts(values), ""))


def _encode_struct(form: WireForm, values: pa.Array) -> pa.Array:
    """Return the members of each struct; the pairs of a row follow each other."""
    import numpy as np

    names = [field.name for field in values.type]
    if not names:
        return form.key_values(pa.array([], BYTES), np.zeros(len(values) + 1, np.int64))
    columns = encode_pairs(form, names, values.flatten())
    rows = len(values)
    order = np.arange(rows * len(names)).reshape(len(names), rows).T.ravel()
    pairs = pa.concat_arrays(columns).take(pa.array(order))
    is_used = pc.not_equal(pairs, EMPTY).to_numpy(zero_copy_only=False)
    counts = is_used.reshape(rows, len(names)).sum(axis=1)
    return form.key_values(pairs.filter(pa.array(is_used)), np.concatenate(([0], np.cumsum(counts))))


def _encode_map(form: WireForm, values: pa.Array) -> pa.Array:
    type_ = pa.list_(pa.struct([("key", values.type.key_type), ("value", values.type.item_type)]))
    lists = values.cast(type_)
    entries = lists.flatten()
    keys, items = entries.flatten() if len(entries) else (pa.array([], pa.string()), pa.array([], values.type.item_type))
    pairs = form.pair(pc.fill_null(large_texts(keys), ""), encode_values(form, items))
    return form.key_values(pairs, _offsets(lists))


def _offsets(lists: pa.Array) -> object:
    """Return where the lists begin and end among their flattened elements (int64); null lists are empty there."""
    import numpy as np

    lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)

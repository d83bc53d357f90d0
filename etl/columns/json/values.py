"""Arrow values in types and texts that JSON has; `connectors.shared.json_lines` documents their form."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc


def as_text(values: pa.Array) -> pa.Array:
    """Return each value as JSON text; null stays null."""
    return as_texts([values])[0]


def as_texts(columns: Sequence[pa.Array]) -> list[pa.Array]:
    """Like `as_text` for several columns of one length; for a small batch this costs little more than one column."""
    import polars as pl

    frame = pl.DataFrame({str(n): pl.from_arrow(to_json_types(values)) for n, values in enumerate(columns)})
    written = frame.select(
        pl.struct(pl.col(name).alias("v")).struct.json_encode().str.slice(5).str.head(-1).alias(name) for name in frame.columns
    )
    texts = [text.to_arrow().cast(pa.string()) for text in written]
    return [
        pc.if_else(values.is_valid(), text, pa.scalar(None, pa.string())) if values.null_count else text
        for values, text in zip(columns, texts, strict=True)
    ]


def to_json_types(values: pa.Array) -> pa.Array:
    """Convert to types whose JSON form Polars writes as documented."""
    type_ = values.type
    if _has_json_types(type_):
        return values
    for is_type, convert in _CONVERSIONS:
        if is_type(type_):
            return convert(values)
    return _convert_nested(values.take(pa.array(range(len(values)))))  # a copy without offset, so that all buffers are aligned


def iso_times(values: pa.Array) -> pa.Array:
    """Convert timestamps to ``2026-01-02T03:04:05.000120Z``."""
    import numpy as np

    unit, zone = values.type.unit, "Z" if values.type.tz else ""
    in_utc = values.cast(pa.timestamp(unit, "UTC")) if zone else values
    text = in_utc.cast(pa.timestamp(unit)).cast(pa.string())  # Arrow takes 30 times as long to write a zone
    buffers, rows = text.buffers(), len(text) - text.null_count
    width = len("2026-01-02 03:04:05") + {"s": 0, "ms": 4, "us": 7, "ns": 10}[unit]
    if buffers[2] is None or buffers[2].size != width * rows or text.offset:  # years outside of 0000 to 9999
        return pc.replace_substring(in_utc.cast(pa.string()), " ", "T", max_replacements=1)
    data = np.full((rows, width + len(zone)), ord("Z"), np.uint8)
    data[:, :width] = np.frombuffer(buffers[2], np.uint8).reshape(-1, width)
    data[:, 10] = ord("T")
    offsets = np.frombuffer(buffers[1], np.int32, len(text) + 1) // width * (width + len(zone))
    placed = [buffers[0], pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(text), placed, text.null_count)


def _base64(values: pa.Array) -> pa.Array:
    import polars as pl

    series = pl.from_arrow(values.cast(pa.large_binary()))
    return series.bin.encode("base64").to_arrow().cast(pa.string())  # type: ignore[union-attr]


def _has_json_types(type_: pa.DataType) -> bool:
    if pa.types.is_map(type_) and not pa.types.is_string(type_.key_type):
        return False
    if pa.types.is_nested(type_):
        return all(_has_json_types(type_.field(i).type) for i in range(type_.num_fields))
    return not any(is_type(type_) for is_type, _ in _CONVERSIONS)


def _convert_nested(values: pa.Array) -> pa.Array:
    nulls = values.is_null()
    if pa.types.is_struct(values.type):
        members = [to_json_types(member) for member in values.flatten()]
        return pa.StructArray.from_arrays(members, names=[member.name for member in values.type], mask=nulls)
    if pa.types.is_map(values.type):
        entries = pa.MapArray.from_arrays(
            values.offsets, to_json_types(values.keys).cast(pa.string()), to_json_types(values.items)
        )
        return pc.if_else(nulls, pa.scalar(None, entries.type), entries)
    return pa.ListArray.from_arrays(
        values.cast(pa.list_(values.type.value_type)).offsets, to_json_types(values.values), mask=nulls
    )


_CONVERSIONS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.Array], pa.Array]], ...] = (
    (pa.types.is_timestamp, iso_times),
    (pa.types.is_binary, _base64),
    (pa.types.is_large_binary, _base64),
    (pa.types.is_fixed_size_binary, _base64),
    (pa.types.is_binary_view, _base64),
    (pa.types.is_decimal256, lambda values: values.cast(pa.string())),
    (pa.types.is_date64, lambda values: values.cast(pa.date32())),
)

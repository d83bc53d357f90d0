"""Flink's casts: whole numbers wrap around, fractions are cut, booleans are TRUE and FALSE, other texts fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP, format_type, parse_type
from etl.expressions import bound_node as b
from etl.expressions import casts as spark
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, text_literal, whole_literal
from etl.expressions.library.flink.number_casts import (
    Convert,
    decimal_to_text,
    each_distinct,
    java_number,
    text_to_decimal,
    text_to_float,
    text_to_integer,
    to_decimal,
    to_float,
    to_integer,
)
from etl.expressions.library.flink.times.casts import (
    parse_timestamps,
    text_to_time,
    time_of_timestamp,
    time_to_text,
    truncate_time,
)
from etl.expressions.library.function import TIME, LibraryFunction
from etl.expressions.library.kernels import by_value
from etl.expressions.rows import broadcast
from etl.expressions.values.number_casts import where_any
from etl.expressions.values.times import parse_dates
from etl.expressions.widening import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    FLOATS,
    INTEGERS,
    NULL,
    STRING,
    is_decimal,
)

BINARY = pa.binary()


def cast(value: BoundNode, target: pa.DataType, *, safe: bool = False, precision: int | None = None) -> BoundNode:
    """Cast a node; ``precision`` is the digits of a time's fraction in its text. Raises MisuseError if Flink refuses."""
    if value.type == target or value.unknown:
        return value if value.type == target else b.spark_only(value.reason or "", target)
    if value.type == NULL:
        return spark.cast(value, target)
    nested = _cast_nested(value, target, safe)
    if nested is not None:
        return nested
    convert = _converter(value.type, target, precision)
    if convert is None:
        raise MisuseError(f"Flink does not cast {format_type(value.type)} to {format_type(target)}")
    never_fails = value.type != STRING or target in (STRING, BINARY)
    return spark.bind_conversion(value, target, convert, format_type(target), safe=safe or never_fails)


def _converter(source: pa.DataType, target: pa.DataType, precision: int | None) -> Convert | None:
    if target in INTEGERS and (source in (*INTEGERS, *FLOATS, BOOLEAN) or is_decimal(source)):
        return _never_fails(partial(to_integer, target=target))
    if target in FLOATS and (source in (*INTEGERS, *FLOATS, BOOLEAN) or is_decimal(source)):
        return _never_fails(partial(to_float, target=target))
    if is_decimal(target):
        if source == STRING:
            return partial(text_to_decimal, target)
        is_number = source in (*INTEGERS, *FLOATS, BOOLEAN) or is_decimal(source)
        return _never_fails(partial(to_decimal, target=target)) if is_number else None
    if target == STRING and pa.types.is_timestamp(source):
        return _never_fails(partial(time_to_text, precision))
    if target in INTEGERS and source == STRING:
        return partial(text_to_integer, target)
    if is_decimal(source):
        source = pa.decimal128(1, 0)
    return _CONVERTERS.get((source, target))


def _never_fails(kernel: Callable[[Any], Any]) -> Convert:
    return lambda values: (kernel(values), None)


def double_to_text(values: Any) -> Any:
    """Java's text of a double or float: ``1.0E20``, ``100.0``."""
    texts = pc.cast(values, STRING)
    size = pc.abs(pc.cast(values, DOUBLE))
    is_plain = pc.or_(pc.equal(size, 0.0), pc.and_(pc.greater_equal(size, 0.001), pc.less(size, 1e7)))
    if isinstance(values, pa.Scalar):
        return each_distinct(texts, java_number, STRING)
    with_point = pc.if_else(pc.match_substring(texts, "."), texts, pc.binary_join_element_wise(texts, "0", "."))
    if where_any(pc.invert(is_plain)) is None and not pc.any(pc.match_substring_regex(with_point, "[eE]")).as_py():
        return with_point
    return each_distinct(texts, java_number, STRING)


def _bytes_to_text(values: Any) -> Any:
    return each_distinct(values, lambda value: value.decode("utf-8", "replace"), STRING)


_CONVERTERS: dict[tuple[pa.DataType, pa.DataType], Convert] = {
    (STRING, DOUBLE): partial(text_to_float, DOUBLE),
    (STRING, FLOAT): partial(text_to_float, FLOAT),
    (STRING, BOOLEAN): spark.find_converter(STRING, BOOLEAN) or _never_fails(lambda values: values),
    (STRING, DATE): parse_dates,
    (STRING, TIMESTAMP): parse_timestamps,
    (STRING, TIME): text_to_time,
    (STRING, BINARY): _never_fails(lambda values: pc.cast(values, BINARY)),
    (BINARY, STRING): _never_fails(_bytes_to_text),
    (BOOLEAN, STRING): _never_fails(lambda values: pc.if_else(values, "TRUE", "FALSE")),
    (DOUBLE, STRING): _never_fails(double_to_text),
    (FLOAT, STRING): _never_fails(double_to_text),
    (pa.decimal128(1, 0), STRING): _never_fails(decimal_to_text),
    (pa.decimal128(1, 0), BOOLEAN): _never_fails(lambda values: pc.not_equal(values, pa.scalar(0, values.type))),
    (DATE, STRING): _never_fails(lambda values: pc.cast(values, STRING)),
    (TIME, STRING): _never_fails(lambda values: pc.cast(values, STRING)),
    (TIMESTAMP, DATE): spark.find_converter(TIMESTAMP, DATE) or _never_fails(lambda values: values),
    (DATE, TIMESTAMP): spark.find_converter(DATE, TIMESTAMP) or _never_fails(lambda values: values),
    (TIMESTAMP, TIME): _never_fails(time_of_timestamp),
    **{(type_, STRING): _never_fails(lambda values: pc.cast(values, STRING)) for type_ in INTEGERS},
    **{
        (type_, BOOLEAN): _never_fails(lambda values: pc.not_equal(values, pa.scalar(0, values.type)))
        for type_ in (*INTEGERS, *FLOATS)
    },
}


def _nested_text(type_: pa.DataType, value: Any) -> str:
    """The text of a Python value of a type, as Flink casts it: ``[1, 2, NULL]``, ``{a=1}``, ``(1, a)``."""
    if value is None:
        return "NULL"
    if pa.types.is_map(type_):
        return (
            "{"
            + ", ".join(f"{_nested_text(type_.key_type, key)}={_nested_text(type_.item_type, item)}" for key, item in value)
            + "}"
        )
    if pa.types.is_list(type_):
        return "[" + ", ".join(_nested_text(type_.value_type, item) for item in value) + "]"
    if pa.types.is_struct(type_):
        return "(" + ", ".join(_nested_text(field.type, value[field.name]) for field in type_) + ")"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return str(double_to_text(pa.scalar(value, type_)).as_py())
    return str(value.replace(tzinfo=None) if isinstance(value, datetime) else value)


def _cast_nested(value: BoundNode, target: pa.DataType, safe: bool) -> BoundNode | None:
    """Casts from and to arrays, maps and rows; None for other types."""
    if not pa.types.is_nested(value.type):
        return None
    if target == STRING:
        return by_value(STRING, partial(_nested_text, value.type), fails=False)(value)
    if _have_one_shape(value.type, target):
        _convert(pa.nulls(0, value.type), target)  # raises where Flink refuses
        return spark.bind_conversion(value, target, partial(_convert, target=target), format_type(target), safe=safe)
    raise MisuseError(f"Flink does not cast {format_type(value.type)} to {format_type(target)}")


def _have_one_shape(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether both are arrays, both are maps, or both are rows of as many members."""
    if pa.types.is_struct(source) and pa.types.is_struct(target):
        return bool(source.num_fields == target.num_fields)
    return any(test(source) and test(target) for test in (pa.types.is_list, pa.types.is_map))


def _convert(values: Any, target: pa.DataType) -> tuple[Any, Any]:
    """Values of one type as another, and bool[n] of the rows with a part that cannot be; None for no row."""
    if isinstance(values, pa.Scalar):
        found, failed = _convert(broadcast(values, 1), target)
        return found[0], failed if failed is None else failed[0]
    if values.type == target:
        return values, None
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), target), None
    if _have_one_shape(values.type, target):
        return _convert_members(values, target) if pa.types.is_struct(target) else _convert_items(values, target)
    convert = _converter(values.type, target, None)
    if convert is None:
        raise MisuseError(f"Flink does not cast {format_type(values.type)} to {format_type(target)}")
    found, failed = convert(values)
    return (found, None) if failed is None else (pc.if_else(failed, pa.scalar(None, target), found), pc.fill_null(failed, False))


def _convert_items(values: Any, target: pa.DataType) -> tuple[Any, Any]:
    """The items of arrays, or keys and items of maps."""
    mask = pc.is_null(values) if values.null_count else None
    if pa.types.is_list(target):
        items, failed = _convert(values.values, target.value_type)
        made = pa.ListArray.from_arrays(values.offsets, items, type=target, mask=mask)
        return made, _rows_of_items(values.offsets, failed)
    (keys, bad_keys), (items, failed) = _convert(values.keys, target.key_type), _convert(values.items, target.item_type)
    made = pa.MapArray.from_arrays(values.offsets, keys, items, type=target, mask=mask)
    return made, _either(_rows_of_items(values.offsets, bad_keys), _rows_of_items(values.offsets, failed))


def _rows_of_items(offsets: Any, failed: Any) -> Any:
    """The rows with an item that failed."""
    if failed is None:
        return None
    import numpy as np

    before = np.concatenate(([0], np.cumsum(failed.to_numpy(zero_copy_only=False))))
    bounds = offsets.to_numpy()
    return pa.array(before[bounds[1:]] > before[bounds[:-1]])


def _either(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else pc.or_(one, other)


def _convert_members(values: Any, target: pa.DataType) -> tuple[Any, Any]:
    members, failed = [], None
    for at, field in enumerate(target):
        found, bad = _convert(values.field(at), field.type)
        members.append(found)
        failed = _either(failed, bad)
    mask = pc.is_null(values)
    made = pa.StructArray.from_arrays(members, fields=list(target), mask=mask)
    return made, failed if failed is None else pc.and_(failed, pc.invert(mask))


_WITH_LENGTH = re.compile(
    r"(char|varchar|timestamp|timestamp_ltz|timestamp_ntz|time|string|binary|varbinary|bytes)(?:\((\d+)\))?"
)
_NAMES = {
    "char": pa.string(), "varchar": pa.string(), "string": pa.string(), "time": TIME, "timestamp": TIMESTAMP,
    "timestamp_ltz": TIMESTAMP, "timestamp_ntz": TIMESTAMP, "binary": pa.binary(), "varbinary": pa.binary(), "bytes": pa.binary(),
}  # fmt: skip
"""Names of types in casts that Spark reads otherwise, or not at all."""


class _TypeName(NamedTuple):
    """A type, and the length of a text or the digits of a fraction (None: any)."""

    type: pa.DataType
    length: int | None = None
    is_padded: bool = False


def _parse_type_name(text: str) -> _TypeName:
    """The type of a name. Raises ValueError that names the accepted ones."""
    found = _WITH_LENGTH.fullmatch(text.strip().lower())
    if found is None:
        return _TypeName(parse_type(text))
    name, length = found[1], None if found[2] is None else int(found[2])
    return _TypeName(_NAMES[name], length, name in ("char", "binary"))


def _build(safe: bool) -> Callable[..., BoundNode]:
    def build(value: BoundNode, target: BoundNode, precision: BoundNode | None = None) -> BoundNode:
        text = text_literal(target)
        if text is None:
            raise MisuseError("the type of a cast is a constant text, such as 'int'")
        try:
            target_type = _parse_type_name(text)
        except ValueError as error:
            raise MisuseError(str(error)) from error
        made = cast(value, target_type.type, safe=safe, precision=None if precision is None else whole_literal(precision))
        if target_type.type == TIMESTAMP and target_type.length is not None and target_type.length < 6:
            return b.apply(TIMESTAMP, lambda x: truncate_time(x, target_type.length or 0), made)
        if target_type.length is not None and target_type.type == STRING:
            return b.apply(STRING, partial(_of_length, target_type.length, target_type.is_padded), made)
        if target_type.length is not None and target_type.type == BINARY:
            length = target_type.length
            pad = (lambda value: value[:length].ljust(length, b"\0")) if target_type.is_padded else (lambda value: value[:length])
            return by_value(BINARY, pad, fails=False)(made)
        return made

    return build


def _of_length(length: int, is_padded: bool, texts: Any) -> Any:
    texts = pc.utf8_slice_codeunits(texts, 0, length)
    return pc.utf8_rpad(texts, length, " ") if is_padded else texts


_TYPES = "a Spark type's name, time, char(n), varchar(n), timestamp(n); the precision of a time that is cast to a text"


FUNCTIONS = (
    LibraryFunction(
        "flink_cast",
        "value: any, type: string, precision: integer?",
        "the type",
        _build(False),
        f"The value as another type: {_TYPES}. Whole numbers wrap around, fractions are cut.",
        "flink_cast(300, 'tinyint')",
        44,
        errors="a text that is not a value of the type",
    ),
    LibraryFunction(
        "flink_try_cast",
        "value: any, type: string, precision: integer?",
        "the type",
        _build(True),
        "The same, but null for a text that is not a value of the type.",
        "flink_try_cast('non-number', 'int')",
        None,
        null="null if the value is null or cannot be cast",
    ),
)

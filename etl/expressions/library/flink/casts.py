"""Flink's casts: whole numbers wrap around, fractions are cut, booleans are TRUE and FALSE, a text that is none fails."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP, format_type
from etl.expressions import bound_node as b
from etl.expressions import casts as spark
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import MisuseError, text_literal, whole_literal
from etl.expressions.library.flink import nested_texts
from etl.expressions.library.flink.type_names import parse_type_name
from etl.expressions.library.function import TIME, LibraryFunction
from etl.expressions.library.kernels import by_value
from etl.expressions.rows import broadcast
from etl.expressions.values.number_casts import BLANKS, bounds, where_any
from etl.expressions.values.times import parse_dates, timestamps
from etl.expressions.widening import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    FLOATS,
    INT32,
    INT64,
    INTEGERS,
    NULL,
    STRING,
    is_decimal,
)

Converted = tuple[Any, Any]
Convert = Callable[[Any], Converted]

BINARY = pa.binary()


def cast(value: BoundNode, target: pa.DataType, *, safe: bool = False, precision: int | None = None) -> BoundNode:
    """Cast a node; ``precision`` is the digits of a time's fraction in its text. Raises MisuseError if Flink refuses."""
    if value.type == target or value.unknown:
        return value if value.type == target else b.spark_only(value.reason or "", target)
    if value.type == NULL:
        return spark.cast(value, target)
    nested = _nested(value, target)
    if nested is not None:
        return nested
    convert = _converter(value.type, target, precision)
    if convert is None:
        raise MisuseError(f"Flink does not cast {format_type(value.type)} to {format_type(target)}")
    never_fails = value.type != STRING or target in (STRING, BINARY) or is_decimal(target)
    return spark.bind_conversion(value, target, convert, format_type(target), safe=safe or never_fails)


def _converter(source: pa.DataType, target: pa.DataType, precision: int | None) -> Convert | None:
    if target in INTEGERS and (source in (*INTEGERS, *FLOATS, BOOLEAN) or is_decimal(source)):
        return _never_fails(partial(_to_integer, target=target))
    if target in FLOATS and (source in (*INTEGERS, *FLOATS, BOOLEAN) or is_decimal(source)):
        return _never_fails(partial(_to_float, target=target))
    if is_decimal(target):
        if source == STRING:
            return partial(_text_to_decimal, target)
        is_number = source in (*INTEGERS, *FLOATS, BOOLEAN) or is_decimal(source)
        return _never_fails(partial(to_decimal, target=target)) if is_number else None
    if target == STRING and pa.types.is_timestamp(source):
        return _never_fails(partial(_time_to_text, precision))
    if target in INTEGERS and source == STRING:
        return partial(_text_to_integer, target)
    if is_decimal(source):
        source = pa.decimal128(1, 0)
    return _CONVERTERS.get((source, target))


def _never_fails(kernel: Callable[[Any], Any]) -> Convert:
    return lambda values: (kernel(values), None)


# ── Numbers ───────────────────────────────────────────────────────────────────────────────────────


def _to_integer(values: Any, target: pa.DataType) -> Any:
    """Cut the fraction; whole numbers wrap around, as Java's casts do."""
    if values.type in FLOATS:
        wide = INT64 if target == INT64 else INT32
        return pc.cast(_saturate(values, wide), target, safe=False)
    if is_decimal(values.type):
        whole = pc.cast(pc.round(values, 0, "towards_zero"), pa.decimal128(38, 0))
        return pc.cast(pc.cast(whole, INT64, safe=False), target, safe=False)
    return pc.cast(values, target, safe=False)


def _saturate(values: Any, target: pa.DataType) -> Any:
    """A whole number by cutting; the least or greatest beyond the range, 0 of NaN."""
    values = pc.cast(values, DOUBLE)
    low, high = bounds(target)
    above, below = pc.greater_equal(values, float(high)), pc.less_equal(values, float(low))
    inside = pc.if_else(pc.or_(pc.or_(above, below), pc.is_nan(values)), 0.0, values)
    whole = pc.cast(pc.trunc(inside), target)
    return pc.if_else(above, pa.scalar(high, target), pc.if_else(below, pa.scalar(low, target), whole))


def _to_float(values: Any, target: pa.DataType) -> Any:
    if is_decimal(values.type):  # by way of a text, which rounds as Java does
        return pc.cast(pc.cast(pc.cast(values, STRING), DOUBLE), target, safe=False)
    if values.type == FLOAT:  # the text of a float is its value for Flink
        return pc.cast(pc.cast(values, STRING), DOUBLE)
    return pc.cast(values, target, safe=False)


def to_decimal(values: Any, target: pa.DataType) -> Any:
    """Round half up; null where it does not fit."""
    if values.type == BOOLEAN:
        values = pc.cast(values, INT64)
    if values.type in INTEGERS:
        return fit(pc.cast(values, pa.decimal256(38, 0)), target)
    if values.type in FLOATS:
        return _text_to_decimal(target, pc.cast(values, STRING))[0]
    return fit(values, target)


def fit(values: Any, target: pa.DataType) -> Any:
    """Decimals as ones of another type: rounded half up, null where the digits do not suffice."""
    type_ = values.type
    if type_.scale > target.scale:
        values = pc.round(values, target.scale, "half_towards_infinity")
    if type_.precision - type_.scale >= target.precision - target.scale:
        limit = pa.scalar(10 ** (target.precision - target.scale), pa.decimal256(76, 0))
        whole = pc.cast(pc.round(values, 0, "towards_zero"), pa.decimal256(76 - type_.scale, 0), safe=False)
        size = pc.abs(pc.cast(whole, pa.decimal256(76, 0)))
        values = pc.if_else(pc.less(size, limit), values, pa.scalar(None, values.type))
    return pc.cast(values, target, safe=False)


_NUMBER = r"\A[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\z"
_DOUBLE = r"\A[+-]?(NaN|Infinity|([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[dDfF]?)\z"


def _text_to_decimal(target: pa.DataType, values: Any) -> Converted:
    """A text that is no number is null, as one that does not fit."""
    from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation

    context = Context(prec=120)

    def one(text: str) -> Decimal | None:
        try:
            number = Decimal(text.strip(BLANKS)).quantize(Decimal(1).scaleb(-target.scale), ROUND_HALF_UP, context)
        except (InvalidOperation, ValueError):
            return None
        return number if number.is_finite() and abs(number) < Decimal(10) ** (target.precision - target.scale) else None

    return _each(values, one, target), None


def _each(values: Any, function: Callable[[Any], Any], type_: pa.DataType) -> Any:
    """A Python function of each distinct value."""
    if isinstance(values, pa.Scalar):
        return pa.scalar(function(values.as_py()) if values.is_valid else None, type_)
    encoded = pc.dictionary_encode(values)
    return pa.array([function(one) for one in encoded.dictionary.to_pylist()], type_).take(encoded.indices)


def _text_to_integer(target: pa.DataType, values: Any) -> Converted:
    """Digits with a sign, blanks around them, and a fraction that is cut."""
    trimmed = pc.utf8_trim(values, BLANKS)
    good = pc.match_substring_regex(trimmed, r"\A[+-]?[0-9]{1,30}(\.[0-9]*)?\z")
    whole = pc.replace_substring_regex(pc.utf8_ltrim(pc.if_else(good, trimmed, "0"), "+"), r"\..*", "")
    wide = pc.cast(pc.replace_substring_regex(whole, r"\A(-?)0+([0-9])", r"\1\2"), pa.decimal128(38, 0))
    low, high = (pa.scalar(limit, pa.decimal128(38, 0)) for limit in bounds(target))
    good = pc.and_(good, pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high)))
    zero = pa.scalar(0, pa.decimal128(38, 0))
    return pc.cast(pc.cast(pc.if_else(good, wide, zero), INT64), target), where_any(pc.invert(good))


def _text_to_float(target: pa.DataType, values: Any) -> Converted:
    trimmed = pc.utf8_trim(values, BLANKS)
    good = pc.match_substring_regex(trimmed, _DOUBLE)
    plain = pc.if_else(good, trimmed, "0")
    named = pc.match_substring(plain, "Infinity")
    text = pc.if_else(named, pc.replace_substring(plain, "Infinity", "inf"), pc.utf8_rtrim(plain, "dDfF"))
    text = pc.replace_substring_regex(pc.utf8_ltrim(text, "+"), r"\A-NaN\z", "NaN")
    return pc.cast(pc.cast(text, DOUBLE), target, safe=False), where_any(pc.invert(good))


def double_to_text(values: Any) -> Any:
    """Java's text of a double or float: ``1.0E20``, ``100.0``."""
    texts = pc.cast(values, STRING)
    size = pc.abs(pc.cast(values, DOUBLE))
    is_plain = pc.or_(pc.equal(size, 0.0), pc.and_(pc.greater_equal(size, 0.001), pc.less(size, 1e7)))
    if isinstance(values, pa.Scalar):
        return _each(texts, _java_number, STRING)
    with_point = pc.if_else(pc.match_substring(texts, "."), texts, pc.binary_join_element_wise(texts, "0", "."))
    if where_any(pc.invert(is_plain)) is None and not pc.any(pc.match_substring_regex(with_point, "[eE]")).as_py():
        return with_point
    return _each(texts, _java_number, STRING)


def _java_number(text: str) -> str:
    from decimal import Decimal

    named = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity", "0": "0.0", "-0": "-0.0"}
    if text in named:
        return named[text]
    sign, digits, exponent = Decimal(text).as_tuple()
    shown = "".join(map(str, digits)).rstrip("0") or "0"
    power = len(digits) + int(exponent) - 1
    minus = "-" if sign else ""
    if -3 <= power < 7:
        if power < 0:
            return f"{minus}0.{'0' * (-power - 1)}{shown}"
        padded = shown.ljust(power + 1, "0")
        return f"{minus}{padded[: power + 1]}.{padded[power + 1 :] or '0'}"
    return f"{minus}{shown[0]}.{shown[1:] or '0'}E{power}"


def _plain_decimal(text: str) -> str:
    from decimal import Decimal

    return format(Decimal(text), "f")


def decimal_to_text(values: Any) -> Any:
    """All digits of the scale, never an exponent."""
    texts = pc.cast(values, STRING)
    if isinstance(values, pa.Scalar) or pc.any(pc.match_substring(texts, "E")).as_py():
        return _each(texts, _plain_decimal, STRING)
    return texts


# ── Texts, times, bytes ───────────────────────────────────────────────────────────────────────────

_STAMP = (
    r"\A(?P<year>[0-9]{4,6})-(?P<month>[0-9]{1,2})-(?P<day>[0-9]{1,2})"
    r"(?: (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]{0,6})[0-9]*)?)?)?\z"
)


def parse_timestamps(values: Any) -> Converted:
    """``2024-01-02 03:04:05.678``, the time may be missing; a ``T`` is none of Flink's."""
    return timestamps(values, pc.extract_regex(pc.utf8_trim(values, BLANKS), _STAMP))


def _text_to_time(values: Any) -> Converted:
    parts = pc.extract_regex(
        pc.utf8_trim(values, BLANKS), r"\A(?P<h>[0-9]{1,2})(?::(?P<m>[0-9]{1,2})(?::(?P<s>[0-9]{1,2})(?:\.[0-9]*)?)?)?\z"
    )

    def number(name: str) -> Any:
        found = pc.fill_null(pc.struct_field(parts, name), "")
        return pc.cast(pc.if_else(pc.equal(found, ""), "0", found), INT32)

    hour, minute, second = number("h"), number("m"), number("s")
    good = pc.and_(pc.is_valid(parts), pc.and_(pc.less(hour, 24), pc.and_(pc.less(minute, 60), pc.less(second, 60))))
    seconds = pc.add(pc.add(pc.multiply(hour, 3600), pc.multiply(minute, 60)), second)
    failed = where_any(pc.and_(pc.is_valid(values), pc.invert(good)))
    return pc.cast(pc.cast(pc.if_else(good, seconds, pa.scalar(None, seconds.type)), INT32), TIME), failed


def _time_of_timestamp(values: Any) -> Any:
    micros = pc.cast(values, INT64)
    days = spark.floor_divide(micros, 86_400_000_000)
    seconds = pc.divide(pc.subtract(micros, pc.multiply(days, 86_400_000_000)), 1_000_000)
    return pc.cast(pc.cast(seconds, INT32), TIME)


def _time_to_text(precision: int | None, values: Any) -> Any:
    """The time with as many digits of the fraction as its type has; as many as it needs if that is not known."""
    texts = pc.strftime(values, format="%Y-%m-%d %H:%M:%S")
    if precision is None:
        return pc.replace_substring_regex(texts, r"\.?0*\z", "") if pa.types.is_timestamp(values.type) else texts
    if precision >= 6:
        return texts
    return pc.utf8_slice_codeunits(texts, 0, 19 if precision == 0 else 20 + precision)


def _bytes_to_text(values: Any) -> Any:
    return _each(values, lambda value: value.decode("utf-8", "replace"), STRING)


def truncate_time(values: Any, precision: int) -> Any:
    """A timestamp without the digits behind a precision."""
    unit = 10 ** (6 - precision)
    micros = pc.cast(values, INT64)
    return pc.cast(pc.multiply(spark.floor_divide(micros, unit), unit), values.type)


_CONVERTERS: dict[tuple[pa.DataType, pa.DataType], Convert] = {
    (STRING, DOUBLE): partial(_text_to_float, DOUBLE),
    (STRING, FLOAT): partial(_text_to_float, FLOAT),
    (STRING, BOOLEAN): spark.converter(STRING, BOOLEAN) or _never_fails(lambda values: values),
    (STRING, DATE): parse_dates,
    (STRING, TIMESTAMP): parse_timestamps,
    (STRING, TIME): _text_to_time,
    (STRING, BINARY): _never_fails(lambda values: pc.cast(values, BINARY)),
    (BINARY, STRING): _never_fails(_bytes_to_text),
    (BOOLEAN, STRING): _never_fails(lambda values: pc.if_else(values, "TRUE", "FALSE")),
    (DOUBLE, STRING): _never_fails(double_to_text),
    (FLOAT, STRING): _never_fails(double_to_text),
    (pa.decimal128(1, 0), STRING): _never_fails(decimal_to_text),
    (pa.decimal128(1, 0), BOOLEAN): _never_fails(lambda values: pc.not_equal(values, pa.scalar(0, values.type))),
    (DATE, STRING): _never_fails(lambda values: pc.cast(values, STRING)),
    (TIME, STRING): _never_fails(lambda values: pc.cast(values, STRING)),
    (TIMESTAMP, DATE): spark.converter(TIMESTAMP, DATE) or _never_fails(lambda values: values),
    (DATE, TIMESTAMP): spark.converter(DATE, TIMESTAMP) or _never_fails(lambda values: values),
    (TIMESTAMP, TIME): _never_fails(_time_of_timestamp),
    **{(type_, STRING): _never_fails(lambda values: pc.cast(values, STRING)) for type_ in INTEGERS},
    **{
        (type_, BOOLEAN): _never_fails(lambda values: pc.not_equal(values, pa.scalar(0, values.type)))
        for type_ in (*INTEGERS, *FLOATS)
    },
}


# ── Nested values ─────────────────────────────────────────────────────────────────────────────────


def _nested(value: BoundNode, target: pa.DataType) -> BoundNode | None:
    """Casts from and to arrays, maps and rows; None for other types."""
    if not pa.types.is_nested(value.type):
        return None
    if target == STRING:
        return by_value(STRING, partial(nested_texts.show, value.type), fails=False)(value)
    if pa.types.is_list(value.type) and pa.types.is_list(target):
        return b.apply(target, partial(_cast_items, target), value)
    if pa.types.is_struct(value.type) and pa.types.is_struct(target) and value.type.num_fields == target.num_fields:
        return b.apply(target, partial(_cast_members, target), value)
    if pa.types.is_map(value.type) and pa.types.is_map(target):
        return b.apply(target, lambda x: pc.cast(x, target), value)
    raise MisuseError(f"Flink does not cast {format_type(value.type)} to {format_type(target)}")


def _convert(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Values of one type as another, null where they cannot be."""
    if values.type == target:
        return values
    if pa.types.is_null(values.type):
        return pa.nulls(len(values), target)
    convert = _converter(values.type, target, None)
    if convert is None:
        raise MisuseError(f"Flink does not cast {format_type(values.type)} to {format_type(target)}")
    found, failed = convert(values)
    return found if failed is None else pc.if_else(failed, pa.scalar(None, target), found)


def _cast_items(target: pa.DataType, values: Any) -> Any:
    if isinstance(values, pa.Scalar):
        return _cast_items(target, broadcast(values, 1))[0]
    items = _convert(values.values, target.value_type)
    mask = pc.is_null(values) if values.null_count else None
    return pa.ListArray.from_arrays(values.offsets, items, type=target, mask=mask)


def _cast_members(target: pa.DataType, values: Any) -> Any:
    if isinstance(values, pa.Scalar):
        return _cast_members(target, broadcast(values, 1))[0]
    members = [_convert(values.field(at), field.type) for at, field in enumerate(target)]
    return pa.StructArray.from_arrays(members, fields=list(target), mask=pc.is_null(values))


# ── The functions ─────────────────────────────────────────────────────────────────────────────────


def _build(safe: bool) -> Callable[..., BoundNode]:
    def build(value: BoundNode, target: BoundNode, precision: BoundNode | None = None) -> BoundNode:
        text = text_literal(target)
        if text is None:
            raise MisuseError("the type of a cast is a constant text, such as 'int'")
        try:
            wanted = parse_type_name(text)
        except ValueError as error:
            raise MisuseError(str(error)) from error
        made = cast(value, wanted.type, safe=safe, precision=None if precision is None else whole_literal(precision))
        if wanted.type == TIMESTAMP and wanted.length is not None and wanted.length < 6:
            return b.apply(TIMESTAMP, lambda x: truncate_time(x, wanted.length or 0), made)
        if wanted.length is not None and wanted.type == STRING:
            return b.apply(STRING, partial(_of_length, wanted.length, wanted.is_padded), made)
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
        errors="a text that is no value of the type",
    ),
    LibraryFunction(
        "flink_try_cast",
        "value: any, type: string, precision: integer?",
        "the type",
        _build(True),
        "The same, but null for a text that is no value of the type.",
        "flink_try_cast('non-number', 'int')",
        None,
        null="null if the value is null or cannot be cast",
    ),
)

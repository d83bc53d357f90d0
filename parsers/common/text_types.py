"""Texts → values of a declared type. The whole text must be a value; only rows with a wrong text fail.

An empty text is null, except for the type text. Whole numbers are decimal, real ones may have an exponent, booleans are
``true false 1 0`` in any case, dates are ISO 8601, and so are times unless a format has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP
from etl.columns.text_layout import boolean_values
from etl.columns.texts import materialize_array
from parsers.timestamp.parser import Timestamp

if TYPE_CHECKING:
    import numpy as np

    Bools = np.ndarray[Any, Any]

TextReader: TypeAlias = "Callable[[pa.Array], tuple[pa.Array, Bools | None]]"
"""Texts of any kind → values, and the rows (bool[n]) whose text is wrong; None: no row."""

ISO_8601 = ("iso8601",)
"""The formats of times, unless a parser gives others."""


def make_reader(type_: pa.DataType, timezone: str = "UTC", time_formats: Sequence[str] = ISO_8601) -> TextReader:
    """How texts become values of a type. Raises ValueError for types that no single text fills."""
    if pa.types.is_timestamp(type_):
        return _time(type_, timezone, tuple(time_formats))
    for fits, make in _READERS:
        if fits(type_):
            return make(type_, timezone)
    raise ValueError("one text fills no list, map or struct; types are text, numbers, boolean, binary, date and timestamp")


def item_type(type_: pa.DataType) -> pa.DataType:
    """The type of one value of a field: of a list, that of its items."""
    return type_.value_type if pa.types.is_list(type_) else type_


def item_reader(type_: pa.DataType) -> TextReader:
    """`make_reader` for the values of a field that may be a list. Raises ValueError."""
    return make_reader(item_type(type_))


def _text(type_: pa.DataType, timezone: str) -> TextReader:
    return lambda texts: (texts, None)


def _by_cast(form: str) -> Callable[[pa.DataType, str], TextReader]:
    """Arrow's cast, which knows more forms (``0x1F``) and stops at the first text it cannot read."""

    def make(type_: pa.DataType, timezone: str) -> TextReader:
        def read(texts: pa.Array) -> tuple[pa.Array, Bools | None]:
            plain = _without_empty(texts)
            good = pc.match_substring_regex(plain, form)
            if not pc.all(good, min_count=0).as_py():
                return _cast_good(plain, type_, pc.fill_null(good, False))
            try:
                return pc.cast(plain, type_), None
            except pa.ArrowInvalid:
                return _cast_good(plain, type_, pc.fill_null(good, False))

        return read

    return make


def _without_empty(texts: pa.Array) -> pa.StringArray:
    plain = materialize_array(texts).cast(pa.string())
    empty = pc.equal(pc.binary_length(plain), 0)
    return pc.if_else(empty, None, plain) if pc.any(empty).as_py() else plain


def _cast_good(texts: pa.StringArray, type_: pa.DataType, good: pa.BooleanArray) -> tuple[pa.Array, Bools]:
    """The texts of the right form as values; what the cast refuses all the same (it does not fit) is found by halving."""
    values = _halve(pc.if_else(good, texts, None), type_)
    return values, boolean_values(pc.and_(texts.is_valid(), pc.is_null(values)))


def _halve(texts: pa.StringArray, type_: pa.DataType) -> pa.Array:
    try:
        return pc.cast(texts, type_)
    except pa.ArrowInvalid:
        if len(texts) == 1:
            return pa.nulls(1, type_)
    half = len(texts) // 2
    return pa.concat_arrays([_halve(texts.slice(0, half), type_), _halve(texts.slice(half), type_)])


def _date(type_: pa.DataType, timezone: str) -> TextReader:
    return _time(type_, timezone, ISO_8601)


def _time(type_: pa.DataType, timezone: str, formats: tuple[str, ...]) -> TextReader:
    """The formats are compiled at the first texts: lint, which asks for readers, does without numpy."""
    parse = cache(Timestamp(formats=formats, timezone=timezone).compile)

    def read(texts: pa.Array) -> tuple[pa.Array, Bools | None]:
        instants = parse()(texts).columns["timestamp"]
        wrong = None
        if instants.null_count != texts.null_count:
            empty = boolean_values(pc.equal(pc.fill_null(pc.binary_length(materialize_array(texts)), 0), 0))
            wrong = boolean_values(pc.and_(texts.is_valid(), instants.is_null())) & ~empty
        return instants if type_ == TIMESTAMP else pc.cast(instants, type_, safe=False), wrong

    return read


_READERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, str], TextReader]], ...] = (
    (pa.types.is_string, _text),
    (pa.types.is_integer, _by_cast(r"^-?[0-9]+$")),
    (pa.types.is_floating, _by_cast(r"^(?i:-?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?|-?inf|nan)$")),
    (pa.types.is_decimal, _by_cast(r"^-?([0-9]+\.?[0-9]*|\.[0-9]+)$")),
    (pa.types.is_boolean, _by_cast(r"^(?i:true|false|1|0)$")),
    (pa.types.is_binary, _by_cast("")),
    (pa.types.is_date, _date),
)

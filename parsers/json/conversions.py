"""JSON values → values of the declared types; a value that does not fit is a `MisfitError`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from etl.api import format_type

SHOWN_CHARACTERS = 60
"""Characters of a value that its reason shows."""

MAX_DIGITS = 20
"""Digits of the longest integer that may fit; longer ones are not computed."""


class Number(str):
    """A JSON number as it was written."""


class Constant(str):
    """NaN, Infinity, -Infinity: Python reads them, JSON does not have them."""


class MisfitError(ValueError):
    """A value that does not fit its declared type."""


Convert = Callable[[Any], Any]
"""A JSON value that is not null → what pyarrow takes for the type. Raises MisfitError."""


def describe(value: Any) -> str:
    """A value as messages show it: ``the number 5``, ``an array``."""
    if isinstance(value, Constant):
        return f"{value}, which is not JSON"
    for kind, text in _KINDS:
        if isinstance(value, kind):
            return text if "{}" not in text else text.format(_shown(value))
    return "null"


def _shown(value: Any) -> str:
    return repr(str(value)) if not isinstance(value, Number) and len(value) <= SHOWN_CHARACTERS else value[:SHOWN_CHARACTERS]


_KINDS: tuple[tuple[type, str], ...] = (
    (Number, "the number {}"),
    (str, "the text {}"),
    (bool, "a boolean"),
    (list, "an array"),
    (dict, "an object"),
)


# ── Types ─────────────────────────────────────────────────────────────────────────────────────────


def find_converter(type_: pa.DataType) -> Convert:
    """The conversion to a declared type. Raises ValueError for types that JSON does not fill."""
    for applies, make in _CONVERTERS:
        if applies(type_):
            return make(type_)
    raise ValueError(f"type {type_} cannot be read from JSON")


def _misfit(value: Any, type_: pa.DataType) -> MisfitError:
    return MisfitError(f"is {describe(value)}, not {format_type(type_)}")


def _string(type_: pa.DataType) -> Convert:
    def convert(value: Any) -> str:
        if isinstance(value, Constant):
            raise _misfit(value, type_)
        return str(value) if isinstance(value, Number) else clean(value) if isinstance(value, str) else "".join(_json(value))

    return convert


def _json(value: Any) -> Iterator[str]:
    """Compact JSON, numbers as they were written."""
    if isinstance(value, Number | Constant):
        yield str(value)
    elif isinstance(value, dict):
        for index, (name, member) in enumerate(value.items()):
            yield ("," if index else "{") + json.dumps(clean(name), ensure_ascii=False) + ":"
            yield from _json(member)
        yield "}" if value else "{}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield "," if index else "["
            yield from _json(item)
        yield "]" if value else "[]"
    else:
        yield json.dumps(clean(value) if isinstance(value, str) else value, ensure_ascii=False)


_SURROGATE = re.compile("[\ud800-\udfff]")


def clean(text: str) -> str:
    """Half surrogate pairs, which no encoding can carry, become U+FFFD."""
    return _SURROGATE.sub("\ufffd", text)


def _bool(type_: pa.DataType) -> Convert:
    def convert(value: Any) -> bool:
        if not isinstance(value, bool):
            raise _misfit(value, type_)
        return value

    return convert


def _decimal_of(value: Any, type_: pa.DataType) -> Decimal:
    if not isinstance(value, Number):
        raise _misfit(value, type_)
    try:
        return Decimal(value)
    except InvalidOperation:
        raise _misfit(value, type_) from None


def _int(type_: pa.DataType) -> Convert:
    maximum = 2 ** (type_.bit_width - 1) - 1

    def convert(value: Any) -> int:
        if isinstance(value, Number) and len(value) <= MAX_DIGITS and value.isdigit() and int(value) <= maximum:
            return int(value)
        number = _decimal_of(value, type_)
        if not number:
            return 0
        if not 0 <= number.adjusted() <= MAX_DIGITS or number != int(number) or not -maximum - 1 <= number <= maximum:
            raise _misfit(value, type_)
        return int(number)

    return convert


def _float(type_: pa.DataType) -> Convert:
    maximum = 3.4028235677973366e38 if type_ == pa.float32() else 1.7976931348623157e308

    def convert(value: Any) -> float:
        if not isinstance(value, Number):
            raise _misfit(value, type_)
        number = float(value)
        if abs(number) > maximum:
            raise _misfit(value, type_)
        return number

    return convert


def _decimal(type_: pa.DataType) -> Convert:
    def convert(value: Any) -> Decimal:
        number = _decimal_of(Number(value) if type(value) is str else value, type_)
        if not number.is_finite() or (number and not -100 <= number.adjusted() < type_.precision - type_.scale):
            raise _misfit(value, type_)
        rounded = number.quantize(Decimal(1).scaleb(-type_.scale))
        if rounded != number:
            raise _misfit(value, type_)
        return rounded

    return convert


def _time(type_: pa.DataType) -> Convert:
    """Times inside arrays; elsewhere they are columns of texts."""

    def convert(value: Any) -> datetime:
        try:
            time = datetime.fromisoformat(value if type(value) is str else "")
        except ValueError:
            raise _misfit(value, type_) from None
        return time if time.tzinfo else time.replace(tzinfo=UTC)

    return convert


def _binary(type_: pa.DataType) -> Convert:
    text = _string(type_)
    return lambda value: text(value).encode()


def _null(type_: pa.DataType) -> Convert:
    def convert(value: Any) -> None:
        raise _misfit(value, type_)

    return convert


def _list(type_: pa.DataType) -> Convert:
    item = find_converter(type_.value_type)

    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise _misfit(value, type_)
        return [None if element is None else item(element) for element in value]

    return convert


def _struct(type_: pa.DataType) -> Convert:
    members = {member.name: find_converter(member.type) for member in type_}

    def convert(value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise _misfit(value, type_)
        return {name: None if value.get(name) is None else read(value[name]) for name, read in members.items()}

    return convert


def _map(type_: pa.DataType) -> Convert:
    item = find_converter(type_.item_type)

    def convert(value: Any) -> list[tuple[str, Any]]:
        if not isinstance(value, dict):
            raise _misfit(value, type_)
        return [(clean(name), None if element is None else item(element)) for name, element in value.items()]

    return convert


_CONVERTERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], Convert]], ...] = (
    (pa.types.is_string, _string),
    (pa.types.is_boolean, _bool),
    (pa.types.is_integer, _int),
    (pa.types.is_floating, _float),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_binary, _binary),
    (pa.types.is_timestamp, _time),
    (pa.types.is_date, _time),
    (pa.types.is_null, _null),
    (pa.types.is_list, _list),
    (pa.types.is_struct, _struct),
    (lambda type_: pa.types.is_map(type_) and pa.types.is_string(type_.key_type), _map),
)

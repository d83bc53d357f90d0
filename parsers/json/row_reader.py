"""JSON objects read one at a time, for rows that no columnar reader takes: each value is converted to its type or rejected.

A Python loop over rows: each of them needs conversions and a reason of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from parsers.json.conversions import Constant, Convert, MisfitError, Number, describe
from parsers.json.member_paths import JsonPath

_DECODER = json.JSONDecoder(parse_float=Number, parse_int=Number, parse_constant=Constant)


class RowLeaf(NamedTuple):
    """A declared field and how it is read."""

    name: str
    path: JsonPath
    convert: Convert
    dotted: bool
    """Whether a member whose name is the field's, dots and all, counts as well."""


def read_row(text: str | None, leaves: Sequence[RowLeaf]) -> list[Any]:
    """One text → a value for each leaf. Raises MisfitError with the reason."""
    if text is None:
        raise MisfitError("is null")
    if not text:
        raise MisfitError("is empty")
    members = decode_value(text)
    if not isinstance(members, dict):
        raise MisfitError(f"is {describe(members)}, not an object")
    return [_value(members, leaf) for leaf in leaves]


def decode_value(text: str) -> Any:
    """One JSON value, numbers as they were written. Raises MisfitError."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise MisfitError(f"is not JSON: {error.msg} at character {error.pos}") from None
    except RecursionError:
        raise MisfitError("is nested too deeply") from None


def _value(members: dict[str, Any], leaf: RowLeaf) -> Any:
    value = _member(members, leaf)
    if value is None:
        return None
    try:
        return leaf.convert(value)
    except MisfitError as error:
        raise MisfitError(f"field {leaf.name!r} {error}") from None
    except RecursionError:
        raise MisfitError(f"field {leaf.name!r} is nested too deeply") from None


def _member(members: dict[str, Any], leaf: RowLeaf) -> Any:
    """The value at a path, or of the member whose name has the dots in it."""
    value: Any = members
    for part in leaf.path:
        if value is None:
            break
        kind, expected = (list, "an array") if isinstance(part, int) else (dict, "an object")
        if not isinstance(value, kind):
            raise MisfitError(f"field {leaf.name!r} lies in {describe(value)}, not in {expected}")
        value = _item(value, part)
    return members.get(leaf.name) if value is None and leaf.dotted else value


def _item(value: Any, part: str | int) -> Any:
    if isinstance(part, int):
        return value[part] if part < len(value) else None
    return value.get(part)

"""Functions that make rows of one event (``explode`` and the like): their columns, and the mistakes in a call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from etl.api import Finding, format_type
from etl.steps.selecting.statement import start_offset

_INDEX = pa.int32()
"""The type of the position of an element in its array."""


@dataclass(frozen=True)
class Generator:
    """Which rows are made of an event."""

    function: str
    """In lower case, without ``_outer``."""
    is_outer: bool
    """Whether an event without rows gives one, with nulls."""
    rows: int = 0
    """Of ``stack``: how many rows it makes of its arguments."""

    def columns(self, types: Sequence[pa.DataType]) -> list[tuple[str, pa.DataType]]:
        """The columns for arguments of these types, with the names that Spark gives them; types that are unknown are null."""
        first = types[0] if types else pa.null()
        if self.function == "stack":
            return [(f"col{at}", _first_known(column)) for at, column in enumerate(self.stacked(types))]
        if self.function == "json_tuple":
            return [(f"c{at}", pa.string()) for at in range(len(types) - 1)]
        if self.function == "inline":
            members = first.value_type if pa.types.is_list(first) else pa.null()
            return [(member.name, member.type) for member in members] if pa.types.is_struct(members) else []
        position = [("pos", _INDEX)] if self.function == "posexplode" else []
        if pa.types.is_map(first):
            return [*position, ("key", first.key_type), ("value", first.item_type)]
        return [*position, ("col", first.value_type if pa.types.is_list(first) else pa.null())]

    def stacked(self, values: Sequence[Any]) -> list[Sequence[Any]]:
        """The arguments of ``stack``, or what belongs to them, by columns."""
        width = -(-len(values) // self.rows) if self.rows else 0
        return [values[at::width] for at in range(width)]

    def mistake(self, types: Sequence[pa.DataType]) -> str | None:
        """Why it cannot have arguments of these types; None if it can."""
        if self.function == "stack":
            mixed = next((column for column in self.stacked(types) if len(_known_types(column)) > 1), None)
            shown = " and ".join(format_type(type_) for type_ in _known_types(mixed or ()))
            return f"the values of a column of stack have one type, and these are {shown}" if mixed else None
        first = types[0]
        if pa.types.is_null(first) or (self.function == "json_tuple" and first == pa.string()):
            return None
        accepted, is_accepted = _ACCEPTED[self.function]
        return None if is_accepted(first) else f"{self.function} takes {accepted}, and this is {format_type(first)}"


def _is_array_or_map(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_map(type_))


def _is_array_of_structs(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) and pa.types.is_struct(type_.value_type))


_ACCEPTED = {
    "explode": ("an array or a map", _is_array_or_map),
    "posexplode": ("an array or a map", _is_array_or_map),
    "inline": ("an array of structs", _is_array_of_structs),
    "json_tuple": ("a text", lambda type_: bool(type_ == pa.string())),
}


def _known_types(types: Sequence[pa.DataType]) -> list[pa.DataType]:
    """The different types, without those that are unknown."""
    return [type_ for type_ in dict.fromkeys(types) if not pa.types.is_null(type_)]


def _first_known(types: Sequence[pa.DataType]) -> pa.DataType:
    return next(iter(_known_types(types)), pa.null())


@dataclass(frozen=True)
class GeneratorCall:
    """A call of a generator in a query."""

    node: Any
    nodes: tuple[Any, ...]
    """Of the arguments."""
    generator: Generator
    arguments: tuple[str, ...]
    """The texts of the arguments, where columns have the names of fields."""
    types: tuple[pa.DataType, ...]
    """Of the arguments; ``null`` if only Spark knows one."""
    names: tuple[str, ...]
    """Those that the query gives to the columns; none for the names that Spark gives."""
    quoted: tuple[str, ...] = ()
    """Names that are texts, as they are written."""

    def columns(self) -> list[tuple[str, pa.DataType]]:
        """The names and types of the columns of its rows."""
        given = self.generator.columns(self.types)
        if not self.names:
            return given
        types = dict(enumerate(type_ for _, type_ in given))
        return [(name, types.get(at, pa.null())) for at, name in enumerate(self.names)]

    def findings(self) -> Iterator[Finding]:
        """Arguments of another type, and another number of names than columns."""
        at = start_offset(self.node)
        for text in self.quoted[:1]:
            yield Finding(
                "bad-sql", f"{text} is a text, not a name, in Spark SQL", hint=f"write `{text[1:-1]}`, in backticks", at=at
            )
        if self._has_wrong_arguments:
            yield Finding("wrong-arguments", f"write {_WRITTEN[self.generator.function]}", at=at)
            return
        mistake = self.generator.mistake(self.types)
        if mistake is not None:
            yield Finding("wrong-type", mistake, at=at)
            return
        given = [name for name, _ in self.generator.columns(self.types)]
        if self.names and pa.null() not in self.types[:1] and len(self.names) != len(given):
            hint = f"name all of them, such as {', '.join(given)}" if len(given) > 1 else "give one name"
            message = f"{self.generator.function} makes {_count(len(given))}, and the query names {len(self.names)}"
            yield Finding("wrong-columns", message, hint=hint, at=at)

    @property
    def _has_wrong_arguments(self) -> bool:
        match self.generator.function:
            case "stack":
                return not self.generator.rows or not self.arguments
            case "json_tuple":
                return len(self.arguments) < 2
            case _:
                return len(self.arguments) != 1


_WRITTEN = {
    "explode": "explode(array) or explode(map)",
    "posexplode": "posexplode(array) or posexplode(map)",
    "inline": "inline(array of structs)",
    "stack": "stack(2, value, …), with a number of rows and their values, row by row",
    "json_tuple": "json_tuple(text, 'key', …)",
}


def _count(columns: int) -> str:
    return f"{columns} column{'' if columns == 1 else 's'}"

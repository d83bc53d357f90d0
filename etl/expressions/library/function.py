"""A function of the library: its name, arguments and result, what the reference says of it, and how a call is bound.

A name begins with the dialect that gives the function its meaning: ``flink_``, ``rsql_``; our own functions have no prefix.
Arguments are written ``text: string, index: integer, more: any...``; ``?`` after a kind makes it optional.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import pyarrow as pa

from etl.api import format_type, parse_type
from etl.expressions.bound_node import BoundNode, literal
from etl.expressions.calls.arguments import MisuseError
from etl.expressions.casts import cast
from etl.expressions.widening import (
    ATOMIC,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT32,
    INT64,
    INTEGERS,
    MAX_DIGITS,
    NULL,
    STRING,
    is_number,
)

NULL_IF_ANY = "null if an argument is null"

PREFIXES: Mapping[str, str] = {"flink_": "flink", "rsql_": "rsql"}
"""Prefix of a name → the dialect of the function."""

MONTHS = pa.month_day_nano_interval()
"""An interval of years and months; one of days to milliseconds is a duration. They exist within expressions only."""

TIME = pa.time32("s")
"""A time of day, which has no type in Spark: it exists within expressions only."""


class ArgumentKind(NamedTuple):
    """What an argument accepts, in words and as a test of its type, and the type to which it is cast (None: none)."""

    words: str
    accepts: Callable[[pa.DataType], bool]
    target: pa.DataType | None = None


def _is_text(type_: pa.DataType) -> bool:
    return type_ in ATOMIC or is_number(type_) or type_ == TIME


KINDS: Mapping[str, ArgumentKind] = {
    "any": ArgumentKind("a value", lambda type_: True),
    "text": ArgumentKind("a value that has a text", _is_text, STRING),
    "string": ArgumentKind("a text", lambda type_: type_ == STRING),
    "binary": ArgumentKind("bytes", pa.types.is_binary),
    "integer": ArgumentKind("a whole number", lambda type_: type_ in INTEGERS),
    "int": ArgumentKind("a whole number", lambda type_: type_ in INTEGERS and type_ != INT64, INT32),
    "bigint": ArgumentKind("a whole number", lambda type_: type_ in INTEGERS, INT64),
    "number": ArgumentKind("a number", is_number),
    "double": ArgumentKind("a number", is_number, DOUBLE),
    "boolean": ArgumentKind("a boolean", lambda type_: type_ == BOOLEAN),
    "date": ArgumentKind("a date", lambda type_: type_ == DATE),
    "timestamp": ArgumentKind("a timestamp", pa.types.is_timestamp),
    "time": ArgumentKind("a time of day", lambda type_: type_ == TIME),
    "interval": ArgumentKind("an interval", lambda type_: pa.types.is_duration(type_) or type_ == MONTHS),
    "array": ArgumentKind("an array", pa.types.is_list),
    "map": ArgumentKind("a map", pa.types.is_map),
    "row": ArgumentKind("a row", pa.types.is_struct),
}
"""Names of kinds in a signature; ``string|date`` accepts both."""


class Argument(NamedTuple):
    """An argument: its name and kinds, and whether it may be missing or repeated."""

    name: str
    kinds: tuple[ArgumentKind, ...]
    is_optional: bool = False
    is_repeated: bool = False

    @property
    def has_own_type(self) -> bool:
        """Whether the type of the result follows from the argument's, which has parts: the result of null is null."""
        return not self.is_repeated and all(_name_of(kind) in ("array", "map", "interval") for kind in self.kinds)

    def convert(self, function: str, number: int, value: BoundNode) -> BoundNode:
        """The argument as the function takes it. Raises MisuseError for another type."""
        if value.type == NULL:
            target = self.kinds[0].target
            default = {"string": STRING, "integer": INT32, "boolean": BOOLEAN}.get(_name_of(self.kinds[0]))
            null_type = target if target is not None else default
            return value if null_type is None or value.unknown else cast(value, null_type)
        kind = next((kind for kind in self.kinds if kind.accepts(value.type)), None)
        if kind is None:
            accepted = " or ".join(dict.fromkeys(kind.words for kind in self.kinds))
            found = format_type(value.type)
            raise MisuseError(f"argument {number} of {function}(), {self.name}, has to be {accepted}, and this is {found}")
        return value if kind.target is None else cast(value, kind.target)


def _name_of(kind: ArgumentKind) -> str:
    return next(name for name, one in KINDS.items() if one is kind)


@dataclass(frozen=True)
class LibraryFunction:
    """One function. ``example`` is an expression without fields, whose value ``gives``; a test evaluates it."""

    name: str
    arguments: str
    result: str
    """A type, or words where it follows from the arguments."""
    build: Callable[..., BoundNode]
    about: str
    example: str
    gives: Any
    null: str = NULL_IF_ANY
    errors: str = "none"
    """For which values the event is rejected."""
    loops: bool = False
    """Whether Python computes it for each distinct value, because Arrow has no function for it."""
    is_volatile: bool = False
    """Whether its value may differ between equal events: random functions and those of the clock."""
    checks: Mapping[str, Callable[[str], str | None]] = field(default_factory=dict)
    """Name of an argument → why a constant text is not accepted, or None: lint says so."""
    is_in_spark: bool = False
    """Whether `dataframes.register` registers it in Spark: then an expression may call it beside what only Spark computes."""

    @property
    def dialect(self) -> str:
        """flink, rsql or own."""
        return next((dialect for prefix, dialect in PREFIXES.items() if self.name.startswith(prefix)), "own")

    @cached_property
    def parameters(self) -> tuple[Argument, ...]:
        return tuple(_parse(part.strip()) for part in self.arguments.split(",") if part.strip())

    @cached_property
    def type(self) -> pa.DataType:
        """The type of the result, ``null`` if it follows from the arguments."""
        try:
            return parse_type(self.result)
        except ValueError:
            return NULL

    @property
    def max_arguments(self) -> int | None:
        """The maximum number of arguments; None: any number."""
        return None if any(one.is_repeated for one in self.parameters) else len(self.parameters)

    @property
    def min_arguments(self) -> int:
        return sum(not one.is_optional and not one.is_repeated for one in self.parameters)

    def bind(self, args: Sequence[BoundNode]) -> BoundNode:
        """A call with these arguments. Raises MisuseError for another number or other types of arguments."""
        if len(args) < self.min_arguments or (self.max_arguments is not None and len(args) > self.max_arguments):
            raise MisuseError(f"{self.name}() takes {self._counts()}, and here are {len(args)}", hint=f"{self.call}")
        for parameter, arg in zip(self.parameters, args, strict=False):
            check = self.checks.get(parameter.name)
            if check and arg.is_literal and isinstance(arg.value, str) and (complaint := check(arg.value)):
                raise MisuseError(f"{parameter.name} of {self.name}(): {complaint}")
        if self.dialect == "flink":
            args = [_as_written(arg) for arg in args]
        last = len(self.parameters) - 1
        given = [self.parameters[min(at, last)].convert(self.name, at + 1, arg) for at, arg in enumerate(args)]
        for parameter, arg in zip(self.parameters, given, strict=False):
            if arg.type == NULL and not arg.unknown and parameter.has_own_type:
                return arg if self.type == NULL else cast(arg, self.type)
        return self.build(*given)

    @property
    def call(self) -> str:
        """How it is called, as the reference shows it: ``name(text, index)``."""
        names = [
            f"[{one.name}]" if one.is_optional else f"{one.name} …" if one.is_repeated else one.name for one in self.parameters
        ]
        return f"{self.name}({', '.join(names)})"

    def _counts(self) -> str:
        if self.max_arguments is None:
            return f"{self.min_arguments} arguments or more"
        counts = (
            str(self.min_arguments)
            if self.min_arguments == self.max_arguments
            else f"{self.min_arguments} to {self.max_arguments}"
        )
        return f"{counts} argument{'' if counts == '1' else 's'}"


def _as_written(arg: BoundNode) -> BoundNode:
    """A constant ``0.5`` as DECIMAL(2, 1): Flink counts the digit before the point, Spark does not."""
    type_ = arg.type
    if not arg.is_literal or not pa.types.is_decimal128(type_) or type_.precision != type_.scale or type_.precision == MAX_DIGITS:
        return arg
    return literal(arg.value, pa.decimal128(type_.precision + 1, type_.scale))


def flink_function(
    name: str, arguments: str, result: str, build: Any, about: str, example: str, gives: Any, **more: Any
) -> LibraryFunction:
    """A function of Flink, which gets the prefix of its dialect."""
    return LibraryFunction(f"flink_{name}", arguments, result, build, about, example, gives, **more)


def rsql_functions(null: str = NULL_IF_ANY, *, loops: bool = False) -> Callable[..., LibraryFunction]:
    """Return a builder of functions of RocketMQ Streams, which adds the prefix of the dialect to the name and to the example.

    ``null`` and ``loops`` are the defaults of what it builds.
    """

    def build(
        name: str,
        arguments: str,
        result: str,
        bind: Any,
        about: str,
        example: str,
        gives: Any,
        null: str = null,
        loops: bool = loops,
    ) -> LibraryFunction:
        return LibraryFunction(f"rsql_{name}", arguments, result, bind, about, f"rsql_{example}", gives, null=null, loops=loops)

    return build


def _parse(text: str) -> Argument:
    name, _, kinds = text.partition(":")
    kinds = kinds.strip()
    repeated, optional = kinds.endswith("..."), kinds.endswith("?")
    names = kinds.rstrip(".?").split("|")
    return Argument(name.strip(), tuple(KINDS[one.strip()] for one in names), optional, repeated)

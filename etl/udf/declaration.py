"""Functions of the user as values that travel with the plan: the text of their code, their signature, their time limit."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Literal, TypeAlias

import pyarrow as pa

from etl.options import CallingText

CallingConvention: TypeAlias = Literal["arrow", "polars", "numpy", "values"]
"""What a function takes: arrays of a library, or Python values, one call for each event."""

FunctionForm: TypeAlias = Literal["scalar", "table", "aggregate", "events", "batches", "keyed", "timer"]
"""What a function gives: one value for an event, a list of values for an event, one value for many events; or, for the steps
`python` and `keyed_python`, events for an event, a batch for a batch, or events and a state for those of a key or for a timer."""

DEFAULT_TIMEOUT = timedelta(seconds=30)


@dataclass(frozen=True)
class CodeFile:
    """The text of a Python file. Workers run this text, so that they and the driver have the same code."""

    path: str
    """The path that messages show."""
    text: str
    package: str = ""
    """The package of a module, for its relative imports; empty for a file."""

    @cached_property
    def fingerprint(self) -> str:
        """A text that changes when the code changes; comments and formatting do not count."""
        return hashlib.sha256(ast.dump(ast.parse(self.text)).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function."""

    name: str
    type: pa.DataType | None
    """None: values of any type."""
    takes_null: bool = True
    """Whether null is passed; otherwise the result of an event with null is null, without a call."""
    constant: bool = False
    """Whether an array function takes one Python value here instead of an array."""
    required: bool = True


@dataclass(frozen=True)
class UserFunction:
    """A function of a Python file under the name that expressions use."""

    name: str
    code: CodeFile
    attribute: str
    """Its name in the file."""
    form: FunctionForm
    kind: CallingConvention
    parameters: tuple[Parameter, ...]
    result: pa.DataType
    """Of a table function the list of its rows."""
    timeout: timedelta = DEFAULT_TIMEOUT
    state: pa.DataType | None = None
    """Of an aggregate the type of its state."""
    state_class: str = ""
    """The class of the state, where it is one of the file, or ``tuple``."""
    state_may_be_none: bool = False
    """Whether the annotation of an aggregate's state says so; otherwise a state that is None is a ``return`` that is missing."""
    multiplies: bool = False
    """Whether a function of an event gives a list or an iterator of events."""
    sets_timers: bool = False
    """Whether a function of the events of a key also returns the timers of the key."""
    line: int = 0
    """The line of the file at which it begins."""

    @classmethod
    def broken(cls, name: str) -> UserFunction:
        """One whose declaration has errors: calls of it are not checked."""
        return cls(name, CodeFile("", ""), "", "scalar", "values", (), pa.null())

    @property
    def takes_events(self) -> bool:
        """Whether it takes whole events: a step calls it, and no expression."""
        return self.form in ("events", "batches", "keyed", "timer")

    @property
    def is_broken(self) -> bool:
        """Whether its declaration has errors."""
        return not self.attribute

    @property
    def required(self) -> int:
        """The number of arguments that a call needs at least."""
        return sum(parameter.required for parameter in self.parameters)

    @property
    def version(self) -> str:
        """What a state that depends on the function stores of it."""
        return f"{self.name} {self.code.fingerprint}/{self.attribute}"


Functions: TypeAlias = Mapping[str, UserFunction]
"""Functions by the names that expressions use, in lower case."""


def functions_of(text: str) -> tuple[UserFunction, ...]:
    """The functions of the user that an expression may call."""
    return text.functions if isinstance(text, CallingText) else ()


def with_functions(text: str, functions: Iterable[UserFunction]) -> str:
    """The expression, with the functions of the user that it may call."""
    given = tuple(functions)
    return CallingText.of(text, given) if given else text


def versions_of(text: str) -> str:
    """What a state that depends on an expression stores of the functions that it calls; empty if it calls none."""
    return ", ".join(sorted(function.version for function in functions_of(text)))

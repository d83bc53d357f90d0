"""Functions of the user: Python functions of a file, which a pipeline declares by the file's path and their name."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any, overload

from etl.sdk.columns import Column, When, call
from etl.sdk.values import NamedReference, plain
from etl.udf.loading import FUNCTION_MODULE


class Function(NamedReference):
    """A function of a file; with expressions among its arguments a call is an expression, else a call of Python."""

    def __init__(self, wrapped: Callable[..., Any], name: str | None, timeout: str | timedelta | None) -> None:
        functools.update_wrapper(self, wrapped)
        self.name = name or wrapped.__name__
        self.wrapped, self.timeout = wrapped, timeout
        _check_name(wrapped)

    @functools.cached_property
    def file(self) -> str:
        """The path of its file, looked up at its first use in an expression: workers run the file's text without a file."""
        return _file_of(self.wrapped)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        if any(isinstance(one, Column) for one in arguments):
            if named:
                raise TypeError(f"{self.name}() has arguments by name, which calls in expressions do not have")
            return call(self.name, arguments, functions=(self.in_file(),))
        return self.wrapped(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["wrapped"], name) if "wrapped" in self.__dict__ else object.__getattribute__(self, name)

    def in_file(self) -> Function:
        """This function. Raises TypeError if it is in no file, of which a pipeline could load it."""
        _ = self.file
        return self

    def __repr__(self) -> str:
        return f"<function {self.name} of {self.file}>"

    def declaration(self, folder: Path) -> str | dict[str, Any]:
        """What a pipeline file in a folder says of it."""
        file, attribute = relative_path(self.file, folder), self.wrapped.__name__
        if self.timeout is not None:
            return {"file": file, "function": attribute, "timeout": plain(self.timeout)}
        return file if attribute == self.name else f"{file}:{attribute}"


@overload
def function(wrapped: Callable[..., Any], *, name: str | None = None, timeout: str | timedelta | None = None) -> Function: ...
@overload
def function(*, name: str | None = None, timeout: str | timedelta | None = None) -> Callable[[Callable[..., Any]], Function]: ...
def function(
    wrapped: Callable[..., Any] | None = None, *, name: str | None = None, timeout: str | timedelta | None = None
) -> Function | Callable[[Callable[..., Any]], Function]:
    """Use a function, or class, of a Python file in expressions: ``domain = function(mail.domain)``, or as a decorator.

    Args:
        wrapped: A function at the top level of a file, with annotations of types.
        name: The name in expressions; default: its own.
        timeout: The longest time of one call; default: 30 s.
    """
    if wrapped is None:
        return lambda given: Function(given, name, timeout)
    return Function(wrapped, name, timeout)


def as_function(given: Function | Callable[..., Any]) -> Function:
    """A function of a file, wrapped if it is not yet."""
    return (given if isinstance(given, Function) else Function(given, None, None)).in_file()


def functions_in(value: Any) -> Iterator[Function]:
    """The functions that a value names, or that its expressions call."""
    if isinstance(value, Function):
        yield value.in_file()
    elif isinstance(value, (Column, When)):
        yield from value.functions
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from functions_in(one)
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from functions_in(one)


def relative_path(file: str, folder: Path) -> str:
    """The path of a file below a folder relative to it; any other as it is."""
    try:
        return str(Path(file).relative_to(folder.absolute()))
    except ValueError:
        return file


def relocate(declarations: Mapping[str, Any], before: Path, after: Path) -> dict[str, Any]:
    """Declarations of a file in one folder as those of a file in another."""
    return {name: _move(one, before.absolute(), after.absolute()) for name, one in declarations.items()}


def _move(declaration: Any, before: Path, after: Path) -> Any:
    if isinstance(declaration, Mapping):
        return {key: _moved_file(one, before, after) if key == "file" else one for key, one in declaration.items()}
    file, colon, attribute = str(declaration).rpartition(":") if ":" in str(declaration) else (str(declaration), "", "")
    return f"{_moved_file(file, before, after)}{colon}{attribute}" if file.endswith(".py") else declaration


def _moved_file(file: str, before: Path, after: Path) -> str:
    return relative_path(os.path.normpath(before / file), after) if before != after else file


def _check_name(wrapped: Callable[..., Any]) -> None:
    """Raises TypeError for what has no name at the top level of a file."""
    name, qualified = getattr(wrapped, "__name__", ""), getattr(wrapped, "__qualname__", "")
    if not callable(wrapped) or not name:
        raise TypeError(f"{wrapped!r} is not a function")
    if name == "<lambda>":
        raise TypeError("a lambda has no name in a file: write a function with def, or an expression such as col('a') > 1")
    if qualified != name:
        raise TypeError(f"{qualified}() is inside another function or class: move it to the top level of its file")


def _file_of(wrapped: Callable[..., Any]) -> str:
    """The file of a function. Raises TypeError if it has none."""
    if str(wrapped.__module__).startswith(FUNCTION_MODULE):
        return ""  # of a file that a worker loads for its functions: the pipelines in it are built, and not used
    try:
        file = inspect.getsourcefile(wrapped)
    except TypeError:
        file = None
    if file is None or not file.endswith(".py") or not Path(file).is_file():
        name = wrapped.__name__
        raise TypeError(
            f"{name}() is not in a file, of which workers load it: write it into one, such as functions.py, and import it"
        )
    return os.path.abspath(file)


def distinct(functions: Iterable[Function]) -> dict[str, Function]:
    """Functions by name. Raises ValueError for two of one name."""
    found: dict[str, Function] = {}
    for one in functions:
        other = found.setdefault(one.name.lower(), one)
        if (other.file, other.wrapped.__name__) != (one.file, one.wrapped.__name__):
            raise ValueError(f"two functions are named {one.name!r}: {other!r} and {one!r}; give one of them name=…")
    return found

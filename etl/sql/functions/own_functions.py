"""CREATE FUNCTION → an entry of `functions`, and the functions that a script has declared so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from etl.sql.statements import CreateFunction, ScriptError
from etl.udf.declaration import UserFunction

_declared: ContextVar[dict[str, UserFunction]] = ContextVar("declared_functions")
"""Functions of the script that is compiled, by name in lower case."""


_foreign: ContextVar[dict[str, str]] = ContextVar("foreign_functions")
"""Functions in another language that the script declares: name in lower case → class."""


@contextmanager
def no_functions() -> Iterator[None]:
    """Begin a script, which has declared no function yet."""
    tokens = _declared.set({}), _foreign.set({})
    try:
        yield
    finally:
        _declared.reset(tokens[0])
        _foreign.reset(tokens[1])


def refuse_foreign(name: str, at: int) -> None:
    """Raises ScriptError for a function that the script declares in another language than Python."""
    target = _foreign.get({}).get(name.lower())
    if target is not None:
        message = f"{name!r} is the class {target!r} of Java, which does not run here"
        hint = f"write it in Python: CREATE FUNCTION {name} AS 'functions.py:{name.lower()}' LANGUAGE PYTHON"
        raise ScriptError("unknown-function", message, at, hint)


def own_function(name: str) -> UserFunction | None:
    """The function of the user with this name, if the script has declared it."""
    return _declared.get({}).get(name.lower())


def declare(statement: CreateFunction, folder: Path) -> dict[str, str] | None:
    """The entry of `functions`; None for a function of another language, which is an error where it is called.

    What is wrong with the code is reported when the entry is checked. Raises ScriptError.
    """
    if statement.language != "PYTHON" and not statement.file:
        _foreign.get()[statement.name.lower()] = statement.target
        return None
    if own_function(statement.name) is not None:
        raise ScriptError("duplicate-name", f"the function {statement.name!r} is declared twice", statement.at)
    entry = _entry(statement)
    _declared.get()[statement.name.lower()] = _read(statement.name, entry, folder)
    return entry


def _entry(statement: CreateFunction) -> dict[str, str]:
    """``'module:name'``, ``'file.py:name'``, or ``'module.name'`` as Flink writes it; with USING the file is named apart."""
    target = statement.target
    sign = ":" if ":" in target else "."
    owner, _, function = ("", "", target) if target.endswith(".py") else target.rpartition(sign)
    if statement.file:
        return {"file": statement.file, "function": function}
    if target.endswith(".py"):
        return {"file": target, "function": statement.name}
    if not owner:
        hint = "write AS 'module:name', or add USING FILE 'functions.py'"
        raise ScriptError("bad-function", f"{target!r} names no module", statement.at, hint)
    return {"file" if owner.endswith(".py") else "module": owner, "function": function}


def _read(name: str, entry: dict[str, str], folder: Path) -> UserFunction:
    from etl.udf.code_files import CodeFileError, read_file, read_module
    from etl.udf.signature import FunctionDeclaration, read_function

    try:
        code = read_file(entry["file"], folder) if "file" in entry else read_module(entry["module"], folder)
    except CodeFileError:
        return UserFunction.broken(name)
    found = read_function(FunctionDeclaration(name, code, entry["function"]))
    return found if isinstance(found, UserFunction) else UserFunction.broken(name)

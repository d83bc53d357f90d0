"""CREATE FUNCTION → an entry of `functions`, and the functions that a script has declared so far."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path

from etl.sql.statements import CreateFunction, ScriptError
from etl.udf.declaration import UserFunction

_declared: ContextVar[dict[str, UserFunction]] = ContextVar("declared_functions")
"""Functions of the script that is compiled, by name in lower case."""


_foreign: ContextVar[dict[str, str]] = ContextVar("foreign_functions")
"""Functions in another language that the script declares: name in lower case → class."""


_replaced: ContextVar[str] = ContextVar("replaced_functions", default="")
"""The Python file with functions in place of those in Java; empty where the script names none."""

JAVA_FUNCTIONS = "java.functions"
"""The setting that names it."""


@contextmanager
def no_functions(replaced: str = "") -> Iterator[None]:
    """Begin a script, which has declared no function yet. ``replaced``: the file with functions in place of those in Java."""
    tokens = _declared.set({}), _foreign.set({}), _replaced.set(replaced)
    try:
        yield
    finally:
        _declared.reset(tokens[0])
        _foreign.reset(tokens[1])
        _replaced.reset(tokens[2])


def is_foreign(name: str) -> bool:
    """Whether the script declares a function of this name in another language than Python."""
    return name.lower() in _foreign.get({})


def refuse_foreign(name: str, at: int) -> None:
    """Raises ScriptError for a function that the script declares in another language than Python."""
    target = _foreign.get({}).get(name.lower())
    if target is not None:
        message = f"{name!r} is the class {target!r} of Java, which does not run here"
        file = _replaced.get() or "functions.py"
        hint = (
            f"`etl convert --stubs {file}` writes a function {name.lower()}() in Python to fill in; the script names it with SET "
            f"'{JAVA_FUNCTIONS}' = '{file}', or with CREATE FUNCTION {name} AS '{file}:{name.lower()}' LANGUAGE PYTHON"
        )
        raise ScriptError("unknown-function", message, at, hint)


def own_function(name: str) -> UserFunction | None:
    """The function of the user with this name, if the script has declared it."""
    return _declared.get({}).get(name.lower())


def declare(statement: CreateFunction, folder: Path) -> dict[str, str] | None:
    """The entry of `functions`; None for a function of another language, which is an error where it is called.

    What is wrong with the code is reported when the entry is checked. Raises ScriptError.
    """
    if statement.language != "PYTHON" and not statement.file:
        replacement = _replacement(statement, folder)
        if replacement is None:
            _foreign.get()[statement.name.lower()] = statement.target
            return None
        statement = replacement
    if own_function(statement.name) is not None:
        raise ScriptError("duplicate-name", f"the function {statement.name!r} is declared twice", statement.at)
    entry = _entry(statement)
    _declared.get()[statement.name.lower()] = _read(statement.name, entry, folder)
    return entry


def _replacement(statement: CreateFunction, folder: Path) -> CreateFunction | None:
    """The declaration of the function in Python that stands for one in Java; None if the file has no such function."""
    from etl.udf.code_files import CodeFileError, read_file
    from etl.udf.signature import parse_code

    file = _replaced.get()
    if not file:
        return None
    try:
        _, names = parse_code(read_file(file, folder))
    except (CodeFileError, SyntaxError, ValueError, RecursionError):
        names = None
    for name in (statement.name, statement.name.lower()):
        if names is not None and (name in names.functions or name in names.classes):
            return replace(statement, target=name, language="PYTHON", file=file)
    return None


def _entry(statement: CreateFunction) -> dict[str, str]:
    """``'module:name'``, ``'file.py:name'``, or ``'module.name'`` as Flink writes it; with USING the file is named apart."""
    target = statement.target
    delimiter = ":" if ":" in target else "."
    owner, _, function = ("", "", target) if target.endswith(".py") else target.rpartition(delimiter)
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
    from etl.udf.parameters import FunctionDeclaration
    from etl.udf.signature import read_function

    try:
        code = read_file(entry["file"], folder) if "file" in entry else read_module(entry["module"], folder)
    except CodeFileError:
        return UserFunction.broken(name)
    found = read_function(FunctionDeclaration(name, code, entry["function"]))
    return found if isinstance(found, UserFunction) else UserFunction.broken(name)

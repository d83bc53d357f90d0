"""Running the text of a file once in a process, to get its functions."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from types import ModuleType
from typing import Any

from etl.contract.errors import ComponentError
from etl.udf.call_guard import CallGuard, CallTimeoutError
from etl.udf.declaration import CodeFile, UserFunction
from etl.udf.failures import FAILURES, describe_failure

FUNCTION_MODULE = "etl_function_"
"""How names of modules begin that hold functions of the user."""

_modules: dict[CodeFile, ModuleType] = {}
"""Modules of this process, the oldest first."""

_MAX_MODULES = 32

LOAD_SECONDS = 60
"""Seconds that a file may take to run, with what it imports, if its function's limit is not longer."""


def load(function: UserFunction) -> Callable[..., Any]:
    """The function, from its file's text. Raises ComponentError if the file cannot be run."""
    return getattr(_module(function.code, function), function.attribute)


def restore_state(function: UserFunction, stored: Any) -> Any:
    """A stored state as the function takes it: an instance of its class."""
    if function.state_class == "tuple":
        return tuple(stored.values())
    if not function.state_class:
        return stored
    return getattr(_module(function.code, function), function.state_class)(**stored)


def _module(code: CodeFile, function: UserFunction) -> ModuleType:
    """The module of a file, which is run at the first call only; one that raises an error is run again by the next call."""
    if (module := _modules.get(code)) is not None:
        return module
    try:
        with CallGuard(max(function.timeout.total_seconds(), LOAD_SECONDS)):
            module = _run(code)
    except (*FAILURES, CallTimeoutError) as error:
        raise ComponentError(
            f"function {function.name!r}: the file {code.path!r} cannot be run: {describe_failure(error, code)}"
        ) from error
    while len(_modules) >= _MAX_MODULES:
        _modules.pop(next(iter(_modules)), None)
    _modules[code] = module
    return module


def _run(code: CodeFile) -> ModuleType:
    module = ModuleType(f"{FUNCTION_MODULE}{code.fingerprint}")
    module.__file__ = code.path
    module.__package__ = code.package
    lines = code.text.splitlines(keepends=True)
    linecache.cache[code.path] = (len(code.text), None, lines, code.path)  # for tracebacks where the file is not
    # dataclasses look their module up by name
    import sys

    sys.modules[module.__name__] = module
    exec(compile(code.text, code.path, "exec"), module.__dict__)
    return module

"""Modules that a process does not import: pyarrow imports pandas for the first list it converts (0.2 s, 30 MB), and numpy
(0.05 s). Importing pyarrow.compute writes the documentation of 300 functions (0.04 s), and a check calls none of them.

Only Spark's ``mapInArrow`` needs pandas: a run whose queries are all Arrow works without, and so does every other command.
Functions and components of the user may need it: what their code imports is loaded.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from importlib.abc import MetaPathFinder
from importlib.util import find_spec
from opcode import opmap
from types import FrameType, ModuleType
from typing import Any, cast

_NAME = "SLUICE_WITHOUT"

_IMPORTERS = {"numba", "numpy", "polars", "pyarrow", "pyspark"}
"""Packages that import others only if they are there."""


class _ImportBlocker(MetaPathFinder):
    """Reports packages as not installed, except to the import statements of the user's code."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        if fullname in self._names and not _is_statement(sys._getframe(1)):
            raise ModuleNotFoundError(f"{fullname} is not needed here", name=fullname)


def _is_statement(frame: FrameType | None) -> bool:
    """Whether an import was begun by a statement, outside `_IMPORTERS`; compiled modules such as Arrow's call functions."""
    while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "importlib":
        frame = frame.f_back
    if frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] in _IMPORTERS:
        return False
    return frame.f_code.co_code[frame.f_lasti] == opmap["IMPORT_NAME"]


def forbid(*names: str) -> None:
    """Forbid these packages to this process and to Spark's workers that it starts."""
    os.environ[_NAME] = " ".join(names)
    obey()


def obey() -> None:
    """Forbid the packages that the process which started this one forbids."""
    names = frozenset(os.environ.get(_NAME, "").split())
    if names:
        sys.meta_path.insert(0, _ImportBlocker(names))


class _Deferred(ModuleType):
    """A module of functions that is loaded when one of them is first called; until then its attributes load it when called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}", name=name, obj=self)
        return partial(_call, self, name)


def defer(name: str) -> None:
    """Load a module of functions when one of them is first called, which two threads must not do at once."""
    spec = None if name in sys.modules else find_spec(name)
    if spec is not None:
        sys.modules[name] = module = _Deferred(name)
        module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, spec.origin


def _call(module: ModuleType, name: str, *args: Any, **options: Any) -> Any:
    if isinstance(module, _Deferred):
        cast(Any, module).__class__ = ModuleType
        if module.__spec__ and module.__spec__.loader:
            module.__spec__.loader.exec_module(module)
    return getattr(module, name)(*args, **options)

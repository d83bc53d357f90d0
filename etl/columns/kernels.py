"""Compiles kernels with numba to machine code of this CPU, and stores the code on disk.

A kernel is a function over addresses and numpy arrays. It releases the GIL, checks no bounds and allocates nothing: its
caller guarantees that every address it reads or writes is valid. Importing this module imports numba (0.2 s, 54 MB), so
modules with kernels are imported by the functions that run them, never at the top of other modules.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numba
from numba.core import compiler, event, ir
from numba.core.caching import NullCache
from numba.core.serialize import dumps

from etl.columns import compile_events, disk_cache, kernel_fingerprint
from etl.columns.cache_folder import kernels

Kernel = Callable[..., Any]


class _Compilations(event.Listener):
    """Reports each compiled kernel to `etl.columns.compile_events`; functions that a kernel calls are compiled within it."""

    depth = 0

    def on_start(self, event: Any) -> None:
        if not self.depth:
            compile_events.begin_compiling(event.data["dispatcher"].py_func.__name__)
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if not self.depth:
            compile_events.end_compiling()


_register: Any = event.register
_rebuild: Any = compiler.CompileResult._rebuild
_dumps: Any = dumps
_register("numba:compile", _Compilations())


def _file_of(location: Any) -> str:
    """The file of a line of a kernel, for texts of numba's errors, which it also makes of those that it catches."""
    return str(location.filename)


_Location: Any = ir.Loc
_Location._get_path = _file_of  # numba's own is relative to the working folder, and fails when that is removed


# Kernels allocate nothing, so numba's reference counting (_nrt) is off: it costs two atomic instructions for each array argument
# of a function, a third of the time of small ones.
_COMPILE_OPTIONS: Any = {"nogil": True, "boundscheck": False, "error_model": "numpy", "_nrt": False}


class KernelCache(NullCache):
    """The machine code of one kernel on disk: a file for each signature and CPU, named by the kernel's fingerprint.

    Numba's own cache has an index of a kernel's signatures, which two processes that compile at once can corrupt, and it loads
    outdated code when only a constant in another file has changed.
    """

    def __init__(self, function: Kernel) -> None:
        self._function = function

    @cached_property
    def fingerprint(self) -> str:
        """Computed at the first call, when all globals of the kernel are defined."""
        return kernel_fingerprint.fingerprint(self._function, _COMPILE_OPTIONS)

    def _file(self, signature: Any, codegen: Any) -> Path:
        made_for = hashlib.sha256(repr((signature, codegen.magic_tuple())).encode()).hexdigest()[:16]
        return kernels() / f"{self._function.__name__}-{self.fingerprint}-{made_for}"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled kernel, or None if it has to be compiled. Numba's own cache would first load what the compiler knows of
        Python and numpy (90 modules, a third of the time to the first kernel), which code that is compiled does not need."""
        file = self._file(sig, target_context.codegen())
        with suppress(Exception):  # a truncated or foreign file counts as missing
            payload = pickle.loads(file.read_bytes())
            _note_use(file)
            return _rebuild(target_context, *payload)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled kernel."""
        disk_cache.write(self._file(sig, data.codegen), _dumps(data._reduce()))


def _note_use(file: Path) -> None:
    """Update the file's time: `etl.columns.cache_folder.tidy` removes files that were not used for a month."""
    with suppress(OSError):
        if file.stat().st_mtime < time.time() - DAY:
            os.utime(file)


DAY = 86_400
"""Seconds."""


def kernel(function: Kernel) -> Kernel:
    """The function as machine code: compiled at its first call, or loaded from the cache folder."""
    compiled: Any = numba.njit(**_COMPILE_OPTIONS)(function)
    compiled._cache = KernelCache(function)
    return compiled


def kernel_function(function: Kernel) -> Kernel:
    """A function that kernels call; it is compiled into each of them."""
    return numba.njit(**_COMPILE_OPTIONS)(function)


def inlined(function: Kernel) -> Kernel:
    """A `kernel_function` that is always inlined, however long: for steps of a hot loop with many array arguments."""
    return numba.njit(forceinline=True, **_COMPILE_OPTIONS)(function)

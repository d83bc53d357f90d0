"""How kernels are compiled: numba, to machine code of this CPU, kept on disk.

A kernel is a function over addresses and numpy arrays. It holds no lock (``nogil``), checks no bounds and allocates
nothing: whoever calls it has made sure that every address it may touch is there. Importing this module imports numba
(0.2 s, 54 MB), so modules with kernels are imported by the functions that run them, never at the top of others.
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
from numba.core import compiler, event
from numba.core.caching import NullCache
from numba.core.serialize import dumps

from etl.columns import cache_files, compile_events, kernel_fingerprint
from etl.columns.cache_folder import kernels

Kernel = Callable[..., Any]


class _Compilations(event.Listener):
    """Tells `etl.columns.compile_events` of each kernel that is compiled; what a kernel calls is compiled within it."""

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


# without numba's counting of references, for kernels allocate nothing: it costs two atomic steps for each array that a part
# is given, a third of the time of small parts
_HOW: Any = {"nogil": True, "boundscheck": False, "error_model": "numpy", "_nrt": False}


class KernelCache(NullCache):
    """The machine code of one kernel on disk: a file for each signature and CPU, named by the kernel's fingerprint.

    Numba's own cache keeps an index of a kernel's signatures, which two processes that compile at once may spoil, and takes
    old code for new when only a constant in another file has changed.
    """

    def __init__(self, function: Kernel) -> None:
        self._function = function

    @cached_property
    def fingerprint(self) -> str:
        """Taken at the first call, when all that the kernel names is defined."""
        return kernel_fingerprint.fingerprint(self._function, _HOW)

    def _file(self, signature: Any, codegen: Any) -> Path:
        made_for = hashlib.sha256(repr((signature, codegen.magic_tuple())).encode()).hexdigest()[:16]
        return kernels() / f"{self._function.__name__}-{self.fingerprint}-{made_for}"

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """The compiled kernel, or None where it has to be compiled."""
        target_context.refresh()
        file = self._file(sig, target_context.codegen())
        with suppress(Exception):  # a file that is cut or of something else is as good as none
            payload = pickle.loads(file.read_bytes())
            _note_use(file)
            return _rebuild(target_context, *payload)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep what was compiled."""
        cache_files.write(self._file(sig, data.codegen), _dumps(data._reduce()))


def _note_use(file: Path) -> None:
    """Files that nobody uses for a month are removed (`etl.columns.cache_folder.tidy`)."""
    with suppress(OSError):
        if file.stat().st_mtime < time.time() - DAY:
            os.utime(file)


DAY = 86_400
"""Seconds."""


def kernel(function: Kernel) -> Kernel:
    """The function as machine code: compiled at its first call, from the cache where it has been compiled before."""
    compiled: Any = numba.njit(**_HOW)(function)
    compiled._cache = KernelCache(function)
    return compiled


def part(function: Kernel) -> Kernel:
    """A function that kernels call: compiled into each of them."""
    return numba.njit(**_HOW)(function)


def inlined(function: Kernel) -> Kernel:
    """A `part` that becomes one with what calls it, however long: for parts of a hot loop that many arrays are given to."""
    return numba.njit(forceinline=True, **_HOW)(function)

"""How kernels are compiled: numba, to machine code of this CPU, kept on disk.

A kernel is a function over addresses and numpy arrays. It holds no lock (``nogil``), checks no bounds and allocates
nothing: whoever calls it has made sure that every address it may touch is there. Importing this module imports numba
(0.2 s, 54 MB), so modules with kernels are imported by the functions that run them, never at the top of others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from etl.columns.cache_folder import kernels

# by a version of all, for numba sees when a kernel's file changes, but not those it calls
os.environ["NUMBA_CACHE_DIR"] = str(kernels())

import numba
from numba.core import event

from etl.columns import compile_events

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
_register("numba:compile", _Compilations())


# without numba's counting of references, for kernels allocate nothing: it costs two atomic steps for each array that a part
# is given, a third of the time of small parts
_HOW: Any = {"nogil": True, "boundscheck": False, "error_model": "numpy", "_nrt": False}


def kernel(function: Kernel) -> Kernel:
    """The function as machine code: compiled at its first call, from the cache where it has been compiled before."""
    return numba.njit(cache=True, **_HOW)(function)


def part(function: Kernel) -> Kernel:
    """A function that kernels call: compiled into each of them."""
    return numba.njit(**_HOW)(function)


def inlined(function: Kernel) -> Kernel:
    """A `part` that becomes one with what calls it, however long: for parts of a hot loop that many arrays are given to."""
    return numba.njit(forceinline=True, **_HOW)(function)

"""How kernels are compiled: numba, to machine code of this CPU, kept on disk.

A kernel is a function over addresses and numpy arrays. It holds no lock (``nogil``), checks no bounds and allocates
nothing: whoever calls it has made sure that every address it may touch is there. Importing this module imports numba
(0.2 s, 54 MB), so modules with kernels are imported by the functions that run them, never at the top of others.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from etl.scanner.folder import kernels

# by a version of all, for numba sees when a kernel's file changes, but not those it calls
os.environ["NUMBA_CACHE_DIR"] = str(kernels())

import numba

Kernel = Callable[..., Any]


def kernel(function: Kernel) -> Kernel:
    """The function as machine code: compiled at its first call, from the cache where it has been compiled before."""
    return numba.njit(cache=True, nogil=True, boundscheck=False, error_model="numpy")(function)


def part(function: Kernel) -> Kernel:
    """A function that kernels call: compiled into each of them."""
    return numba.njit(nogil=True, boundscheck=False, error_model="numpy")(function)

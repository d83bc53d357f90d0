"""Prints the name and key of every kernel of the repository's packages; `test_kernel_cache` runs it twice."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from numba.core.dispatcher import Dispatcher

import connectors
import etl
import parsers
from etl.columns.kernels import KernelCache


def kernels() -> Iterator[tuple[str, Any]]:
    """Modules and their kernels."""
    for package in (etl, connectors, parsers):
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            spec = importlib.util.find_spec(found.name)
            if spec and spec.origin and "etl.columns.kernels" in Path(spec.origin).read_text():
                module = importlib.import_module(found.name)
                yield from ((found.name, value) for value in vars(module).values() if _is_kernel(value, found.name))


def _is_kernel(value: Any, module: str) -> bool:
    return isinstance(value, Dispatcher) and isinstance(value._cache, KernelCache) and value.py_func.__module__ == module


if __name__ == "__main__":
    for module, one in kernels():
        print(module, one.py_func.__name__, one._cache.fingerprint)

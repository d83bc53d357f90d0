"""A kernel's fingerprint: a hash of everything that determines its machine code.

Numba compiles the values of globals into machine code, but its own cache notices changes of the kernel's file only. The
fingerprint covers the kernel's byte code, the values of the globals and closures that it uses, and the same for every function
that it calls. Invariant: two kernels with the same fingerprint compile to the same machine code, whatever files they are in.
"""

from __future__ import annotations

import enum
import hashlib
import platform
from collections.abc import Callable, Iterator
from importlib.metadata import version
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numba
import numpy as np
from numba.core.dispatcher import Dispatcher
from numba.core.extending import _Intrinsic

COMPILERS = tuple(version(name) for name in ("numba", "llvmlite", "numpy"))
"""Versions of the libraries that determine the machine code."""


def fingerprint(function: Callable[..., Any], options: dict[str, Any]) -> str:
    """32 hexadecimal digits for a Python function that is compiled with these options.

    Raises TypeError for a global whose value has no stable description, such as an object of a user-defined class.
    """
    hasher = _ValueHasher()
    hasher.put(("kernel", function.__name__, COMPILERS, platform.python_version(), tuple(sorted(options.items()))))
    hasher.put(function)
    return hasher.digest()


class _ValueHasher:
    """Hashes values in the order in which code uses them; a function that occurs again is hashed by its number."""

    def __init__(self) -> None:
        self._hash = hashlib.sha256()
        self._numbers: dict[int, int] = {}

    def digest(self) -> str:
        """32 hexadecimal digits for all that was hashed."""
        return self._hash.hexdigest()[:32]

    def put(self, value: Any) -> None:
        """Hash a value by its type and content."""
        self._text(type(value).__qualname__)
        for types, hash_value in self._methods_by_type():
            if isinstance(value, types):
                hash_value(value)
                return
        raise TypeError(f"a kernel uses {value!r}, whose value has no stable description")

    def _methods_by_type(self) -> Iterator[tuple[Any, Callable[[Any], None]]]:
        yield (type(None), bool, int, float, complex, str, bytes, enum.Enum, type(...)), lambda value: self._text(repr(value))
        yield (np.generic, np.ndarray), self._array
        yield (tuple, list), self._items
        yield (set, frozenset), lambda value: self._items(sorted(value, key=repr))
        yield dict, lambda value: self._items([item for pair in value.items() for item in pair])
        yield CodeType, self._code
        yield FunctionType, lambda value: self._put_once(value, self._function)
        yield Dispatcher, lambda value: self._put_once(value, self._dispatcher)
        yield _Intrinsic, lambda value: self._put_once(value._defn, self._function)
        yield ModuleType, lambda value: self._text(value.__name__)
        yield (type, BuiltinFunctionType), lambda value: self._text(f"{value.__module__}.{value.__qualname__}")
        yield (np.ufunc, np.dtype, numba.types.Type), lambda value: self._text(repr(value))
        yield object, self._library_object

    def _text(self, text: str) -> None:
        self._hash.update(f"{len(text)}:{text}".encode())

    def _array(self, value: Any) -> None:
        array = np.asarray(value)
        self._text(f"{array.dtype.str} {array.shape}")
        self._hash.update(np.ascontiguousarray(array).tobytes())

    def _items(self, values: Any) -> None:
        self._text(str(len(values)))
        for value in values:
            self.put(value)

    def _put_once(self, value: Any, hash_value: Callable[[Any], None]) -> None:
        known = self._numbers.setdefault(id(value), len(self._numbers))
        self._text(str(known))
        if known == len(self._numbers) - 1:
            hash_value(value)

    def _dispatcher(self, value: Any) -> None:
        self.put(dict(sorted(value.targetoptions.items())))
        self._function(value.py_func)

    def _function(self, function: Any) -> None:
        self._code(function.__code__)
        self.put(function.__defaults__)
        for cell in function.__closure__ or ():
            self.put(cell.cell_contents)
        for name in _names(function.__code__):
            if name in function.__globals__:
                self._global(name, function.__globals__[name], function.__code__)

    def _global(self, name: str, value: Any, code: CodeType) -> None:
        self._text(name)
        self.put(value)
        if isinstance(value, ModuleType) and value.__name__.split(".")[0] not in _VERSIONED_LIBRARIES:
            for attribute in _names(code):
                if hasattr(value, attribute):
                    self._global(attribute, getattr(value, attribute), code)

    def _code(self, code: CodeType) -> None:
        self._hash.update(code.co_code)
        self._items([*code.co_consts, *code.co_names, *code.co_varnames, *code.co_freevars])

    def _library_object(self, value: Any) -> None:
        """Hash types and constants of LLVM and functions of numba by their text or name; `COMPILERS` covers their content."""
        library = type(value).__module__.split(".")[0]
        if library not in _COMPILER_LIBRARIES:
            raise TypeError(f"a kernel uses {value!r}, whose value has no stable description")
        text = str(value)
        self._text(getattr(value, "__qualname__", type(value).__qualname__) if " at 0x" in text else text)


_COMPILER_LIBRARIES = frozenset({"numba", "llvmlite"})
_VERSIONED_LIBRARIES = frozenset({*_COMPILER_LIBRARIES, "numpy", "builtins", "collections", "typing", "math"})
"""Libraries whose version stands for their content."""


def _names(code: CodeType) -> Iterator[str]:
    """The global names that code and the functions within it use, in order."""
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)

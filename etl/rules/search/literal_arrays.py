"""Literals as arrays, and their bytes as kernels read them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from etl.rules.search.literals import Literal

_CASE = 0x20
_SMALL_A, _SMALL_Z = 97, 122


class LiteralArrays(NamedTuple):
    """Literals as arrays, each with one value for a literal; see `Literal`."""

    data: Any
    """uint8: the bytes of all literals, end to end."""
    sizes: Any
    """int64."""
    kinds: Any
    """uint8."""
    cased: Any
    """bool."""
    owners: Any
    """int64."""


def pack(literals: Sequence[Literal]) -> LiteralArrays:
    """Literals → arrays."""
    return LiteralArrays(
        np.frombuffer(b"".join(one.data for one in literals), np.uint8),
        np.array([len(one.data) for one in literals], np.int64),
        np.array([one.kind for one in literals], np.uint8),
        np.array([one.cased for one in literals], np.bool_),
        np.array([one.owner for one in literals], np.int64),
    )


class LiteralBytes(NamedTuple):
    """The bytes of literals."""

    firsts: Any
    """uint32[n]: where each literal begins in ``data``."""
    sizes: Any
    """uint32[n]."""
    data: Any
    """uint8: the bytes of all literals and one byte more, so that it is never empty."""
    cases: Any
    """uint8: for each byte the case bit if it is a letter whose case does not count, else 0. Empty if it is 0 everywhere."""

    @classmethod
    def of(cls, literals: LiteralArrays) -> LiteralBytes:
        """The bytes of literals, read-only."""
        sizes = literals.sizes
        firsts = np.concatenate([[0], np.cumsum(sizes)])[:-1]
        small = (literals.data >= _SMALL_A) & (literals.data <= _SMALL_Z) & ~np.repeat(literals.cased, sizes)
        cases = np.append(small * np.uint8(_CASE), np.uint8(0)) if small.any() else np.empty(0, np.uint8)
        data = np.append(literals.data, np.uint8(0))
        return cls(*map(freeze, (firsts.astype(np.uint32), sizes.astype(np.uint32), data, cases)))

    def with_cases(self) -> LiteralBytes:
        """These bytes with ``cases``. Zeros that are only read take no memory: the system maps one page of them many times."""
        return self if len(self.cases) else self._replace(cases=np.zeros(len(self.data), np.uint8))

    @property
    def addresses(self) -> tuple[Any, Any, Any, Any]:
        """As kernels take them: starts, sizes, and the addresses of ``data`` and ``cases``, which must stay alive."""
        return self.firsts, self.sizes, np.uint64(self.data.ctypes.data), np.uint64(self.cases.ctypes.data)


def freeze(array: Any) -> Any:
    """The array, read-only: kernels are compiled for arrays that are mapped from files, and those have to look the same."""
    array.setflags(write=False)
    return array

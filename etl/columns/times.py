"""Parses times of fixed layouts: a layout is compiled to a program, which one kernel runs over each text of the layout's length.

The first layout that matches a text and gives an existing date reads it; texts that no layout reads are marked as unread.
A time whose text has no offset from UTC is a wall-clock time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from etl.columns.texts import Texts
from etl.columns.time_kernel import (
    FIELDS,
    LITERAL,
    NAME,
    NUMBER,
    OFFSET,
    POINT,
    ROOM,
    SKIP,
    read_times,
)

LITERAL_BYTES = 8
"""Maximum number of bytes of a literal in one instruction; a longer one takes several instructions."""


Instruction = tuple[int, int, int, int, int]


class Part(NamedTuple):
    """A piece of a layout, ``width`` bytes wide."""

    kind: str
    """``year``, ``year2``, ``month``, ``month_name``, ``day``, ``weekday``, ``hour``, ``hour12``, ``ampm``, ``minute``,
    ``second``, ``fraction``, ``offset``, ``point`` (. or ,) or ``literal``."""

    width: int
    text: str = ""
    """Of a literal."""


class Year(NamedTuple):
    """The year for texts without one: the latest in which the date exists and is not after ``latest``."""

    first: int
    """The first year to try; then the years before it."""

    tries: int
    """How many years to try."""

    latest: int
    """Microseconds since 1970 on the wall clock."""


class Times(NamedTuple):
    """The kernel's results."""

    micros: Any
    """int64[n]: microseconds since 1970, in UTC or on the wall clock."""

    kinds: Any
    """uint8[n]: one of `time_kernel.UNREAD`, `time_kernel.INSTANT`, `time_kernel.WALL_CLOCK`."""


class TimeReader:
    """Layouts, compiled to a program. ``names``: the names of a kind, in lower case and in order (``month_name``: jan, feb …)."""

    def __init__(self, layouts: Sequence[Sequence[Part]], names: Mapping[str, Sequence[str]]) -> None:
        self._names: list[int] = []
        self._name_indexes = {kind: self._add(values) for kind, values in names.items()}
        of_length: dict[int, list[Sequence[Part]]] = {}
        for layout in layouts:
            of_length.setdefault(sum(part.width for part in layout), []).append(layout)
        self._first = np.zeros(max(of_length, default=0) + 2, np.int64)
        bounds, program = [0], []
        for length in range(len(self._first) - 1):
            for layout in of_length.get(length, ()):
                program.extend(self._instructions(layout))
                bounds.append(len(program))
            self._first[length + 1] = len(bounds) - 1
        self._bounds, self._program = np.array(bounds, np.int64), np.array(program, np.int64).reshape(-1, 5)
        self._codes = np.array(self._names or [0], np.int64)

    def read(self, texts: pa.Array, year: Year) -> Times:
        """Texts of any kind → times."""
        found = Texts.of(texts)
        times = Times(np.empty(len(texts), np.int64), np.empty(len(texts), np.uint8))
        fields = np.zeros(ROOM, np.int64)
        addresses = [np.uint64(array.ctypes.data) for array in (self._program, self._codes, fields)]
        read_times(
            found.address, found.length, self._first, self._bounds, *addresses, year.first, year.tries, year.latest, *times
        )
        return times

    def _add(self, names: Sequence[str]) -> tuple[int, int]:
        """Add names; they are compared by their first three letters (two, if a name has only two), as a number."""
        start = len(self._names)
        self._names.extend(int.from_bytes(name[:3].encode(), "big") for name in names)
        return start, len(self._names)

    def _instructions(self, layout: Sequence[Part]) -> list[Instruction]:
        found: list[Instruction] = []
        for part in layout:
            if part.kind == "literal":
                text = part.text.encode()
                pieces = [text[at : at + LITERAL_BYTES] for at in range(0, len(text), LITERAL_BYTES)]
                found += [(LITERAL, len(piece), int.from_bytes(piece, "little", signed=True), 0, 0) for piece in pieces]
            else:
                found.append(self._instruction(part))
        return found

    def _instruction(self, part: Part) -> Instruction:
        if part.kind in self._name_indexes:
            start, end = self._name_indexes[part.kind]
            return NAME | _field(part.kind) << 8, part.width, start, end, 0
        if part.kind == "point":
            return POINT, 1, 0, 0, 0
        if part.kind == "offset":
            return OFFSET, part.width, 0, 0, 0
        more = 6 - part.width if part.kind == "fraction" else 0
        scale, divisor = 10 ** max(more, 0), 10 ** max(-more, 0)
        return NUMBER | _field(part.kind) << 8, part.width, scale, divisor, 2000 if part.kind == "year2" else 0


def _field(kind: str) -> int:
    return FIELDS.get(kind, SKIP)

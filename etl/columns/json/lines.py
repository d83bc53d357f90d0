"""Writes columns as JSON lines, with one kernel in one pass over the rows.

The kernel reads texts (strings, large strings, views), int64 and uint64, booleans, timestamps and dates. Columns of other
types are passed as texts that are JSON already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from etl.columns.json.kernel import needed_bytes, write_lines
from etl.columns.json.table import FIELDS, LITERAL, LITERAL_BYTES, add_addresses, describe_column

if TYPE_CHECKING:
    from numpy.typing import NDArray

OVER_READ = 16
"""Bytes that may be read after a literal."""

GROWTH = 2
"""Factor by which the output grows if escapes do not fit."""


class Lines(NamedTuple):
    """The lines of a batch, concatenated."""

    text: memoryview
    lengths: NDArray[np.int64]
    """Bytes of each line, including its newline."""


class JsonWriter:
    """Writes batches of one schema: alternately a literal and a value. Memory: at most twice the bytes of the lines.

    There is one literal more than types; the literals around a type that `is_quoted` and is not ``raw`` have the quotes.
    ``raw``: which columns are JSON text already.
    """

    def __init__(self, literals: Sequence[bytes], types: Sequence[pa.DataType], raw: Sequence[bool]) -> None:
        self._text = pa.py_buffer(b"".join(literals) + bytes(OVER_READ))
        last = np.zeros(FIELDS, np.uint64)
        self._table = np.array([*(describe_column(*column) for column in zip(types, raw, strict=True)), last])
        lengths = [len(literal) for literal in literals]
        self._table[:, LITERAL] = self._text.address + np.cumsum([0, *lengths[:-1]])
        self._table[:, LITERAL_BYTES] = lengths
        self._factor = 1

    def write(self, columns: Sequence[pa.Array], rows: int) -> Lines | None:
        """The lines of a batch; None if the year of a time or date does not have four digits."""
        table, buffers = add_addresses(self._table, columns)
        lengths = np.empty(rows, np.int64)
        batch = _address(table), np.uint64(len(columns)), _address(buffers)
        needed = needed_bytes(*batch, np.uint64(rows))
        if not needed:
            return None
        memory = pa.allocate_buffer(needed * self._factor, resizable=True)
        row, written = 0, 0
        while True:
            out, limit = np.uint64(memory.address + written), np.uint64(memory.address + memory.size)
            row, end = write_lines(*batch, np.uint64(row), np.uint64(rows), out, limit, _address(lengths))
            written = end - memory.address
            if row == rows:
                return Lines(memoryview(memory.slice(0, written)), lengths)
            memory.resize(memory.size * GROWTH)  # no room for the escapes
            self._factor = GROWTH  # the next batch may need it again; memory that is not written to costs nothing


def _address(array: NDArray[Any]) -> np.uint64:
    return np.uint64(array.ctypes.data)

"""The kernel that writes JSON lines, in one pass over the rows.

A line is a sequence of literal texts with a value between each two. The quotes around a value belong to the literals on both
sides: null removes the quote before it and skips the one after it.

Each row of the table (`json_table`) describes a column by `FIELDS` values of ``uint64``; the last row has the last literal.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.digits import EIGHT, ONE, ZERO
from etl.columns.intrinsics import load_word, store_long
from etl.columns.json.cells import BLOCK, ROOM, field, has_four_digits, is_valid, literal, null, short_value
from etl.columns.json.table import FIELDS, FIRST, KIND, LITERAL_BYTES, QUOTED, TIME, VALUES, VIEWS, WIDE_STRINGS
from etl.columns.json.texts import text_of, text_value
from etl.columns.kernels import kernel, kernel_function

ROW = np.uint64(8 * FIELDS)
"""Bytes of a row of the table."""


@kernel
def needed_bytes(table: Any, columns: Any, buffers: Any, rows: Any) -> Any:
    """Upper bound of the bytes of all lines if nothing is escaped; 0 if the year of a time does not have four digits."""
    needed = ROOM + field(table + columns * ROW, LITERAL_BYTES) * rows
    for k in range(columns):
        column = table + np.uint64(k) * ROW
        kind = field(column, KIND)
        needed += (field(column, LITERAL_BYTES) + np.uint64(_MAX_BYTES[kind])) * rows
        if kind <= WIDE_STRINGS:
            needed += _bytes_of_texts(column, buffers, rows)
        elif kind >= TIME and not _have_four_digits(column, rows):
            return ZERO
    return needed + rows


_MAX_BYTES = np.array([4, 4, 4, 20, 20, 5, 32, 12], np.uint8)
"""Maximum number of bytes of a value by kind; for texts, without the text."""


@kernel_function
def _bytes_of_texts(column: Any, buffers: Any, rows: Any) -> Any:
    """The bytes of one column's texts; for strings, from the first text to the end of the last."""
    if rows == ZERO:
        return ZERO
    if field(column, KIND) != VIEWS:
        first, _, _ = text_of(column, buffers, ZERO)
        last, length, _ = text_of(column, buffers, rows - ONE)
        return last + length - first
    total = ZERO
    view = field(column, VALUES) + field(column, FIRST) * BLOCK
    for row in range(rows):
        if is_valid(column, np.uint64(row)):
            total += np.uint64(load_word(view))
        view += BLOCK
    return total


@kernel_function
def _have_four_digits(column: Any, rows: Any) -> Any:
    all_good = True
    for row in range(rows):
        all_good &= not is_valid(column, np.uint64(row)) or has_four_digits(column, np.uint64(row))
    return all_good


@kernel
def write_lines(table: Any, columns: Any, buffers: Any, row: Any, rows: Any, out: Any, limit: Any, lengths: Any) -> Any:
    """Write lines and their lengths from ``row`` on, as long as there is room; returns the next row and the next address."""
    last = table + columns * ROW
    while row < rows:
        line_end = _line(table, last, buffers, row, out, limit)
        if line_end == ZERO:
            break
        store_long(lengths + row * EIGHT, line_end - out)
        out = line_end
        row += ONE
    return row, out


@kernel_function
def _line(column: Any, last: Any, buffers: Any, row: Any, out: Any, limit: Any) -> Any:
    """Write a line; returns the address after it, 0 if there is no room."""
    left_out = ZERO
    while column != last:
        if out + field(column, LITERAL_BYTES) + ROOM > limit:
            return ZERO
        out = literal(column, left_out, out)
        left_out = ZERO
        if not is_valid(column, row):
            left_out = field(column, QUOTED)
            out = null(out - left_out)
        elif field(column, KIND) <= WIDE_STRINGS:
            out = text_value(column, buffers, row, out, limit)
            if out == ZERO:
                return ZERO
        else:
            out = short_value(column, row, out)
        column += ROW
    if out + field(column, LITERAL_BYTES) + ROOM > limit:
        return ZERO
    return literal(column, left_out, out)

"""Columns of captured texts: which nulls are empty texts, which texts mean null, and other values for some rows.

The scanner gives null both for a capture that took no part in the match and for an empty one. A parser whose captures always
take part turns the latter into empty texts. These functions read the 16 bytes of each view, never the texts that they point to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.text_layout import boolean_values
from etl.columns.texts import materialize_array, take_rows

if TYPE_CHECKING:
    import numpy as np

    Bools = np.ndarray[Any, Any]

_DASH = ord("-")


def empty_where(texts: pa.Array, there: Bools) -> pa.Array:
    """The column with empty texts for nulls where the capture took part (bool[n])."""
    valid = boolean_values(texts.is_valid())
    empty = there & ~valid
    return _with(texts, valid | empty, empty) if empty.any() else texts


def dash_is_null(texts: pa.Array) -> pa.Array:
    """The column with null for texts that are a single ``-``."""
    views = _views(texts)
    dash = (views[:, 0] == 1) & ((views[:, 1] & 0xFF) == _DASH)
    return _with(texts, boolean_values(texts.is_valid()) & ~dash, dash) if dash.any() else texts


def null_where(column: pa.Array, rows: Bools) -> pa.Array:
    """A column of any type with nulls in these rows (bool[n])."""
    if column.type == pa.string_view():
        return _with(column, boolean_values(column.is_valid()) & ~rows, rows)
    return pc.if_else(pa.array(rows), pa.scalar(None, column.type), column)


def blanks_for_pluses(texts: pa.Array) -> pa.StringArray:
    """A copy of the texts with a blank for each ``+``."""
    import numpy as np

    plain = materialize_array(texts).cast(pa.string())
    bits, ends, data = plain.buffers()
    written = np.frombuffer(data or b"", np.uint8)
    blanks = np.where(written == ord("+"), np.uint8(ord(" ")), written)
    return pa.Array.from_buffers(pa.string(), len(plain), [bits, ends, pa.py_buffer(blanks)], offset=plain.offset)


def replace_rows(column: pa.Array, rows: Any, values: pa.Array | None) -> pa.Array:
    """The column with other values in these rows (int64[m]); None changes none. Views stay views where both columns are."""
    import numpy as np

    if values is None:
        return column
    if column.type != values.type or column.type != pa.string_view():
        column = materialize_array(column)
    at = np.arange(len(column))
    at[rows] = len(column) + np.arange(len(rows))
    return take_rows(pa.concat_arrays([column, values]), at)


def equal_to(texts: pa.Array, text: str) -> Bools:
    """Which texts are this one."""
    import numpy as np

    if texts.type != pa.string_view():
        return boolean_values(pc.fill_null(pc.equal(texts, text), False))
    views, reference = _views(texts), pa.array([text], pa.string_view())
    alike = np.flatnonzero((views[:, :2] == _views(reference)[:, :2]).all(axis=1))
    found = np.zeros(len(texts), bool)
    if len(alike):
        found[alike] = boolean_values(pc.fill_null(pc.equal(materialize_array(take_rows(texts, alike)), text), False))
    return found


def begins_with(texts: pa.Array, prefix: str) -> Bools:
    """Which texts begin with up to 4 bytes."""
    import numpy as np

    if texts.type != pa.string_view():
        return boolean_values(pc.fill_null(pc.starts_with(texts, prefix), False))
    views, prefix_bytes = _views(texts), np.frombuffer(prefix.encode(), np.uint8)
    begin = views.view(np.uint8).reshape(-1, 16)[:, 4 : 4 + len(prefix_bytes)]
    found: Bools = boolean_values(texts.is_valid()) & (views[:, 0] >= len(prefix_bytes)) & (begin == prefix_bytes).all(axis=1)
    return found


def _views(texts: pa.Array) -> Any:
    """uint32[n, 4]: length, then 12 bytes that begin with the text itself where it is that short."""
    import numpy as np

    views = np.frombuffer(texts.buffers()[1] or b"", np.uint32).reshape(-1, 4)
    return views[texts.offset : texts.offset + len(texts)]


def _with(texts: pa.Array, valid: Bools, blank: Bools) -> pa.Array:
    """The views with another validity, and empty in the rows ``blank``."""
    import numpy as np

    views = _views(texts).copy()
    views[blank] = 0
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(pa.string_view(), len(texts), [bits, pa.py_buffer(views), *texts.buffers()[2:]])

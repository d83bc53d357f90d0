"""Columns of texts: `Texts` is the form in which kernels read them; functions here take, filter and copy them.

Inside a segment a text column may be a ``string_view``: its values point into the block that a source read. To materialize
it is to copy its texts into an ordinary string column (`materialize`), which happens only when a step needs one. The schema
says ``string`` in both cases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.text_layout import INLINE, address_of, boolean_values, locate_texts

if TYPE_CHECKING:
    import numpy as np

MAX_OFFSET = (1 << 31) - 1
"""Largest offset, in bytes, of 32 bits with a sign."""

_SLACK = 16
"""Bytes after a buffer's texts that a copy in blocks may overwrite."""


class Texts(NamedTuple):
    """The addresses and lengths of a column's texts."""

    address: np.ndarray[Any, Any]
    """uint64[n]: the address of each text's first byte."""

    length: np.ndarray[Any, Any]
    """int64[n]: bytes; -1 for null."""

    buffer: pa.Buffer | None
    """The buffer of all texts that are not inline in their views; None if there are several such buffers, or none."""

    base: int
    """The address of ``buffer``; 0 without one."""

    owner: pa.Array
    """Keeps the memory alive: must exist as long as the addresses are used."""

    @classmethod
    def of(cls, array: pa.Array) -> Texts:
        """The texts of a string, large_string, string_view or null array, sliced or not."""
        return cls(*locate_texts(array))

    def contains_byte(self, byte: int) -> np.ndarray[Any, Any]:
        """bool[n]: which texts contain a byte."""
        import numpy as np

        from etl.columns.views import contain_byte

        found = np.empty(len(self.address), np.uint8)
        contain_byte(self.address, self.length, np.uint8(byte), found)
        return found.view(bool)

    def at(self, rows: np.ndarray[Any, Any]) -> Texts:
        """The texts of these rows."""
        return self._replace(address=self.address[rows], length=self.length[rows])


def split_for_views(array: pa.Array) -> list[pa.Array]:
    """Split a text column into pieces with one buffer of at most 2 GiB, which is what views can address.

    Texts of several buffers are copied. A text of more than 2 GiB becomes null, in a piece of its own.
    """
    if array.type == pa.string_view():
        data = array.buffers()[2:]
        is_addressable = len(data) <= 1 and all(buffer.size <= MAX_OFFSET for buffer in data)
        return [array] if is_addressable else split_for_views(materialize_array(array))
    return _split_offsets(array) if array.type == pa.large_string() and array.nbytes > MAX_OFFSET else [array]


def _split_offsets(array: pa.Array) -> list[pa.Array]:
    import numpy as np

    offsets = np.frombuffer(array.buffers()[1], np.int64)[array.offset : array.offset + len(array) + 1]
    pieces, row = [], 0
    while row < len(array):
        stop = int(np.searchsorted(offsets, offsets[row] + MAX_OFFSET, "right")) - 1
        pieces.append(array.slice(row, stop - row) if stop > row else pa.nulls(1, array.type))
        row = max(stop, row + 1)
    return pieces


def make_span_views(starts: Any, ends: Any, texts: Texts, empty_is_null: bool = False) -> pa.Array:
    """Spans (int32[n], relative to each text's beginning; a start below 0 is null) → string_view into the same buffer.

    The spans are copied if the texts are in several buffers or in one of more than 2 GiB.
    """
    import numpy as np

    from etl.columns.views import span_views

    if not _is_addressable(texts):
        return _copy_spans(starts, ends, texts, empty_is_null)
    views, valid = np.empty((len(starts), 4), np.uint32), np.empty(len(starts), np.uint8)
    at = np.uint64(views.ctypes.data)
    nulls = span_views(starts, ends, texts.address, np.uint64(texts.base), empty_is_null, at, valid)
    return make_view_array(views, valid if nulls else None, texts.buffer)


def make_view_array(views: Any, valid: Any, buffer: pa.Buffer | None) -> pa.Array:
    """Views (uint32[n, 4]) and their validity (None: all valid) → string_view array into one buffer."""
    data = [] if buffer is None else [buffer]
    return pa.Array.from_buffers(pa.string_view(), len(views), [_bitmap(valid), pa.py_buffer(views), *data])


def materialize(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with its views copied into ordinary strings; the same object if it has no views."""
    if not _has_views(batch):
        return batch
    return pa.RecordBatch.from_arrays([materialize_array(column) for column in batch.columns], names=batch.schema.names)


def materialize_array(array: pa.Array) -> pa.Array:
    """A view column as ``string`` (``large_string`` beyond 2 GiB), any other column unchanged."""
    if array.type != pa.string_view():
        return array
    if array.null_count == len(array):
        return pa.nulls(len(array), pa.string())
    texts = Texts.of(array)
    return copy_texts(texts.address, texts.length)


def filter_batch(batch: pa.RecordBatch, mask: pa.BooleanArray) -> pa.RecordBatch:
    """`RecordBatch.filter` for batches with views: copies the 16 bytes of a view, not its text."""
    import numpy as np

    if not _has_views(batch):
        return batch.filter(mask)
    chosen = mask.fill_null(False) if mask.null_count else mask
    rows = np.flatnonzero(boolean_values(chosen))
    columns = [take_rows(column, rows) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def take_rows(array: pa.Array, rows: Any) -> pa.Array:
    """`Array.take` with row numbers (int64[m]): copies the 16 bytes of a view, not its text; a column of nulls is sliced."""
    if array.type == pa.string_view():
        return _take_views(array, rows)
    return array.slice(0, len(rows)) if array.null_count == len(array) >= len(rows) else array.take(pa.array(rows))


def concat_arrays(pieces: Sequence[tuple[int, pa.Array | None]]) -> pa.Array:
    """Concatenate pieces: arrays of one type, or None for a number of nulls; at least one is an array.

    The result is a view column if all pieces are views into one buffer; otherwise texts are copied.
    """
    given = [piece for _, piece in pieces if piece is not None]
    if len(pieces) == 1:
        return given[0]
    if all(piece.type == pa.string_view() for piece in given):
        buffers = {(one.address, one.size): one for piece in given for one in piece.buffers()[2:]}
        if len(buffers) <= 1:
            return _concat_views(pieces, next(iter(buffers.values()), None))
    strings = [(length, None if piece is None else materialize_array(piece)) for length, piece in pieces]
    type_ = next(piece.type for _, piece in strings if piece is not None)
    return pa.concat_arrays([pa.nulls(length, type_) if piece is None else piece for length, piece in strings])


def _concat_views(pieces: Sequence[tuple[int, pa.Array | None]], buffer: pa.Buffer | None) -> pa.Array:
    import numpy as np

    total = sum(length for length, _ in pieces)
    views, valid, at = np.zeros((total, 4), np.uint32), np.zeros(total, bool), 0
    for length, piece in pieces:
        if piece is not None and piece.null_count < length:
            views[at : at + length] = _views(piece)
            valid[at : at + length] = True if not piece.null_count else boolean_values(piece.is_valid())
        at += length
    return make_view_array(views, None if valid.all() else valid, buffer)


def sum_text_bytes(array: pa.Array) -> int:
    """The total length of all texts in bytes."""
    if array.type != pa.string_view():
        return pc.sum(pc.binary_length(array)).as_py() or 0
    lengths = _views(array)[:, 0]
    return int(lengths.sum() if not array.null_count else lengths[boolean_values(array.is_valid())].sum())


def _has_views(batch: pa.RecordBatch) -> bool:
    """Whether a column of the batch is a string_view."""
    return any(type_ == pa.string_view() for type_ in batch.schema.types)


def _is_addressable(texts: Texts) -> bool:
    """Whether 32-bit offsets from ``base`` reach every text that is not inline in its view."""
    if texts.buffer is not None:
        return texts.buffer.size <= MAX_OFFSET
    return not len(texts.length) or int(texts.length.max()) <= INLINE


def _copy_spans(starts: Any, ends: Any, texts: Texts, empty_is_null: bool) -> pa.Array:
    import numpy as np

    length = np.where(starts < 0, -1, ends.astype(np.int64) - starts)
    if empty_is_null:
        length[length == 0] = -1
    return copy_texts(texts.address + np.maximum(starts, 0).astype(np.uint64), length).cast(pa.string_view())


def copy_texts(address: Any, length: Any) -> pa.Array:
    """Copy texts at addresses into a new string array."""
    import numpy as np

    from etl.columns.views import gather, text_ends

    total = int(np.maximum(length, 0).sum())
    type_, width = (pa.string(), np.int32) if total <= MAX_OFFSET else (pa.large_string(), np.int64)
    offsets, target = np.empty(len(length) + 1, width), np.empty(total + _SLACK, np.uint8)
    nulls = text_ends(length, offsets)
    gather(address, length, np.uint64(target.ctypes.data))
    buffers = [_bitmap(length >= 0 if nulls else None), pa.py_buffer(offsets), pa.py_buffer(target).slice(0, total)]
    return pa.Array.from_buffers(type_, len(length), buffers)


def _take_views(array: pa.Array, rows: Any) -> pa.Array:
    """The views at these rows."""
    import numpy as np

    from etl.columns.views import choose_views

    rows = np.ascontiguousarray(rows, np.int64)
    bits, views, *data = array.buffers()
    new_views, valid = np.empty((len(rows), 4), np.uint32), np.zeros(len(rows) + 7 >> 3, np.uint8)
    at = np.uint64(new_views.ctypes.data)
    nulls = choose_views(address_of(views), address_of(bits), np.int64(array.offset), rows, at, valid)
    return pa.Array.from_buffers(
        pa.string_view(), len(rows), [pa.py_buffer(valid) if nulls else None, pa.py_buffer(new_views), *data]
    )


def _views(array: pa.Array) -> Any:
    """The views of a column: uint32[n, 4], length first."""
    import numpy as np

    if not len(array):
        return np.empty((0, 4), np.uint32)
    return np.frombuffer(array.buffers()[1], np.uint32).reshape(-1, 4)[array.offset : array.offset + len(array)]


def _bitmap(valid: Any) -> pa.Buffer | None:
    import numpy as np

    return None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))

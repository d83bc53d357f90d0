"""The values of pairs as columns: texts, lists, and JSON objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from etl.api import format_type
from etl.columns.texts import MAX_OFFSET, Texts, make_span_views, make_view_array
from parsers.common.failures import Failures, wrong_values

if TYPE_CHECKING:
    import numpy as np

    from parsers.common.text_types import TextReader
    from parsers.pairs.pair_columns import AssignedPairs, Pairs

    Array = np.ndarray[Any, Any]

ESCAPED_BYTES = 6
"""Maximum number of bytes of JSON that one byte of text becomes: ``\\u001f``."""

SLACK = 64
"""Bytes after the output that a copy in blocks may overwrite."""


def make_text_column(texts: Texts, indexes: Array) -> pa.Array:
    """Return the texts at these indexes as string_view, null for -1. They are copied unless one buffer contains them all."""
    import numpy as np

    from parsers.pairs.kernel import pick_views

    views, valid = np.empty((len(indexes), 4), np.uint32), np.empty(len(indexes), np.uint8)
    size = 0 if texts.buffer is None else min(texts.buffer.size, MAX_OFFSET)
    at = np.uint64(views.ctypes.data)
    nulls, outside = pick_views(indexes, texts.address, texts.length, np.uint64(texts.base), np.uint64(size), at, valid)
    if outside:
        return _copy_text_column(texts, indexes)
    return make_view_array(views, valid if nulls else None, texts.buffer)


def _copy_text_column(texts: Texts, indexes: Array) -> pa.Array:
    import numpy as np

    from parsers.pairs.kernel import pick_texts

    address, length = np.empty(len(indexes), np.uint64), np.empty(len(indexes), np.int64)
    pick_texts(indexes, texts.address, texts.length, address, length)
    starts = np.where(length < 0, -1, 0).astype(np.int32)
    return make_span_views(starts, length.astype(np.int32), Texts(address, length, None, 0, texts.owner))


def make_list_column(
    field: str,
    pairs: Pairs,
    assigned: AssignedPairs,
    field_pairs: Array,
    type_: pa.DataType,
    read: TextReader,
    failures: Failures,
) -> pa.Array:
    """Return the list of all values of a key in each row, null for none."""
    import numpy as np

    from parsers.pairs.kernel import list_members

    offsets, members = np.empty(len(field_pairs) + 1, np.int32), np.empty(len(assigned.next_pairs), np.int64)
    count = int(list_members(field_pairs, assigned.next_pairs, offsets, members))
    texts = make_text_column(pairs.values, members[:count])
    values, wrong = read(texts)
    if wrong is not None and wrong.any():
        _add_failures(field, texts, wrong, offsets, type_, failures)
    if values.type != type_.value_type:
        values = values.cast(type_.value_type)
    bits = pa.py_buffer(np.packbits(field_pairs >= 0, bitorder="little")) if (field_pairs < 0).any() else None
    return pa.Array.from_buffers(type_, len(field_pairs), [bits, pa.py_buffer(offsets)], children=[values])


def _add_failures(field: str, texts: pa.Array, wrong: Array, offsets: Array, type_: pa.DataType, failures: Failures) -> None:
    """Rows fail with the first of their wrong values as the reason."""
    import numpy as np

    at = np.flatnonzero(wrong)
    rows, first = np.unique(np.searchsorted(offsets, at, "right") - 1, return_index=True)
    reasons = wrong_values(field, texts, wrong, format_type(type_.value_type))
    spread = np.full(len(offsets) - 1, len(texts), np.int64)
    spread[rows] = at[first]
    failed = np.zeros(len(offsets) - 1, bool)
    failed[rows] = True
    failures.add(failed, pa.concat_arrays([reasons, pa.nulls(1, reasons.type)]).take(pa.array(spread)))


def make_rest_column(pairs: Pairs, assigned: AssignedPairs, literals: list[bytes], declared: int) -> pa.Array:
    """A JSON object for the pairs of slots from ``declared`` on; ``literals`` are their names, ``"name":``."""
    import numpy as np

    from parsers.pairs.json_kernel import write_objects

    rows = len(pairs.bounds) - 1
    ends = np.cumsum([0, *map(len, literals)], dtype=np.int64)
    names = np.frombuffer(b"".join(literals) + bytes(SLACK), np.uint8)
    out = np.empty(_output_bytes(pairs, assigned, np.diff(ends), declared), np.uint8)
    offsets, valid = np.empty(rows + 1, np.int64), np.empty(rows, np.uint8)
    texts = pairs.values
    write_objects(
        pairs.bounds,
        *assigned[1:],
        texts.address,
        texts.length,
        declared,
        names,
        ends,
        np.uint64(out.ctypes.data),
        offsets,
        valid,
    )
    bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    total = int(offsets[-1])
    type_, width = (pa.string(), np.int32) if total <= MAX_OFFSET else (pa.large_string(), np.int64)
    buffers = [bits, pa.py_buffer(offsets.astype(width)), pa.py_buffer(out).slice(0, total)]
    return pa.Array.from_buffers(type_, rows, buffers)


def _output_bytes(pairs: Pairs, assigned: AssignedPairs, sizes: Array, declared: int) -> int:
    """Bytes that are always enough; pages that are not written to cost nothing."""
    import numpy as np

    slots = assigned.slots[assigned.slots >= declared] - declared
    values = int(np.maximum(pairs.values.length, 1).sum()) * ESCAPED_BYTES + len(assigned.slots) * 8
    return values + int(sizes[slots].sum()) + 4 * len(pairs.bounds) + SLACK

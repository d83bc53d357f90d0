"""The fields of entries that are not declared, as JSON objects like those of ``journalctl -o json``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.journald import journal_kernel as kernel
from connectors.shared.json_lines import as_array
from etl.columns.json.lines import JsonWriter
from etl.columns.texts import copy_texts

Array = np.ndarray[Any, Any]


def write_rest(
    rows: Array, objects_of_rows: Array, objects: Array, read_text: Callable[[int], bytes], count: int, max_bytes: int
) -> pa.Array:
    """Write an object for each of ``count`` entries: rows (int32[m]) grow and have these objects.

    Each distinct value is written once. Values of a name that an entry has several times are an array, a value that is not UTF-8
    is an array of its bytes, and one of more than ``max_bytes`` is null.
    """
    distinct, inverse = np.unique(objects_of_rows, return_inverse=True)
    fragments = _write_fragments(distinct, objects[:, distinct], read_text, max_bytes)
    offsets = np.concatenate(([0], np.cumsum(np.bincount(rows, minlength=count)))).astype(np.int32)
    lists = pa.ListArray.from_arrays(pa.array(offsets), fragments.take(pa.array(inverse)))
    written = pc.binary_join_element_wise("{", pc.binary_join(lists, ","), "}", "")
    repeats = np.zeros(count, np.uint8)
    kernel.have_repeats(rows, objects[kernel.NAME_HASH, objects_of_rows], repeats)
    if not repeats.any():
        return written
    merged = [_merge(lists[int(row)].as_py()) for row in np.flatnonzero(repeats)]
    return pc.replace_with_mask(written, pa.array(repeats.astype(bool)), pa.array(merged, pa.string()))


def _write_fragments(distinct: Array, objects: Array, read_text: Callable[[int], bytes], max_bytes: int) -> pa.Array:
    """``"NAME":"value"`` of each object."""
    begin, name = objects[kernel.BEGIN].astype(np.uint64), objects[kernel.NAME]
    address, length = begin + (name + 1).astype(np.uint64), objects[kernel.LENGTH] - name - 1
    invalid = np.empty(len(distinct), np.uint8)
    kernel.find_invalid(address, length, invalid)
    special = (invalid > 0) | (length > max_bytes)
    names, values = copy_texts(begin, name), copy_texts(address, np.where(special, 0, length))
    types = [names.type, values.type]
    lines = JsonWriter([b'"', b'":"', b'"'], types, [False, False]).write([names, values], len(distinct))
    assert lines is not None  # texts only: no times
    fragments = as_array(lines).cast(pa.string())
    if not special.any():
        return fragments
    texts = [_special(read_text(int(found)), max_bytes) for found in distinct[special]]
    return pc.replace_with_mask(fragments, pa.array(special), pa.array(texts, pa.string()))


def _special(text: bytes, max_bytes: int) -> str:
    """A value that is not UTF-8, or too long."""
    name, _, value = text.partition(b"=")
    shown = "null" if len(value) > max_bytes else f"[{','.join(map(str, value))}]"
    return f'"{name.decode()}":{shown}'


def _merge(fragments: Sequence[str]) -> str:
    """An object of an entry that has a name several times."""
    values: dict[str, list[str]] = {}
    for fragment in fragments:
        name, _, value = fragment.partition(":")
        values.setdefault(name, []).append(value)
    shown = (f"{name}:{found[0] if len(found) == 1 else '[' + ','.join(found) + ']'}" for name, found in values.items())
    return "{" + ",".join(shown) + "}"

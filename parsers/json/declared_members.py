"""Columns of JSON objects → columns of their declared members. A kernel finds all of them in one pass over the texts.

The text of a string is its characters, that of any other value its JSON without white space between the parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import MAX_OFFSET, Texts, make_span_views, make_view_array, materialize_array
from parsers.common.view_values import replace_rows
from parsers.json.conversions import Convert, MisfitError, find_converter
from parsers.json.member_paths import JsonPath
from parsers.json.row_reader import decode_value
from parsers.json.tries import member_trie

if TYPE_CHECKING:
    import numpy as np

    Bools = np.ndarray[Any, Any]

_SLACK = 32
"""Bytes after the output that a copy in blocks may overwrite."""


class MemberSpans(NamedTuple):
    """Where the texts of a column have declared members, and their values as texts."""

    texts: Texts
    starts: Any
    """int32[paths, n], relative to each text; -1 where there is none."""

    ends: Any
    valid: Any
    """uint8[paths, n]: `THERE` for those with a text, `IN_PYTHON` for those that Python converts."""

    views: Any
    """uint32[paths, n, 4]: views into ``written``, 0 where there is no text."""

    written: pa.Buffer

    nothing: pa.StringArray
    """The column of a member that no object has: all null."""

    def occurs(self, path: int) -> bool:
        """Whether any object has the member."""
        return bool(self.starts[path].max(initial=-1) >= 0)

    def texts_of(self, path: int, reasons: dict[int, str], name: str) -> pa.Array:
        """The member's values as texts (``string_view``); ``reasons`` gets the rows whose value is none."""
        import numpy as np

        from parsers.json.declared_kernel import IN_PYTHON, THERE

        valid = self.valid[path]
        max_status = valid.max(initial=0)
        if not max_status:
            return self.nothing
        there = valid if max_status == THERE else valid == THERE
        texts = make_view_array(self.views[path], None if there.all() else there, self.written)
        if max_status != IN_PYTHON:
            return texts
        rows = np.flatnonzero(valid == IN_PYTHON)
        raw = materialize_array(make_span_views(self.starts[path][rows], self.ends[path][rows], self.texts.at(rows)))
        return replace_rows(
            texts, rows, _convert_distinct(rows.tolist(), raw, pa.string(), find_converter(pa.string()), reasons, name)
        )

    def values_of(self, path: int, type_: pa.DataType, reasons: dict[int, str], name: str) -> pa.Array:
        """The member's values as a type: by a kernel or Arrow's cast where all are plain, else Python converts distinct texts."""
        from parsers.json.value_kernel import SCALAR, TEXT

        if pa.types.is_integer(type_) and (numbers := self._whole_numbers(path, type_)) is not None:
            return numbers
        starts, ends = self.starts[path].copy(), self.ends[path].copy()
        kinds = _classify(self.texts, starts, ends)
        if (kinds <= SCALAR).all() and not (kinds == TEXT).any():
            values = _cast_scalars(materialize_array(make_span_views(starts, ends, self.texts)), type_)
            if values is not None:
                return values
        raw = materialize_array(make_span_views(self.starts[path], self.ends[path], self.texts))
        return _convert_distinct(range(len(raw)), raw, type_, find_converter(type_), reasons, name)

    def _whole_numbers(self, path: int, type_: pa.DataType) -> pa.Array | None:
        """The member's values, if all are whole numbers of the type or null."""
        import numpy as np

        from parsers.json.value_kernel import read_whole

        rows, limits = len(self.texts.address), np.iinfo(type_.to_pandas_dtype())
        values, valid = np.empty(rows, np.int64), np.empty(rows, np.uint8)
        high = np.int64(min(limits.max, 2**63 - 1))
        if not read_whole(self.texts.address, self.starts[path], self.ends[path], np.int64(limits.min), high, values, valid):
            return None
        bits = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        return pa.Array.from_buffers(pa.int64(), rows, [bits, pa.py_buffer(values)]).cast(type_)


def find_members(texts: pa.Array, paths: Mapping[JsonPath, bool], odd: Bools) -> MemberSpans:
    """Find paths in objects; a path with the value True gives texts. Skips rows that are ``odd`` (bool[n]); rows that are not
    objects, or that only Python can read, become odd."""
    import numpy as np

    from parsers.json.declared_kernel import read_members

    found, nothing = Texts.of(texts), pa.nulls(len(texts), pa.string())
    if not paths:
        return MemberSpans(found, None, None, None, None, pa.py_buffer(b""), nothing)
    trie, count = member_trie(tuple(paths)), (len(paths), len(texts))
    starts, ends = np.full(count, -1, np.int32), np.empty(count, np.int32)
    valid, views = np.zeros(count, np.uint8), np.zeros((*count, 4), np.uint32)
    longest, total = int(found.length.max(initial=0)), int(np.maximum(found.length, 0).sum())
    room = min(total * trie.overlap, MAX_OFFSET)
    out = np.empty(room + _SLACK, np.uint8)
    stack = (np.zeros(longest + 2, bool), *np.zeros((3, trie.depth + 2), np.int64), np.full(len(trie.first) - 1, -1, np.int64))
    given = (starts, ends, np.uint64(views.ctypes.data), valid, np.array(list(paths.values())))
    at, names = np.uint64(out.ctypes.data), np.uint64(trie.names.ctypes.data)
    used = read_members(found.address, found.length, trie.arrays, names, stack, given, trie.overlap, at, room, odd)
    return MemberSpans(found, starts, ends, valid, views, pa.py_buffer(out).slice(0, used), nothing)


# ── Values ────────────────────────────────────────────────────────────────────────────────────────


def _classify(texts: Texts, starts: Any, ends: Any) -> Any:
    import numpy as np

    from parsers.json.value_kernel import classify

    kinds = np.empty(len(starts), np.uint8)
    classify(texts.address, starts, ends, kinds)
    return kinds


def _convert_distinct(
    rows: Sequence[int], raw: pa.Array, type_: pa.DataType, convert: Convert, reasons: dict[int, str], name: str
) -> pa.Array:
    """Each distinct text converted by a Python call; ``reasons`` gets the rows whose value does not fit."""
    encoded = raw.dictionary_encode()
    values, wrong = [], {}
    for number, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            value = decode_value(text)
            values.append(None if value is None else convert(value))
        except (MisfitError, RecursionError) as error:
            values.append(None)
            wrong[number] = str(error) if isinstance(error, MisfitError) else "is nested too deeply"
    if wrong:
        numbers = encoded.indices.to_pylist()
        for row, number in zip(rows, numbers, strict=True):
            if number in wrong:
                reasons.setdefault(row, f"field {name!r} {wrong[number]}")
    return pa.array(values, type_).take(encoded.indices)


def _cast_scalars(raw: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
    """The values of JSON numbers, ``true`` and ``false``; None where one of the texts is not a plain value of the type.

    Python then reads the column: it takes ``5.0`` for a whole number, and gives the reasons of the others.
    """
    if type_ == pa.bool_():
        known = pc.is_in(raw, pa.array(["true", "false", None]))
        return pc.equal(raw, "true") if pc.all(known, min_count=0).as_py() else None
    if not (pa.types.is_integer(type_) or type_ == pa.float64()):
        return None
    try:
        values = pc.cast(raw, type_)
    except pa.ArrowInvalid:
        return None
    odd = type_ == pa.float64() and pc.any(pc.invert(pc.is_finite(values)), min_count=0).as_py()
    return None if odd else values


def coalesce(columns: Sequence[pa.Array]) -> pa.Array:
    """The first value of each row that is not null."""
    return columns[0] if len(columns) == 1 else pc.coalesce(*map(materialize_array, columns))

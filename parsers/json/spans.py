"""Columns of JSON objects → columns of the texts of declared members, by kernels, with copies of nothing but what is wanted.

A string is its characters, anything else its JSON text without white space between its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.scanner.texts import Texts, owned_array, views_of
from parsers.json.convert import Convert, MisfitError, converter
from parsers.json.paths import JsonPath
from parsers.json.rows import decode
from parsers.json.scalars import scalars

if TYPE_CHECKING:
    import numpy as np

    Bools = np.ndarray[Any, Any]

MOST_TRIES = 256
"""Sets of paths whose tries a process keeps."""

_SLACK = 16
"""Bytes behind a column's texts that a copy in blocks may overwrite."""

_OWN: tuple[str, ...] = ()
"""The key of a node's own leaf, which no name or place equals."""


class Spans(NamedTuple):
    """Where declared members lie in the texts of a column."""

    texts: Texts
    starts: Any
    """int32[paths, n], relative to each text; -1 where there is none."""

    ends: Any
    rooms: Any
    """int64[paths]: bytes that all values of each have at most."""

    nothing: pa.StringArray
    """The texts of a member that no object has."""

    def without(self, rows: Bools) -> Spans:
        """The spans without those of some rows."""
        if self.starts is not None and rows.any():
            self.starts[:, rows] = -1
        return self

    def texts_of(self, path: int, reasons: dict[int, str], name: str) -> pa.StringArray:
        """The member's values as texts; rows that cannot be one are noted."""
        import numpy as np

        from parsers.json.text_kernel import gather_values

        room = int(self.rooms[path])
        if not room:
            return self.nothing
        starts, ends, count = self.starts[path], self.ends[path], len(self.starts[path])
        out, bounds = np.empty(room + _SLACK, np.uint8), np.zeros(count + 1, np.int32)
        valid, hard = np.empty(count, np.uint8), np.empty(count, np.int64)
        at = np.uint64(out.ctypes.data)
        nulls, many = gather_values(self.texts.address, self.texts.length, starts, ends, at, bounds[1:], valid, hard)
        bitmap = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls else None
        data = pa.py_buffer(out).slice(0, int(bounds[-1]))
        texts = pa.Array.from_buffers(pa.string(), count, [bitmap, pa.py_buffer(bounds), data])
        if not many:
            return texts
        rows = hard[:many]
        raw = owned_array(views_of(starts[rows], ends[rows], self.texts.at(rows)))
        return overlaid(texts, rows, _distinct(rows.tolist(), raw, pa.string(), converter(pa.string()), reasons, name))

    def values_of(self, path: int, type_: pa.DataType, reasons: dict[int, str], name: str) -> pa.Array:
        """The member's values as a type: all at once where they are plain, else each distinct text converted in Python."""
        from parsers.json.span_kernel import SCALAR, TEXT

        starts, ends = self.starts[path].copy(), self.ends[path].copy()
        kinds = _kinds(self.texts, starts, ends)
        if (kinds <= SCALAR).all() and not (kinds == TEXT).any():
            values = scalars(owned_array(views_of(starts, ends, self.texts)), type_)
            if values is not None:
                return values
        raw = owned_array(views_of(self.starts[path], self.ends[path], self.texts))
        return _distinct(range(len(raw)), raw, type_, converter(type_), reasons, name)


def spans(texts: pa.StringArray, paths: Sequence[JsonPath], odd: Bools) -> Spans:
    """Find paths in objects. Rows that are ``odd`` are passed over; those that need Python become odd."""
    import numpy as np

    from parsers.json.span_kernel import find

    found = Texts.of(texts)
    if not paths:
        return Spans(found, None, None, None, pa.nulls(len(texts), pa.string()))
    trie = _trie(tuple(paths))
    starts = np.full((len(paths), len(texts)), -1, np.int32)
    ends, seen = starts.copy(), np.full(len(trie.first) - 1, -1, np.int64)
    nodes, place = np.zeros(trie.depth + 1, np.int64), np.zeros(trie.depth + 1, np.int64)
    find(
        found.address,
        found.length,
        trie.arrays,
        trie.bounds,
        np.uint64(trie.names.ctypes.data),
        nodes,
        place,
        seen,
        starts,
        ends,
        odd,
    )
    rooms = (ends - starts).sum(axis=1, dtype=np.int64)
    return Spans(found, starts, ends, rooms, pa.nulls(len(texts), pa.string())).without(odd)


def overlaid(column: pa.Array, rows: Any, values: pa.Array) -> pa.Array:
    """The column with other values in some rows (int64[m])."""
    import numpy as np

    place = np.arange(len(column))
    place[rows] = len(column) + np.arange(len(rows))
    return pa.concat_arrays([column, values]).take(pa.array(place))


# ── The trie ──────────────────────────────────────────────────────────────────────────────────────


class _Trie(NamedTuple):
    """Paths as a tree in flat arrays, as the kernel reads it: the members of node n are ``first[n]`` to ``first[n + 1]``."""

    first: Any
    slots: Any
    """The members by their names."""

    places: Any
    """Of each member, its place in an array, or -1."""

    leaves: Any
    """The number of the path that ends here, or -1."""

    children: Any
    """The member's own node, or -1."""

    has_names: Any
    has_places: Any
    bounds: Any
    """Where the members' names lie in ``names``; that of a place has no character."""

    names: Any
    depth: int

    @property
    def arrays(self) -> tuple[Any, ...]:
        return self[:7]


@lru_cache(maxsize=MOST_TRIES)
def _trie(paths: tuple[JsonPath, ...]) -> _Trie:
    import numpy as np

    from parsers.json.scan import slots_of

    nodes: list[Mapping[Any, Any]] = [_tree(paths)]
    first, members, depth = [0], [], 1
    for node in nodes:  # which grows on the way
        for key, below in node.items():
            if key == _OWN:
                continue
            inner = any(one != _OWN for one in below)
            members.append((key, below.get(_OWN, -1), len(nodes) if inner else -1))
            if inner:
                nodes.append(below)
        first.append(len(members))
    depth = max(map(len, paths), default=1)
    names = [b"" if isinstance(key, int) else key.encode() for key, _, _ in members]
    return _Trie(
        np.array(first, np.int64),
        slots_of(first, names),
        np.array([key if isinstance(key, int) else -1 for key, _, _ in members], np.int64),
        np.array([leaf for _, leaf, _ in members], np.int64),
        np.array([child for _, _, child in members], np.int64),
        np.array([any(isinstance(key, str) for key in node) for node in nodes]),
        np.array([any(isinstance(key, int) for key in node) for node in nodes]),
        np.cumsum([0, *map(len, names)]).astype(np.int64),
        np.frombuffer(b"".join(names) or b"\0", np.uint8),
        depth,
    )


def _tree(paths: Sequence[JsonPath]) -> dict[Any, Any]:
    tree: dict[Any, Any] = {}
    for number, path in enumerate(paths):
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[_OWN] = number
    return tree


# ── Values ────────────────────────────────────────────────────────────────────────────────────────


def _kinds(texts: Texts, starts: Any, ends: Any) -> Any:
    import numpy as np

    from parsers.json.span_kernel import classify

    kinds = np.empty(len(starts), np.uint8)
    classify(texts.address, starts, ends, kinds)
    return kinds


def _distinct(
    rows: Sequence[int], raw: pa.Array, type_: pa.DataType, convert: Convert, reasons: dict[int, str], name: str
) -> pa.Array:
    """A Python call for each distinct value: escapes, and values that are few."""
    encoded = raw.dictionary_encode()
    values, wrong = [], {}
    for number, text in enumerate(encoded.dictionary.to_pylist()):
        try:
            value = decode(text)
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


def present(columns: Sequence[pa.Array]) -> pa.Array:
    """The first value that is there."""
    return columns[0] if len(columns) == 1 else pc.coalesce(*columns)

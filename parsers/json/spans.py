"""Columns of JSON objects → columns of the texts of declared members, by a kernel, with copies of nothing but what is wanted.

A string is its characters, anything else its JSON text without white space between its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import LARGEST, Texts, owned_array, view_array, views_of
from parsers.json.convert import Convert, MisfitError, converter
from parsers.json.paths import JsonPath
from parsers.json.rows import decode
from parsers.json.scalars import scalars

if TYPE_CHECKING:
    import numpy as np

    Bools = np.ndarray[Any, Any]

MOST_TRIES = 256
"""Sets of paths whose tries a process keeps."""

_SLACK = 32
"""Bytes behind the texts that a copy in blocks may overwrite."""

_OWN: tuple[str, ...] = ()
"""The key of a node's own leaf, which no name or place equals."""


class Spans(NamedTuple):
    """Where declared members lie in the texts of a column, and their values as texts."""

    texts: Texts
    starts: Any
    """int32[paths, n], relative to each text; -1 where there is none."""

    ends: Any
    valid: Any
    """uint8[paths, n]: which have a text, and which are left to Python."""

    views: Any
    """uint32[paths, n, 4]: views into ``written``, 0 where there is no text."""

    written: pa.Buffer

    nothing: pa.StringArray
    """The texts of a member that no object has."""

    def texts_of(self, path: int, reasons: dict[int, str], name: str) -> pa.Array:
        """The member's values as texts (``string_view``); rows that cannot be one are noted."""
        import numpy as np

        from parsers.json.walk_kernel import HARD, THERE

        valid = self.valid[path]
        most = valid.max(initial=0)
        if not most:
            return self.nothing
        there = valid if most == THERE else valid == THERE
        texts = view_array(self.views[path], None if there.all() else there, self.written)
        if most != HARD:
            return texts
        rows = np.flatnonzero(valid == HARD)
        raw = owned_array(views_of(self.starts[path][rows], self.ends[path][rows], self.texts.at(rows)))
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


def spans(texts: pa.Array, paths: Mapping[JsonPath, bool], odd: Bools) -> Spans:
    """Find paths in objects; those that say so give texts. Rows that are ``odd`` are passed over; those that are no objects, or
    need Python, become odd."""
    import numpy as np

    from parsers.json.walk_kernel import walk

    found, nothing = Texts.of(texts), pa.nulls(len(texts), pa.string())
    if not paths:
        return Spans(found, None, None, None, None, pa.py_buffer(b""), nothing)
    trie, count = _trie(tuple(paths)), (len(paths), len(texts))
    starts, ends = np.full(count, -1, np.int32), np.empty(count, np.int32)
    valid, views = np.zeros(count, np.uint8), np.zeros((*count, 4), np.uint32)
    longest, total = int(found.length.max(initial=0)), int(np.maximum(found.length, 0).sum())
    room = min(total * trie.overlap, LARGEST)
    out = np.empty(room + _SLACK, np.uint8)
    stack = (np.zeros(longest + 2, bool), *np.zeros((3, trie.depth + 2), np.int64), np.full(len(trie.first) - 1, -1, np.int64))
    given = (starts, ends, np.uint64(views.ctypes.data), valid, np.array(list(paths.values())))
    at, names = np.uint64(out.ctypes.data), np.uint64(trie.names.ctypes.data)
    used = walk(found.address, found.length, trie.arrays, names, stack, given, trie.overlap, at, room, odd)
    return Spans(found, starts, ends, valid, views, pa.py_buffer(out).slice(0, used), nothing)


def overlaid(column: pa.Array, rows: Any, values: pa.Array) -> pa.Array:
    """The column with other values in some rows (int64[m]); views become strings."""
    import numpy as np

    place = np.arange(len(column))
    place[rows] = len(column) + np.arange(len(rows))
    return pa.concat_arrays([owned_array(column), values]).take(pa.array(place))


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
    overlap: int
    """Leaves that lie around the same byte, at most."""

    @property
    def arrays(self) -> tuple[Any, ...]:
        return self[:8]


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
        max(sum(path[: len(other)] == other for other in paths) for path in paths),
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
    return columns[0] if len(columns) == 1 else pc.coalesce(*map(owned_array, columns))

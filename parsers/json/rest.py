"""What a JSON object holds beside the declared members, as it was written.

A kernel copies it out of all rows at once; rows in which a member's name has an escape are read in Python.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

import pyarrow as pa

from etl.columns.texts import Texts
from parsers.json.paths import JsonPath

_SPACE = re.compile(r"[ \t\r\n]*")
_SCAN: Any = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str).scan_once  # type: ignore[attr-defined]

Tree = Mapping[str, "Tree | None"]
"""Declared members; None is a leaf."""


def tree_of(paths: Iterable[JsonPath], dotted: Iterable[str] = ()) -> Tree:
    """Paths → tree, and names that count as members with dots in them. What a path takes out of an array stays."""
    tree: dict[str, Any] = {}
    for path in [*paths, *((name,) for name in dotted)]:
        if any(isinstance(part, int) for part in path):
            continue
        *parents, last = map(str, path)
        node: dict[str, Any] | None = tree
        for parent in parents:
            node = None if node is None else node.setdefault(parent, {})
        if node is not None:
            node[last] = None
    return tree


class Trie(NamedTuple):
    """A tree in flat arrays, as the kernel reads it."""

    first: Any
    """int64[nodes + 1]: the members of node n are ``first[n]`` to ``first[n + 1]``; node 0 is the root."""

    bounds: Any
    """int64[members + 1]: where their names lie in ``names``."""

    names: Any
    children: Any
    """int64[members]: the member's node, -1 for a leaf."""

    depth: int


def trie_of(tree: Tree) -> Trie:
    """Tree → arrays, level by level."""
    import numpy as np

    nodes, depths = [tree], [1]
    first, names, children = [0], [], []
    for at, node in enumerate(nodes):  # which grows on the way
        for name, child in node.items():
            names.append(name.encode())
            children.append(-1 if child is None else len(nodes))
            if child is not None:
                nodes.append(child)
                depths.append(depths[at] + 1)
        first.append(len(names))
    bounds = np.cumsum([0, *map(len, names)]).astype(np.int64)
    text = np.frombuffer(b"".join(names) or b"\0", np.uint8)
    return Trie(np.array(first, np.int64), bounds, text, np.array(children, np.int64), max(depths))


def rest_column(texts: pa.StringArray, tree: Tree, reasons: dict[int, str]) -> pa.StringArray:
    """The undeclared members of valid objects; null where there are none and in rows that have a reason already."""
    kinds, rest = by_kernel(texts, trie_of(tree), list(reasons))
    if hard := _rows(kinds):
        rest = _replaced(rest, dict(zip(hard, _one_by_one(texts, tree, hard, reasons), strict=True)))
    return rest


def by_kernel(texts: pa.StringArray, trie: Trie, failed: list[int]) -> tuple[Any, pa.StringArray]:
    """What the kernel makes of the texts, and what became of each; rows that failed are left out."""
    import numpy as np

    from parsers.json.rest_kernel import KEPT, undeclared

    found = Texts.of(texts)
    found.length[failed] = -1
    total = int(np.maximum(found.length, 0).sum())
    out, ends = np.empty(2 * total + SLACK * len(texts), np.uint8), np.zeros(len(texts) + 1, np.int64)
    kinds, stack = np.empty(len(texts), np.uint8), np.zeros((3, trie.depth + 1), np.int64)
    at = np.uint64(out.ctypes.data)
    undeclared(
        found.address,
        found.length,
        trie.first,
        trie.bounds,
        np.uint64(trie.names.ctypes.data),
        trie.children,
        stack,
        at,
        ends[1:],
        kinds,
    )
    bits = pa.py_buffer(np.packbits(kinds == KEPT, bitorder="little"))
    data = pa.py_buffer(out).slice(0, int(ends[-1]))
    return kinds, pa.Array.from_buffers(pa.string(), len(texts), [bits, pa.py_buffer(ends.astype(np.int32)), data])


SLACK = 18
"""Bytes that the kernel may write for each text beyond twice its length."""


def _rows(kinds: Any) -> list[int]:
    import numpy as np

    from parsers.json.rest_kernel import HARD

    return np.flatnonzero(kinds == HARD).tolist()


def _one_by_one(texts: pa.StringArray, tree: Tree, rows: list[int], reasons: dict[int, str]) -> list[str | None]:
    rest: list[str | None] = []
    for row in rows:
        try:
            rest.append(rest_of(texts[row].as_py(), tree))
        except RecursionError:
            rest.append(None)
            reasons[row] = "is nested too deeply"
    return rest


def _replaced(texts: pa.StringArray, values: Mapping[int, str | None]) -> pa.StringArray:
    import numpy as np

    place = np.arange(len(texts))
    place[list(values)] = len(texts) + np.arange(len(values))
    return pa.concat_arrays([texts, pa.array(list(values.values()), pa.string())]).take(pa.array(place))


# ── In Python ─────────────────────────────────────────────────────────────────────────────────────


def rest_of(text: str, declared: Tree) -> str | None:
    """The members of a valid JSON object that nobody declared, or None when there are none."""
    return _rest(text, 0, declared)[0]


def _rest(text: str, at: int, declared: Tree) -> tuple[str | None, int]:
    """Object that begins at ``at`` → its undeclared members, and where it ends."""
    kept = []
    at = _skip(text, at + 1)
    while text[at] != "}":
        start = at if text[at] == '"' else _skip(text, at + 1)
        name, colon = scanstring(text, start + 1, True)
        value = _skip(text, _skip(text, colon) + 1)
        node = declared.get(name, {})
        if node and text[value] == "{":
            inner, end = _rest(text, value, node)
            if inner is not None:
                kept.append(f"{text[start:colon]}:{inner}")
        else:
            _, end = _SCAN(text, value)
            if node is not None and not node:
                kept.append(text[start:end])
        at = _skip(text, end)
    return _joined(kept), at + 1


def _joined(members: list[str]) -> str | None:
    return "{" + ",".join(members) + "}" if members else None


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at

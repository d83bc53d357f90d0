"""Declared members as tries in flat arrays, which kernels read: one of paths into objects and arrays, one of names alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from parsers.json.member_paths import JsonPath

MAX_TRIES = 256
"""Sets of paths whose tries a process caches."""

_LEAF: tuple[str, ...] = ()
"""The key of a node's own leaf, which no name or index equals."""


class MemberTrie(NamedTuple):
    """Paths in flat arrays, as the kernel of declared members reads them.

    Node n has the members ``first[n]`` to ``first[n + 1]``.
    """

    first: Any
    slots: Any
    """The members by their names."""

    positions: Any
    """Of each member, its position in an array, or -1."""

    leaves: Any
    """The number of the path that ends here, or -1."""

    children: Any
    """The member's own node, or -1."""

    has_names: Any
    has_positions: Any
    bounds: Any
    """Where the members' names lie in ``names``; that of a position has no character."""

    names: Any
    depth: int
    overlap: int
    """Maximum number of leaves that contain the same byte of a text."""

    @property
    def arrays(self) -> tuple[Any, ...]:
        return self[:8]


@lru_cache(maxsize=MAX_TRIES)
def member_trie(paths: tuple[JsonPath, ...]) -> MemberTrie:
    import numpy as np

    from parsers.json.lenient_tokens import slots_of

    nodes: list[Mapping[Any, Any]] = [_path_tree(paths)]
    first, members, depth = [0], [], 1
    for node in nodes:  # which grows on the way
        for key, below in node.items():
            if key == _LEAF:
                continue
            inner = any(one != _LEAF for one in below)
            members.append((key, below.get(_LEAF, -1), len(nodes) if inner else -1))
            if inner:
                nodes.append(below)
        first.append(len(members))
    depth = max(map(len, paths), default=1)
    names = [b"" if isinstance(key, int) else key.encode() for key, _, _ in members]
    return MemberTrie(
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


def _path_tree(paths: Sequence[JsonPath]) -> dict[Any, Any]:
    tree: dict[Any, Any] = {}
    for number, path in enumerate(paths):
        node = tree
        for part in path:
            node = node.setdefault(part, {})
        node[_LEAF] = number
    return tree


# ── Names ─────────────────────────────────────────────────────────────────────────────────────────

Tree = Mapping[str, "Tree | None"]
"""Declared members by name; None: the whole member is declared."""


def declared_tree(paths: Iterable[JsonPath], dotted: Iterable[str] = ()) -> Tree:
    """The tree of paths, and of names with dots that count as members. Paths into arrays have no part in it: the array stays."""
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


class NameTrie(NamedTuple):
    """A tree of names in flat arrays, as the kernel of undeclared members reads it."""

    first: Any
    """int64[nodes + 1]: the members of node n are ``first[n]`` to ``first[n + 1]``; node 0 is the root."""

    bounds: Any
    """int64[members + 1]: where their names lie in ``names``."""

    names: Any
    children: Any
    """int64[members]: the member's node, -1 for a leaf."""

    depth: int


def name_trie(tree: Tree) -> NameTrie:
    """The tree as arrays, level by level."""
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
    return NameTrie(np.array(first, np.int64), bounds, text, np.array(children, np.int64), max(depths))

"""What a JSON object holds beside the declared members, as it was written.

A Python loop over rows and their members: no columnar reader gives back the text it skipped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

_SPACE = re.compile(r"[ \t\r\n]*")
_SCAN: Any = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str).scan_once  # type: ignore[attr-defined]

Tree = Mapping[str, "Tree | None"]
"""Declared members; None is a leaf."""


def tree_of(names: Iterable[str]) -> Tree:
    """Dotted names → tree. A dotted name also counts as a member whose name has dots in it."""
    tree: dict[str, Any] = {}
    for name in names:
        *parents, last = name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = None
        tree.setdefault(name, None)
    return tree


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

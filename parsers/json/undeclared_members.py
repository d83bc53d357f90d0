"""The undeclared members of JSON objects, as they were written: the field that the option ``rest`` names.

A kernel copies them out of all rows; Python reads the rows in which a member's name has an escape.
"""

from __future__ import annotations

import json
import re
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

import pyarrow as pa

from etl.columns.texts import Texts
from parsers.common.view_values import replace_rows
from parsers.json.tries import NameTrie, Tree, name_trie

_SPACE = re.compile(r"[ \t\r\n]*")
_SCAN: Any = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str).scan_once  # type: ignore[attr-defined]


def rest_column(texts: pa.StringArray, tree: Tree, reasons: dict[int, str]) -> pa.StringArray:
    """The undeclared members of valid objects; null where there are none and in rows that have a reason already."""
    kinds, rest = copy_undeclared(texts, name_trie(tree), list(reasons))
    rows = _rows_for_python(kinds)
    return replace_rows(rest, rows, pa.array(_read_in_python(texts, tree, rows, reasons), pa.string())) if rows else rest


def copy_undeclared(texts: pa.StringArray, trie: NameTrie, failed: list[int]) -> tuple[Any, pa.StringArray]:
    """How each row ended (uint8[n]), and the texts of undeclared members; null in rows that ``failed`` before."""
    import numpy as np

    from parsers.json import undeclared_kernel

    found = Texts.of(texts)
    found.length[failed] = -1
    total = int(np.maximum(found.length, 0).sum())
    out, ends = np.empty(2 * total + SLACK * len(texts), np.uint8), np.zeros(len(texts) + 1, np.int64)
    kinds, stack = np.empty(len(texts), np.uint8), np.zeros((3, trie.depth + 1), np.int64)
    at = np.uint64(out.ctypes.data)
    undeclared_kernel.copy_undeclared(
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
    bits = pa.py_buffer(np.packbits(kinds == undeclared_kernel.KEPT, bitorder="little"))
    data = pa.py_buffer(out).slice(0, int(ends[-1]))
    return kinds, pa.Array.from_buffers(pa.string(), len(texts), [bits, pa.py_buffer(ends.astype(np.int32)), data])


SLACK = 18
"""Bytes that the kernel may write for each text beyond twice its length."""


def _rows_for_python(kinds: Any) -> list[int]:
    import numpy as np

    from parsers.json.undeclared_kernel import IN_PYTHON

    return np.flatnonzero(kinds == IN_PYTHON).tolist()


def _read_in_python(texts: pa.StringArray, tree: Tree, rows: list[int], reasons: dict[int, str]) -> list[str | None]:
    rest: list[str | None] = []
    for row in rows:
        try:
            rest.append(undeclared_text(texts[row].as_py(), tree))
        except RecursionError:
            rest.append(None)
            reasons[row] = "is nested too deeply"
    return rest


# ── In Python ─────────────────────────────────────────────────────────────────────────────────────


def undeclared_text(text: str, declared: Tree) -> str | None:
    """The undeclared members of a valid JSON object, None when there are none."""
    return _read_object(text, 0, declared)[0]


def _read_object(text: str, at: int, declared: Tree) -> tuple[str | None, int]:
    """Object that begins at ``at`` → its undeclared members, and where it ends."""
    remaining_members = []
    at = _skip(text, at + 1)
    while text[at] != "}":
        start = at if text[at] == '"' else _skip(text, at + 1)
        name, colon = scanstring(text, start + 1, True)
        value = _skip(text, _skip(text, colon) + 1)
        node = declared.get(name, {})
        if node and text[value] == "{":
            inner, end = _read_object(text, value, node)
            if inner is not None:
                remaining_members.append(f"{text[start:colon]}:{inner}")
        else:
            _, end = _SCAN(text, value)
            if node is not None and not node:
                remaining_members.append(text[start:end])
        at = _skip(text, end)
    return _join(remaining_members), at + 1


def _join(members: list[str]) -> str | None:
    return "{" + ",".join(members) + "}" if members else None


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at

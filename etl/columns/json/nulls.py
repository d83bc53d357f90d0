"""Removes null members from JSON lines in one pass over the bytes: a member is undone when its value is null.

The input is that of `json_lines`: valid JSON, no white space between tokens, one value a line.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel

DEEPEST = 64
"""Nesting of objects and lists; nulls in deeper ones stay."""

_QUOTE, _ESCAPE, _COMMA, _NEWLINE, _N = (np.uint8(ord(text)) for text in '"\\,\nn')
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = (np.uint8(ord(text)) for text in "{}[]")


@kernel
def leave_out(text: Any, out: Any, ends: Any, positions: Any, marks: Any) -> Any:
    """``text`` → ``out`` without null members and without objects that had only such; the ends of its lines → ``ends``.

    Returns the number of bytes written. ``positions`` is int64[2, DEEPEST + 1] and ``marks`` bool[2, DEEPEST + 1], all 0: for
    each depth, ``begins`` is where the current member begins, its comma included, and ``firsts`` where the first member of its
    object begins.
    """
    begins, firsts, is_object, shortened = positions[0], positions[1], marks[0], marks[1]
    depth, at, to, line = 0, 0, 0, 0
    while at < len(text):
        byte = text[at]
        level = min(depth, DEEPEST)
        watched = 0 < depth < DEEPEST and is_object[level]
        if byte == _QUOTE:
            out[to] = byte
            at, to = at + 1, to + 1
            while text[at] != _QUOTE:
                if text[at] == _ESCAPE:
                    out[to] = text[at]
                    at, to = at + 1, to + 1
                out[to] = text[at]
                at, to = at + 1, to + 1
        elif byte == _N and watched:
            to, at = begins[level], at + 4
            shortened[level] = True
            continue
        elif byte == _COMMA and watched:
            begins[level] = to
            at += 1
            if to != firsts[level]:
                out[to] = byte
                to += 1
            continue
        elif byte in (_OPEN, _OPEN_LIST):
            depth += 1
            if depth < DEEPEST:
                begins[depth] = firsts[depth] = to + 1
                is_object[depth], shortened[depth] = byte == _OPEN, False
        elif byte in (_CLOSE, _CLOSE_LIST):
            depth -= 1
            empty = watched and shortened[level] and to == firsts[level]
            if empty and depth > 0 and is_object[depth]:
                to, at = begins[depth], at + 1
                shortened[depth] = True
                continue
        out[to] = byte
        at, to = at + 1, to + 1
        if byte == _NEWLINE:
            ends[line] = to
            line += 1
    return to

"""Leaving nulls out of JSON lines: one pass over the bytes, which takes back a member when its value turns out to be null.

The bytes are those of `json_lines`: sound JSON, no blanks between tokens, one value a line.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from etl.columns.kernels import kernel

DEEPEST = 64
"""Objects and lists inside each other; what lies deeper is copied as it is."""

_QUOTE, _ESCAPE, _COMMA, _NEWLINE, _N = (np.uint8(ord(text)) for text in '"\\,\nn')
_OPEN, _CLOSE, _OPEN_LIST, _CLOSE_LIST = (np.uint8(ord(text)) for text in "{}[]")


@kernel
def leave_out(text: Any, out: Any, ends: Any, places: Any, marks: Any) -> Any:
    """``text`` → ``out`` without members that are null and objects that had no others; where its lines end → ``ends``.

    Gives how many bytes were written. ``places`` is int64[2, DEEPEST + 1] and ``marks`` bool[2, DEEPEST + 1], all 0.
    ``begins`` holds where the member at work begins, its comma included, at each depth; ``firsts`` where the first one of its
    object does.
    """
    begins, firsts, is_object, shortened = places[0], places[1], marks[0], marks[1]
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

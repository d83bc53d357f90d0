"""A tree as a pattern of ``re`` over bytes, in which a character is a well-formed UTF-8 sequence.

A greedy or lazy loop over all characters beyond ASCII takes any bytes one by one, as the scanner does, but does not stop
inside a character; what neighbours a place is one byte.
"""

from __future__ import annotations

import re
from itertools import count

from etl.scanner import masks
from etl.scanner.tree import Anchor, Capture, Chars, Choice, Group, LookAround, Node, Repeat, Sequence
from etl.scanner.tree_analysis import is_always_found, one_byte
from etl.scanner.utf8 import byte_sequences, has_all_wide, wide_ranges

_OUTSIDE = r"(?![\x80-\xbf])"
"""Not inside a character."""

_SUFFIX = {"greedy": "", "lazy": "?", "possessive": "+"}
_ANCHORS = {"^": "(?m:^)", "$": "(?m:$)", "\\A": "\\A", "\\z": "\\Z", "\\b": "\\b", "\\B": "\\B"}


def byte_pattern(tree: Node) -> re.Pattern[bytes] | None:
    """None for atomic groups and possessive repeats, which ``re`` does not match correctly."""
    try:
        text = _text(tree)
    except NotImplementedError:
        return None
    names = count()
    numbered = re.sub(r"\(\?P<c>", lambda _: f"(?P<c{next(names)}>", f"{_OUTSIDE}(?:{text})")
    return re.compile(numbered.encode("latin-1"), re.DOTALL)


def _set(mask: int) -> str:
    """A class of the bytes of a mask."""
    listed = "".join(f"\\x{byte:02x}" for byte in range(256) if mask >> byte & 1)
    return f"[{listed}]" if listed else r"[^\x00-\xff]"


def _chars(node: Chars) -> str:
    ways = [_set(node.of.ascii)] if node.of.ascii else []
    for first, last in wide_ranges(node.of):
        ways += ["".join(f"[\\x{a:02x}-\\x{b:02x}]" for a, b in one) for one in byte_sequences(first, last)]
    return f"(?:{'|'.join(ways)})" if ways else _set(0)


def _repeat(node: Repeat) -> str:
    if node.kind == "possessive":
        raise NotImplementedError
    part = f"(?:{_text(node.part)})"
    bounds = f"{{{node.minimum},{'' if node.maximum is None else node.maximum}}}"
    if node.maximum is None and isinstance(node.part, Chars) and has_all_wide(node.part.of):
        return f"(?:{part}{{{node.minimum}}}){_set(node.part.of.ascii | masks.NON_ASCII)}*{_SUFFIX[node.kind]}{_OUTSIDE}"
    return f"{part}{bounds}{_SUFFIX[node.kind]}"


def _look(node: LookAround) -> str:
    if is_always_found(node):
        return _set(0) if node.negative else ""
    mask = one_byte(node.part, ahead=node.ahead)
    assert mask is not None
    mask = masks.ANY & ~mask if node.negative else mask
    if node.ahead:
        return f"(?={_set(mask & masks.BYTES)}{'|' + chr(92) + 'Z' if mask & masks.EDGE else ''})"
    return f"(?:(?<={_set(mask & masks.BYTES)}){'|' + chr(92) + 'A' if mask & masks.EDGE else ''})"


def _text(node: Node) -> str:
    match node:
        case Chars():
            return _chars(node)
        case Sequence(parts):
            return "".join(f"(?:{_text(part)})" for part in parts)
        case Choice(parts):
            return "|".join(_text(part) for part in parts)
        case Repeat():
            return _repeat(node)
        case Capture(part):
            return f"(?P<c>{_text(part)})"
        case Group(part):
            return f"(?:{_text(part)})"
        case Anchor(kind):
            return _ANCHORS[kind]
        case LookAround():
            return _look(node)
    raise NotImplementedError

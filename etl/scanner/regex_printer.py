"""Prints a syntax tree as a regular expression for RE2 or the package ``regex``."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from etl.scanner.char_class import CharClass
from etl.scanner.tree import (
    Anchor,
    Atomic,
    Backreference,
    Capture,
    Chars,
    Choice,
    Group,
    LookAround,
    Node,
    Repeat,
    Sequence,
    walk,
)
from etl.scanner.tree_analysis import one_byte
from etl.scanner.utf8 import has_all_wide

_ANCHORS = {"^": "(?m:^)", "$": "(?m:$)", "\\A": "\\A", "\\z": "\\z", "\\b": "\\b", "\\B": "\\B"}
_BACKTRACKING_ANCHORS = {**_ANCHORS, "\\z": "\\Z", "\\b": "(?a:\\b)", "\\B": "(?a:\\B)"}
"""``regex`` matches Unicode, for classes such as ``\\p{L}``; word characters are ASCII all the same."""

_NO_CHARACTER, _OUTSIDE = r"\udc80-\udcff", r"(?![\udc80-\udcbf])"
"""Bytes that are not UTF-8, as Python decodes them (PEP 383), and an assertion that the position is not inside a character."""

_SUFFIX = {"greedy": "", "lazy": "?", "possessive": "+"}


def group_name(index: int) -> str:
    """The engine's name for the n-th capture."""
    return f"c{index}"


def format_regex(node: Node, *, backtracking: bool = False, raw: bool = False) -> str:
    """The regular expression; its n-th capture is named `group_name(n)`.

    ``backtracking`` prints it for the package ``regex``; RE2 has no look-around, atomic groups and back-references.
    ``raw``, for that package too, treats bytes that are not UTF-8 as the scanner does: no class contains them, loops over all
    characters beyond ASCII pass over them, and a look-around of one character takes such a byte for a character.
    """
    return f"(?:\\A|{_OUTSIDE})(?:{_RawWriter(node).text(node)})" if raw else _Writer(node, backtracking).text(node)


class _Writer:
    """Numbers captures in the order in which it prints them, which is the order of `captures`."""

    def __init__(self, root: Node, backtracking: bool) -> None:
        self.numbers = count()
        self.backtracking = backtracking
        self.referred = {node.group for node in walk(root) if isinstance(node, Backreference)}
        self.fields: dict[str, int] = {}

    def text(self, node: Node) -> str:
        return _WRITERS[type(node)](self, node)

    def atom(self, node: Node) -> str:
        """Text that a quantifier can follow."""
        text = self.text(node)
        return text if isinstance(node, Chars) else f"(?:{text})"

    def chars(self, node: Chars) -> str:
        return f"[^\\x00-{chr(0x10FFFF)}]" if node.of.empty else node.of.text()

    def sequence(self, node: Sequence) -> str:
        return "".join(f"(?:{self.text(part)})" if isinstance(part, Choice) else self.text(part) for part in node.parts)

    def choice(self, node: Choice) -> str:
        return "|".join(self.text(part) for part in node.parts)

    def repeat(self, node: Repeat) -> str:
        minimum, maximum = node.minimum, node.maximum
        simple = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((minimum, maximum))
        bounds = simple or (f"{{{minimum}}}" if minimum == maximum else f"{{{minimum},{'' if maximum is None else maximum}}}")
        return f"{self.atom(node.part)}{bounds}{_SUFFIX[node.kind]}"

    def capture(self, node: Capture) -> str:
        number = next(self.numbers)
        self.fields.setdefault(node.field.partition("#")[0], number)
        return f"(?P<{group_name(number)}>{self.text(node.part)})"

    def group(self, node: Group) -> str:
        if self.backtracking and node.number in self.referred:
            return f"(?P<g{node.number}>{self.text(node.part)})"
        return f"(?:{self.text(node.part)})"

    def anchor(self, node: Anchor) -> str:
        return (_BACKTRACKING_ANCHORS if self.backtracking else _ANCHORS)[node.kind]

    def look_around(self, node: LookAround) -> str:
        return f"(?{'' if node.ahead else '<'}{'!' if node.negative else '='}{self.text(node.part)})"

    def atomic(self, node: Atomic) -> str:
        return f"(?>{self.text(node.part)})"

    def backreference(self, node: Backreference) -> str:
        name = f"g{node.group}" if isinstance(node.group, int) else group_name(self.fields.get(node.group, -1))
        return f"(?P={name})"


class _RawWriter(_Writer):
    """For texts with bytes that are not UTF-8."""

    def __init__(self, root: Node) -> None:
        super().__init__(root, backtracking=True)
        self.beside = False
        """Whether a look-around of one character is being printed."""

    def chars(self, node: Chars) -> str:
        return super().chars(node) if self.beside or not node.of.others else _characters(node.of)

    def repeat(self, node: Repeat) -> str:
        if node.maximum is not None or not isinstance(node.part, Chars) or not has_all_wide(node.part.of):
            return super().repeat(node)
        minimum = f"{self.chars(node.part)}{{{node.minimum}}}"
        return f"{minimum}{super().chars(node.part)}*{_SUFFIX[node.kind]}{_OUTSIDE}"

    def look_around(self, node: LookAround) -> str:
        outer, self.beside = self.beside, self.beside or one_byte(node.part, ahead=node.ahead) is not None
        try:
            return super().look_around(node)
        finally:
            self.beside = outer


def _characters(of: CharClass) -> str:
    """The class without bytes that are not UTF-8."""
    text = of.text()
    return f"{text[:-1]}{_NO_CHARACTER}]" if text.startswith("[") else f"[^{_NO_CHARACTER}]"


_WRITERS: dict[type, Callable[[_Writer, Any], str]] = {
    Chars: lambda writer, node: writer.chars(node),
    Sequence: _Writer.sequence,
    Choice: _Writer.choice,
    Repeat: lambda writer, node: writer.repeat(node),
    Capture: _Writer.capture,
    Group: _Writer.group,
    Anchor: _Writer.anchor,
    LookAround: lambda writer, node: writer.look_around(node),
    Atomic: _Writer.atomic,
    Backreference: _Writer.backreference,
}

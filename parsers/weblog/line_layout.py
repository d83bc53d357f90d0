"""Parts of a line → a grok expression for the scanner, and how each capture is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from etl.scanner.pattern_error import PatternError
from etl.scanner.tree import Node
from parsers.grok.compiler import compile_pattern
from parsers.timestamp.formats import EPOCHS, NAMED
from parsers.timestamp.patterns import parse_pattern
from parsers.weblog.format_parts import Kind, Part, Value
from parsers.weblog.ip_expression import IP, ZONE

LINE = "http.request.line"
"""The field of a request line that is not a method, an address and a version."""

ANY, WORD = ".", r'[^\s"]'
QUOTED, BRACKETED = r'(?:[^"\\]|\\.)', r"[^\]]"
"""Expressions of one character: outside, in quotes, in brackets."""

_CLOSING = {'"': '"', "[": "]"}
_CHARS = {"": ANY, '"': QUOTED, "[": BRACKETED}
CAPTURE = re.compile(r"\(\?<(?P<name>[^<>=!]+)>")


@dataclass
class LineLayout:
    """One form of a line."""

    pattern: str
    """A grok expression for the whole line; captures are named as fields are."""

    kinds: dict[str, Kind] = field(default_factory=dict)
    """How the fields are written that are not text."""

    formats: dict[str, Sequence[str]] = field(default_factory=dict)
    """Of times."""

    quoted: set[str] = field(default_factory=set)
    """Texts in quotes, which always take part: their null is an empty text."""

    marked: dict[str, str] = field(default_factory=dict)
    """Texts of optional parts, each with the capture of what comes before it, which is never empty."""

    def tree(self) -> Node:
        """The expression compiled; it must match the whole text."""
        tree = compile_pattern(self.pattern, None, frozenset(), True)
        if isinstance(tree, PatternError):
            raise tree
        return tree

    @property
    def fields(self) -> list[str]:
        """The fields that it captures, without marks."""
        marks = set(self.marked.values())
        return [name for name in dict.fromkeys(CAPTURE.findall(self.pattern)) if name not in marks]


@dataclass(frozen=True)
class Slot:
    """A value and the quote or bracket before it, empty for none."""

    value: Value
    opening: str


def compile_layout(parts: Sequence[Part], time_formats: Sequence[str]) -> LineLayout:
    """The layout of a format. ``time_formats``, if there are any, are those of every time in it."""
    made = LineLayout("")
    known_names: set[str] = set()
    pattern = r"\s*"
    for slot in _slots(parts):
        if isinstance(slot, str):
            pattern += literal(slot)
            continue
        formats = time_formats or slot.value.formats
        expression = drop_repeated(_value_expression(slot, formats), known_names)
        add_kind(slot.value, made, formats)
        _add_quoted(slot, expression, made)
        known_names.update(CAPTURE.findall(expression))
        pattern += expression
    made.pattern = pattern + r"\s*"
    return made


def literal(text: str) -> str:
    """A text as an expression that matches it."""
    return "".join(char if char.isalnum() or not char.isascii() else f"\\{char}" for char in text)


def time_expression(formats: Sequence[str]) -> str:
    """An expression for texts in any of these formats."""
    named = [pattern for text in formats for pattern in NAMED.get(text, (text,))]
    forms = [r"\d+(?:\.\d+)?" if text in EPOCHS else _elements(text) for text in named]
    return f"(?i:{'|'.join(forms)})"


def _elements(pattern: str) -> str:
    """The elements of a pattern, each optional one by itself."""
    return "".join(f"(?:{part.regex}){'?' if part.optional else ''}" for part in parse_pattern(pattern).elements)


def _slots(parts: Sequence[Part]) -> Iterator[str | Slot]:
    """Quotes and brackets around a value become a part of it."""
    left = list(parts)
    for number, part in enumerate(left):
        if isinstance(part, Value):
            yield Slot(part, _opening(left, number))
            continue
        text, following = part, number + 1
        if following < len(left) and _opening(left, following):
            text = text[:-1]
        if number and _opening(left, number - 1):
            text = text[1:]
        if text:
            yield text


def _opening(parts: Sequence[Part], number: int) -> str:
    """The quote or bracket that a value stands in."""
    before = parts[number - 1] if number else ""
    after = parts[number + 1] if number + 1 < len(parts) else ""
    if not (isinstance(parts[number], Value) and isinstance(before, str) and isinstance(after, str) and before and after):
        return ""
    opening = before[-1]
    shared = len(before) == 1 and number > 1 and bool(_opening(parts, number - 2))
    return opening if not shared and after[0] == _CLOSING.get(opening) else ""


def drop_repeated(expression: str, known_names: set[str]) -> str:
    """The expression without captures of fields that an earlier expression captures: the first value of a field counts."""
    return CAPTURE.sub(lambda found: "(?:" if found["name"] in known_names else found[0], expression)


def add_kind(value: Value, made: LineLayout, formats: Sequence[str] = ()) -> None:
    """Add the kind of a field that is not text to the layout."""
    if value.kind == "time":
        made.formats.setdefault(value.field, formats or value.formats)
    if value.kind not in _TEXTS:
        made.kinds.setdefault(value.field, value.kind)


def _add_quoted(slot: Slot, expression: str, made: LineLayout) -> None:
    name = {"text": slot.value.field, "request": LINE}.get(slot.value.kind)
    if slot.opening == '"' and name and f"(?<{name}>" in expression:
        made.quoted.add(name)


# ── Expressions of values ─────────────────────────────────────────────────────────────────────────

_TEXTS = ("text", "word", "address", "address_before_port", "braces", "request", "protocol", "query", "text_list")
_ITEM, _WHOLE, _REAL = r"[^\s,]+", r"\d+", r"\d+(?:\.\d+)?"


def _value_expression(slot: Slot, formats: Sequence[str]) -> str:
    """The expression of a value in its slot; a dash may replace it, or the quotes or brackets around it as well."""
    value, chars = slot.value, _CHARS[slot.opening]
    if value.kind == "time":
        inside = rf"(?<{value.field}>{f'{chars}+' if slot.opening else time_expression(formats)})"
    else:
        inside = _EXPRESSIONS[value.kind](value.field, chars)
    if value.kind not in ("text", "request"):
        inside = f"-|{inside}" + ("|" if slot.opening else "")
    if not slot.opening:
        return f"(?:{inside})"
    dash = {"text": f"(?<{value.field}>-)", "request": f"(?<{LINE}>-)"}.get(value.kind, "-")
    return f"(?:{literal(slot.opening)}(?:{inside}){literal(_CLOSING[slot.opening])}|{dash})"


def request(chars: str) -> str:
    """A request line; that of HTTP/0.9 has no version."""
    return (
        rf"(?<http.request.method>[A-Za-z][A-Za-z_\-]*) (?<url.original>{chars}+?) HTTP/(?<http.version>\d+(?:\.\d+)?)"
        rf"|(?<http.request.method>[A-Z]+) (?<url.original>/[^\s\"\\]*)"
        rf"|(?<{LINE}>{_many(chars)})"
    )


def address(parent: str) -> str:
    """``source.address``, and ``source.ip`` where it is one."""
    return rf"(?<{parent}.address>(?<{parent}.ip>{IP}){ZONE})|(?<{parent}.address>[^\s\",\]]+)"


def _many(chars: str) -> str:
    return f"{chars}*?" if chars == ANY else f"{chars}*"


def _format_list(item: str, name: str) -> str:
    """The last of a list."""
    return rf"(?:(?:-|{item})(?:,| :) )*(?:-|(?<{name}>{item}))"


_EXPRESSIONS: Mapping[str, Callable[[str, str], str]] = {
    "text": lambda name, chars: f"(?<{name}>{_many(chars)})",
    "word": lambda name, chars: f"(?<{name}>{WORD}+)",
    "address": lambda name, chars: address(name),
    "request": lambda name, chars: request(chars),
    "protocol": lambda name, chars: f"(?:HTTP/)?(?<{name}>{WORD}+)",
    "query": lambda name, chars: rf"(?:\?(?<{name}>{WORD}*))?",
    "whole": lambda name, chars: f"(?<{name}>{_WHOLE})",
    "signed": lambda name, chars: rf"\+?(?<{name}>-?{_WHOLE})",
    "address_before_port": lambda name, chars: rf"(?<{name}.address>(?<{name}.ip>{IP}){ZONE}|[^\s\",:\]]+)",
    # the blank before it is missing where nothing was captured
    "braces": lambda name, chars: rf"(?: ?\{{(?<{name}>[^}}]*)\}})?",
    "real": lambda name, chars: f"(?<{name}>{_REAL})",
    "seconds": lambda name, chars: f"(?<{name}>{_REAL})",
    "milliseconds": lambda name, chars: rf"\+?(?<{name}>{_WHOLE})",
    "microseconds": lambda name, chars: f"(?<{name}>{_WHOLE})",
    "whole_list": lambda name, chars: _format_list(_WHOLE, name),
    "real_list": lambda name, chars: _format_list(_REAL, name),
    "text_list": lambda name, chars: f"(?<{name}>{_ITEM}(?:(?:,| :) {_ITEM})*)",
}

"""Flink's functions of regular expressions: a bad pattern gives null or false, and a replacement has no references."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import RowError, by_value, constant
from etl.expressions.widening import BOOLEAN, INT32, STRING

STRINGS = pa.list_(STRING)


SECONDS = 2.0
"""How long one text may take: a pattern such as ``(a+)+$`` takes for ever on some; the event is rejected."""


MAX_PATTERN = 500
"""Characters of a pattern that is a value of an event: preparing one takes up to the third power of its length, 0.1 s for 500."""


class TimedPattern:
    """A pattern whose searches have a time limit. Raises RowError beyond it."""

    def __init__(self, pattern: str) -> None:
        import regex

        self.pattern = pattern
        self._compiled = regex.compile(_to_python(pattern))
        self.groups: int = self._compiled.groups

    def search(self, text: str) -> Any:
        return self._timed(self._compiled.search, text)

    def find_all(self, text: str) -> list[Any]:
        """All matches."""
        return self._timed(lambda value, timeout: list(self._compiled.finditer(value, timeout=timeout)), text)

    def replace(self, new: str, text: str) -> str:
        return str(self._timed(lambda value, timeout: self._compiled.sub(lambda _: new, value, timeout=timeout), text))

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        return self._timed(lambda value, timeout: self._compiled.split(value, maxsplit=maxsplit, timeout=timeout), text)

    def _timed(self, call: Callable[..., Any], text: str) -> Any:
        try:
            return call(text, timeout=SECONDS)
        except TimeoutError as error:
            raise RowError(f"the pattern {self.pattern!r} took more than {SECONDS:g} seconds for a text") from error


@lru_cache(maxsize=256)
def compiled(pattern: str) -> TimedPattern | None:
    """The pattern for Python, None if it is none; ``\\z`` is Python's ``\\Z``."""
    import regex

    try:
        return TimedPattern(pattern)
    except (regex.error, OverflowError, RecursionError):
        return None


_JAVA = re.compile(r"\\(?:p\{(\w+)\}|(.))|\(\?<(?=[A-Za-z])", re.DOTALL)
_CLASSES = {
    "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9", "Upper": "A-Z", "Lower": "a-z", "Punct": r"!-/:-@\[-`{-~",
    "Space": r"\s", "XDigit": "0-9a-fA-F", "IsAlphabetic": r"^\W\d_", "L": r"^\W\d_", "IsDigit": r"\d",
}  # fmt: skip
_ESCAPES = {"d": "[0-9]", "D": "[^0-9]", "w": "[a-zA-Z0-9_]", "W": "[^a-zA-Z0-9_]", "s": r"[ \t\n\x0b\f\r]",
            "S": r"[^ \t\n\x0b\f\r]",
            "z": r"\Z", "Z": r"(?=\n?\Z)", "h": r"[ \t]", "e": r"\x1b"}  # fmt: skip


def _to_python(pattern: str) -> str:
    """Java's syntax in Python's; classes such as ``\\d`` are of ASCII, as in Java."""
    inside = _insides(pattern)

    def write(found: re.Match[str]) -> str:
        if found[0].startswith("(?<"):
            return "(?P<"
        name = _CLASSES.get(found[1]) if found[1] else None
        text = f"[{name}]" if name else _ESCAPES.get(found[2] or "", found[0])
        is_inside = inside[found.start()]
        return (
            text[1:-1]
            if is_inside and text.startswith("[") and not text.startswith("[^")
            else text
            if not is_inside
            else found[0]
        )

    return _JAVA.sub(write, pattern)


def _insides(pattern: str) -> list[bool]:
    """For each character, whether it is inside brackets."""
    inside, found, escaped = False, [], False
    for sign in pattern:
        found.append(inside)
        if escaped:
            escaped = False
        elif sign == "\\":
            escaped = True
        elif sign == "[":
            inside = True
        elif sign == "]":
            inside = False
    return found


def _re2(pattern: Any) -> str | None:
    """A constant pattern for Arrow's RE2, where it means the same; None: Python matches."""
    if not isinstance(pattern, str) or not re.fullmatch(
        r"(?:[\w \-:;,=<>@#%&~\"'/!|()\[\]^$+*.]|\\[dwDW.\[\]\\/|()$^+*?-])*", pattern, re.ASCII
    ):
        return None
    if "$" in pattern and not pattern.endswith("\\$"):
        pattern = pattern.replace("$", r"\z") if "\\$" not in pattern and "[" not in pattern else ""
    return pattern if pattern and compiled(pattern.replace(r"\z", r"\Z")) else None


def _searched(pattern: BoundNode) -> str | None:
    is_known, text = constant(pattern)
    return _re2(text) if is_known else None


def _with_pattern(type_: pa.DataType, function: Callable[..., Any], bad: Any = None) -> Callable[..., BoundNode]:
    """A function of a compiled pattern and a text, by value; ``bad`` is given for what is no pattern."""

    def one(text: str, pattern: str, *more: Any) -> Any:
        found = compiled(pattern)
        return bad if found is None else function(found, text, *more)

    def one_of_data(text: str, pattern: str, *more: Any) -> Any:
        if len(pattern) > MAX_PATTERN:
            raise RowError(f"the pattern has {len(pattern)} characters; one that is no constant has {MAX_PATTERN} at most")
        return one(text, pattern, *more)

    def build(text: BoundNode, pattern: BoundNode, *more: BoundNode) -> BoundNode:
        return by_value(type_, one if constant(pattern)[0] else one_of_data)(text, pattern, *more)

    return build


def regexp(text: BoundNode, pattern: BoundNode) -> BoundNode:
    wanted = _searched(pattern)
    if wanted:
        return b.apply(BOOLEAN, lambda x: pc.match_substring_regex(x, f"(?s){wanted}"), text)
    return _with_pattern(BOOLEAN, lambda found, value: bool(found.pattern) and found.search(value) is not None, bad=False)(
        text, pattern
    )


def regexp_replace(text: BoundNode, pattern: BoundNode, new: BoundNode) -> BoundNode:
    wanted, (is_known, replacement) = _searched(pattern), constant(new)
    if wanted and is_known and isinstance(replacement, str) and compiled(wanted.replace(r"\z", r"\Z")).search("") is None:  # type: ignore[union-attr]
        escaped = replacement.replace("\\", "\\\\")
        return b.apply(STRING, lambda x: pc.replace_substring_regex(x, wanted, escaped), text)
    return _with_pattern(STRING, lambda found, value, given: found.replace(given, value))(text, pattern, new)


def _extract(found: TimedPattern, text: str, group: int = 0) -> str | None:
    match = found.search(text)
    return match[group] if match and 0 <= group <= found.groups else None


def regexp_extract(text: BoundNode, pattern: BoundNode, group: BoundNode | None = None) -> BoundNode:
    wanted, (is_known, number) = _searched(pattern), (True, 0) if group is None else constant(group)
    if wanted and is_known and isinstance(number, int) and 0 <= number <= re.compile(wanted.replace(r"\z", r"\Z")).groups:
        return b.apply(STRING, partial(_first_group, _named(wanted, number)), text)
    return _with_pattern(STRING, _extract)(text, pattern, *(() if group is None else (group,)))


def _named(pattern: str, number: int) -> str:
    """The pattern in which only the wanted group captures, under a name."""
    if number == 0:
        pattern, number = f"({pattern})", 1
    out, seen, at, inside = "", 0, 0, False
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            out += pattern[at : at + 2]
            at += 2
            continue
        inside = sign == "[" or (inside and sign != "]")
        if sign == "(" and not inside and pattern[at + 1 : at + 2] != "?":
            seen += 1
            out += "(?P<g>" if seen == number else "(?:"
        else:
            out += sign
        at += 1
    return f"(?s){out}"


def _first_group(pattern: str, texts: Any) -> Any:
    """The group of the first match; null without a match, and where the group takes no part in it."""
    found = pc.struct_field(pc.extract_regex(texts, pattern), "g")
    if not pc.any(pc.equal(found, "")).as_py():
        return found
    python = re.compile(pattern.replace("(?s)", "(?s)", 1).replace(r"\z", r"\Z"))

    def exact(text: str) -> str | None:
        match = python.search(text)
        return match["g"] if match else None

    if isinstance(texts, pa.Scalar):
        return pa.scalar(exact(texts.as_py()) if texts.is_valid else None, STRING)
    encoded = pc.dictionary_encode(texts)
    return pa.array([exact(one) for one in encoded.dictionary.to_pylist()], STRING).take(encoded.indices)


def _extract_all(found: TimedPattern, text: str, group: int = 1) -> list[str | None] | None:
    return [match[group] for match in found.find_all(text)] if 0 <= group <= found.groups else None


def _instr(found: TimedPattern, text: str) -> int:
    match = found.search(text)
    return match.start() + 1 if match else 0


# ── LIKE and SIMILAR TO ───────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=256)
def _like_pattern(pattern: str, escape: str | None) -> re.Pattern[str]:
    out, at = "", 0
    while at < len(pattern):
        sign = pattern[at]
        if sign == escape and at + 1 < len(pattern):
            at += 1
            out += re.escape(pattern[at])
        else:
            out += {"%": ".*", "_": "."}.get(sign) or re.escape(sign)
        at += 1
    return re.compile(out, re.DOTALL)


def _like(text: str, pattern: str, escape: str | None = None) -> bool:
    return _like_pattern(pattern, escape).fullmatch(text) is not None


@lru_cache(maxsize=256)
def _similar_pattern(pattern: str, escape: str | None) -> re.Pattern[str] | None:
    """SQL's patterns: ``%`` and ``_`` beside the signs of regular expressions; a point is a character like others."""
    out, at, inside = "", 0, False
    while at < len(pattern):
        sign = pattern[at]
        inside = (sign == "[" and not inside) or (inside and sign != "]")
        if sign == escape and at + 1 < len(pattern):
            at += 1
            out += re.escape(pattern[at])
        elif inside or sign in "[]()|*+?{}0123456789,":
            out += sign
        else:
            out += {"%": ".*", "_": "."}.get(sign) or re.escape(sign)
        at += 1
    try:
        return re.compile(out, re.DOTALL)
    except re.error:
        return None


def _similar(text: str, pattern: str, escape: str | None = None) -> bool:
    found = _similar_pattern(pattern, escape)
    if found is None:
        raise RowError(f"{pattern!r} is not a pattern of SIMILAR TO")
    return found.fullmatch(text) is not None


_BAD = "null if an argument is null, and for what is no pattern"

FUNCTIONS = (
    LibraryFunction(
        "flink_regexp",
        "text: string, pattern: string",
        "boolean",
        regexp,
        "Whether a part of a text matches a pattern; an empty one never does.",
        "flink_regexp('foobar', 'o+b')",
        True,
        null="null if an argument is null; false for what is no pattern",
    ),
    LibraryFunction(
        "flink_regexp_replace",
        "text: string, pattern: string, new: string",
        "string",
        regexp_replace,
        "The text with another for all that matches; `$1` in it means itself.",
        "flink_regexp_replace('foobar', 'oo|ar', '')",
        "fb",
        null=_BAD,
    ),
    LibraryFunction(
        "flink_regexp_extract",
        "text: string, pattern: string, group: integer?",
        "string",
        regexp_extract,
        "The first match, or one of its groups.",
        "flink_regexp_extract('foothebar', 'foo(.*?)(bar)', 2)",
        "bar",
        null=f"{_BAD}; without a match or such a group",
    ),
    LibraryFunction(
        "flink_regexp_extract_all",
        "text: string, pattern: string, group: integer?",
        "array<string>",
        _with_pattern(STRINGS, _extract_all),
        "A group (the first) of all matches.",
        "flink_regexp_extract_all('a1b22', '([a-z])([0-9]+)', 2)",
        ["1", "22"],
        null=_BAD,
        loops=True,
    ),
    LibraryFunction(
        "flink_regexp_count",
        "text: string, pattern: string",
        "int",
        _with_pattern(INT32, lambda found, text: len(found.find_all(text))),
        "The number of matches.",
        "flink_regexp_count('abcabc', 'b')",
        2,
        null=_BAD,
        loops=True,
    ),
    LibraryFunction(
        "flink_regexp_instr",
        "text: string, pattern: string",
        "int",
        _with_pattern(INT32, _instr),
        "The position of the first match, from 1; 0 without one.",
        "flink_regexp_instr('abcabc', 'c')",
        3,
        null=_BAD,
        loops=True,
    ),
    LibraryFunction(
        "flink_regexp_substr",
        "text: string, pattern: string",
        "string",
        regexp_extract,
        "The first match.",
        "flink_regexp_substr('ab12cd', '[0-9]+')",
        "12",
        null=f"{_BAD}; without a match",
    ),
    LibraryFunction(
        "flink_like",
        "text: string, pattern: string, escape: string?",
        "boolean",
        by_value(BOOLEAN, _like, fails=False),
        "LIKE with a computed pattern; without an escape sign a backslash means itself.",
        "flink_like('abc', 'a%')",
        True,
        loops=True,
    ),
    LibraryFunction(
        "flink_similar",
        "text: string, pattern: string, escape: string?",
        "boolean",
        by_value(BOOLEAN, _similar),
        "SIMILAR TO: `%` and `_` beside `|`, `*`, `+`, `?`, brackets and braces.",
        "flink_similar('abc', 'a(b|d)c')",
        True,
        errors="what is no pattern",
        loops=True,
    ),
)

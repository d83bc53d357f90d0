"""Flink's functions of regular expressions: a bad pattern gives null or false, and a replacement has no references."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.library.flink.java_patterns import MAX_PATTERN, TimedPattern, compile_timed
from etl.expressions.library.function import LibraryFunction
from etl.expressions.library.kernels import RowError, by_value, constant, usually_on_arrow
from etl.expressions.widening import BOOLEAN, INT32, STRING

STRINGS = pa.list_(STRING)


def _re2(pattern: Any) -> str | None:
    """A constant pattern for Arrow's RE2, where it means the same; None: Python matches."""
    if not isinstance(pattern, str) or not re.fullmatch(
        r"(?:[\w \-:;,=<>@#%&~\"'/!|()\[\]^$+*.]|\\[dwDW.\[\]\\/|()$^+*?-])*", pattern, re.ASCII
    ):
        return None
    if "$" in pattern and not pattern.endswith("\\$"):
        pattern = pattern.replace("$", r"\z") if "\\$" not in pattern and "[" not in pattern else ""
    return pattern if pattern and compile_timed(pattern.replace(r"\z", r"\Z")) else None


def _search_pattern(pattern: BoundNode) -> str | None:
    is_known, text = constant(pattern)
    return _re2(text) if is_known else None


def _with_pattern(
    type_: pa.DataType, function: Callable[..., Any], bad: Any = None, grows: bool = False
) -> Callable[..., BoundNode]:
    """A function of a compiled pattern and a text, by value; ``bad`` is given for what is not a pattern."""

    def one(text: str, pattern: str, *more: Any) -> Any:
        found = compile_timed(pattern)
        return bad if found is None else function(found, text, *more)

    def one_of_data(text: str, pattern: str, *more: Any) -> Any:
        if len(pattern) > MAX_PATTERN:
            raise RowError(f"the pattern has {len(pattern)} characters; one that is not a constant has at most {MAX_PATTERN}")
        return one(text, pattern, *more)

    def build(text: BoundNode, pattern: BoundNode, *more: BoundNode) -> BoundNode:
        return by_value(type_, one if constant(pattern)[0] else one_of_data, grows=grows)(text, pattern, *more)

    return build


def regexp(text: BoundNode, pattern: BoundNode) -> BoundNode:
    regex = _search_pattern(pattern)
    if regex:
        return b.apply(BOOLEAN, lambda x: pc.match_substring_regex(x, f"(?s){regex}"), text)
    return _with_pattern(BOOLEAN, lambda found, value: bool(found.pattern) and found.search(value) is not None, bad=False)(
        text, pattern
    )


def regexp_replace(text: BoundNode, pattern: BoundNode, new: BoundNode) -> BoundNode:
    regex, (is_known, replacement) = _search_pattern(pattern), constant(new)
    if regex and is_known and isinstance(replacement, str) and compile_timed(regex.replace(r"\z", r"\Z")).search("") is None:  # type: ignore[union-attr]
        escaped = replacement.replace("\\", "\\\\")
        return b.apply(STRING, lambda x: pc.replace_substring_regex(x, regex, escaped), text)
    return _with_pattern(STRING, lambda found, value, given: found.replace(given, value), grows=True)(text, pattern, new)


def _extract(found: TimedPattern, text: str, group: int = 0) -> str | None:
    match = found.search(text)
    return match[group] if match and 0 <= group <= found.groups else None


def regexp_extract(text: BoundNode, pattern: BoundNode, group: BoundNode | None = None) -> BoundNode:
    regex, (is_known, number) = _search_pattern(pattern), (True, 0) if group is None else constant(group)
    if regex and is_known and isinstance(number, int) and 0 <= number <= re.compile(regex.replace(r"\z", r"\Z")).groups:
        return b.apply(STRING, partial(_first_group, _name_group(regex, number)), text)
    return _with_pattern(STRING, _extract)(text, pattern, *(() if group is None else (group,)))


def _name_group(pattern: str, number: int) -> str:
    """The pattern in which only the requested group captures, under a name."""
    if number == 0:
        pattern, number = f"({pattern})", 1
    out, group_count, at, inside = "", 0, 0, False
    while at < len(pattern):
        character = pattern[at]
        if character == "\\":
            out += pattern[at : at + 2]
            at += 2
            continue
        inside = character == "[" or (inside and character != "]")
        if character == "(" and not inside and pattern[at + 1 : at + 2] != "?":
            group_count += 1
            out += "(?P<g>" if group_count == number else "(?:"
        else:
            out += character
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


def _counted(text: BoundNode, pattern: BoundNode) -> BoundNode:
    regex = _search_pattern(pattern)
    if regex and compile_timed(regex.replace(r"\z", r"\Z")).search("") is None:  # type: ignore[union-attr]
        return b.apply(INT32, lambda x: pc.cast(pc.count_substring_regex(x, f"(?s){regex}"), INT32), text)
    return _with_pattern(INT32, lambda found, value: len(found.find_all(value)))(text, pattern)


def _located(text: BoundNode, pattern: BoundNode) -> BoundNode:
    regex = _search_pattern(pattern)
    if not regex:
        return _with_pattern(INT32, _instr)(text, pattern)
    found = compile_timed(regex.replace(r"\z", r"\Z"))
    assert found is not None
    return usually_on_arrow(INT32, partial(_located_in_ascii, f"(?s){regex}"), partial(_instr, found))(text)


def _located_in_ascii(pattern: str, text: pa.Array) -> tuple[pa.Array, Any]:
    """Arrow counts bytes."""
    at = pc.cast(pc.add(pc.find_substring_regex(text, pattern), 1), INT32)
    return at, pc.fill_null(pc.string_is_ascii(text), True).to_numpy(zero_copy_only=False)


def _extract_all(found: TimedPattern, text: str, group: int = 1) -> list[str | None] | None:
    return [match[group] for match in found.find_all(text)] if 0 <= group <= found.groups else None


def _instr(found: TimedPattern, text: str) -> int:
    match = found.search(text)
    return match.start() + 1 if match else 0


_BAD = "null if an argument is null, and for what is not a pattern"


FUNCTIONS = (
    LibraryFunction(
        "flink_regexp",
        "text: string, pattern: string",
        "boolean",
        regexp,
        "Whether a part of a text matches a pattern; an empty one never does.",
        "flink_regexp('foobar', 'o+b')",
        True,
        null="null if an argument is null; false for what is not a pattern",
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
        _counted,
        "The number of matches.",
        "flink_regexp_count('abcabc', 'b')",
        2,
        null=_BAD,
    ),
    LibraryFunction(
        "flink_regexp_instr",
        "text: string, pattern: string",
        "int",
        _located,
        "The position of the first match, from 1; 0 without one.",
        "flink_regexp_instr('abcabc', 'c')",
        3,
        null=_BAD,
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
)

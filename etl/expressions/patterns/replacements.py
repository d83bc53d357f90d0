"""Translates Java's patterns and replacements for RE2, which finds and replaces all matches."""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions.patterns.java_characters import NoFormError
from etl.expressions.patterns.java_regex import Regex
from etl.expressions.patterns.rewrites import with_capture
from etl.scanner.regex_printer import format_regex
from etl.scanner.tree import Group, Node, Repeat, backtracking_reason, walk
from etl.scanner.tree_analysis import first_bytes


def re2_pattern(regex: Regex) -> str:
    """The pattern for RE2, with Java's groups in order. Raises NoFormError if RE2's matches could differ."""
    tree = regex.tree
    if reason := backtracking_reason(tree):
        raise NoFormError(f"'$' or a look-around: {reason}" if reason.startswith("look") else reason)
    if first_bytes(tree)[1] or any(_is_doubtful(node) for node in walk(tree)):
        raise NoFormError("a pattern that can match nothing, or repeats a group or what may be empty")
    for number in range(1, regex.groups + 1):
        tree = with_capture(tree, number, str(number))
    pattern = format_regex(tree)
    try:
        pc.match_substring_regex(pa.nulls(1, pa.string()), pattern)
    except pa.ArrowInvalid as error:
        raise NoFormError("a pattern beyond RE2") from error
    return pattern


def _is_doubtful(node: Node) -> bool:
    """Whether the node is a loop whose groups, or whose empty iterations, may differ from Java's."""
    if not isinstance(node, Repeat) or node.maximum == 1:
        return False
    return first_bytes(node.part)[1] or any(isinstance(inner, Group) for inner in walk(node.part))


def re2_replacement(text: str, groups: int) -> str:
    """The replacement for RE2. Raises NoFormError for what only Java supports, ValueError for groups that do not exist."""
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char == "\\":
            if at == len(text):
                raise ValueError("the replacement ends in a backslash")
            out.append(text[at].replace("\\", r"\\"))
            at += 1
        elif char == "$":
            if not re.match(r"[0-9]", text[at : at + 1]):
                raise NoFormError("a named group in the replacement" if text[at : at + 1] == "{" else "'$' in the replacement")
            number = int(text[at])
            at += 1
            if number > groups:
                raise ValueError(f"the pattern has no group {number}")
            if at < len(text) and text[at].isdigit() and number * 10 + int(text[at]) <= groups:
                raise NoFormError("a group past 9 in the replacement")
            out.append(f"\\{number}")
        else:
            out.append(char)
    return "".join(out)

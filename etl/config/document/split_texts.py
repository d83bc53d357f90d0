"""Texts that YAML splits at a comma or at ` #`, such as `{p: percentile(ip, 0.5)}`: a bracket or quote in them is not closed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import yaml

_COMMENT = re.compile(r"[ \t]+#[^\n]*")

Node = yaml.Node
Pair = tuple[Node, Node]


MAX_PARTS = 1_000
"""Maximum number of commas in one text that was split: a bound for files with brackets that are never closed."""


def joined_pairs(node: Node, text: str) -> Iterator[tuple[Pair, bool]]:
    """Yield the entries of a mapping, and whether each was joined from several that YAML had split."""
    pairs: list[Pair] = list(node.value)
    at = 0
    while at < len(pairs):
        key, value = pairs[at]
        parts = [value]
        if _is_flow(node) and _is_open(value):
            parts += [part for part, nothing in pairs[at + 1 : at + MAX_PARTS] if _is_empty(nothing)]
        count = _count_parts(parts)
        yield ((key, _join_parts(parts[:count], text)), True) if count > 1 else ((key, value), False)
        at += count


def joined_items(node: Node, text: str) -> Iterator[tuple[Node, bool]]:
    """Yield the items of a list, and whether each was joined from several that YAML had split."""
    at = 0
    while at < len(node.value):
        count = _count_parts(node.value[at : at + MAX_PARTS]) if _is_flow(node) else 1
        yield (_join_parts(node.value[at : at + count], text), True) if count > 1 else (node.value[at], False)
        at += count


def _is_open(node: Node) -> bool:
    """Whether a text has a bracket that it does not close."""
    return isinstance(node, yaml.ScalarNode) and node.value.count("(") > node.value.count(")")


def with_comment(node: Node, text: str) -> str | None:
    """Return an unquoted text with the rest of its line if ` #` in a quotation ended it, as in `a = 'x #1'`; else None."""
    if not isinstance(node, yaml.ScalarNode) or node.style or node.start_mark is None or node.end_mark is None:
        return None
    if node.value.count("'") % 2 == node.value.count('"') % 2 == 0:
        return None
    end = node.end_mark.index
    comment = _COMMENT.match(text, end)
    return text[node.start_mark.index : end] + comment[0].rstrip() if comment else None


def _is_flow(node: Node) -> bool:
    return bool(getattr(node, "flow_style", False))


def _count_parts(parts: Sequence[Node]) -> int:
    """How many of these, from the first on, make one text whose brackets are closed; 1 if the first is closed or stays open."""
    open_brackets = 0
    for number, part in enumerate(parts, 1):
        if not isinstance(part, yaml.ScalarNode) or (number == 1 and part.style):
            return 1
        open_brackets += part.value.count("(") - part.value.count(")")
        if open_brackets <= 0:
            return number
    return 1


def _is_empty(node: Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.value == "" and not node.style


def _join_parts(parts: Sequence[Node], text: str) -> Node:
    start, end = parts[0].start_mark, parts[-1].end_mark
    assert start is not None
    assert end is not None
    return yaml.ScalarNode("tag:yaml.org,2002:str", text[start.index : end.index], start, end)

"""The patterns of a pipeline in the languages of the peers, as one JSON-able value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from etl.scanner import tree as nodes
from etl.scanner.pattern_error import PatternError
from etl.scanner.regex_printer import format_regex
from etl.scanner.tree import Node, captures
from parsers.grok.compiler import compile_pattern

NAMED = re.compile(r"(?<=:)(\[[^:}]+\])(?=[:}])|(?<=[:<])([\w.]+)(?=>)|(?<=:)([\w.]+)(?=[:}])")
"""A field's name in a grok expression."""

CAST = re.compile(r"(%\{\w+:[\w.]+):(?:int|float)\}")

GROUP = re.compile(r"(?<!\\)\((?!\?)")
"""The beginning of a group without a name."""


def plain_name(field: str) -> str:
    """A field's name where dots mean something else: ``source_ip``."""
    return field.replace("][", "_").strip("[]").replace(".", "_")


def grok_patterns(pipeline: Path) -> list[str]:
    """The patterns of the pipeline's first step."""
    return list(yaml.safe_load(pipeline.read_text())["streams"]["parsed"]["steps"][0]["patterns"])


def expressions(groks: Sequence[str], plain: Sequence[str], foreign: Sequence[str]) -> dict[str, Any]:
    """``fields`` of all patterns, and for each pattern its fields and how the peers write it, groups in the fields' order.

    ``plain`` are simple regular expressions with the same groups, ``foreign`` grok expressions for libraries that lack our
    names; both as long as ``groks``, or ``foreign`` is empty: it is then what we use.
    """
    patterns = [dict(_written(*texts)) for texts in zip(groks, plain, foreign or groks, strict=True)]
    fields = list(dict.fromkeys(field for pattern in patterns for field in pattern["fields"]))
    return {"fields": fields, "patterns": patterns}


def expanded(grok: str) -> Node:
    """The tree of a grok expression. Raises PatternError."""
    tree = compile_pattern(grok, "ecs-v1", frozenset(), False)
    if isinstance(tree, PatternError):
        raise tree
    return tree


def loosened(node: Node) -> Node:
    """What RE2 takes of an expression: no look-around, no atomic groups, no possessive loops.

    It then means something else, but not to the logs here: the outputs are checked.
    """
    if isinstance(node, nodes.LookAround):
        return nodes.Sequence(())
    if isinstance(node, nodes.Atomic):
        return nodes.Sequence((loosened(node.part),))
    if isinstance(node, nodes.Sequence | nodes.Choice):
        return replace(node, parts=tuple(loosened(part) for part in node.parts))
    if isinstance(node, nodes.Repeat):
        kind = "greedy" if node.kind == "possessive" else node.kind
        return replace(node, part=loosened(node.part), kind=kind)
    if isinstance(node, nodes.Capture | nodes.Group):
        return replace(node, part=loosened(node.part))
    return node


def _written(grok: str, plain: str, foreign: str) -> Iterator[tuple[str, Any]]:
    tree = expanded(grok)
    fields = [plain_name(capture.field) for capture in captures(tree)]
    names = iter(fields)
    yield "fields", fields
    yield "re2", f"\\A(?:{format_regex(loosened(tree))})"  # at the beginning, where all these logs match and RE2 is fastest
    yield "re", format_regex(tree, backtracking=True)
    yield "plain", plain
    yield "named", GROUP.sub(lambda _: f"(?P<{next(names)}>", plain)
    yield "grok", CAST.sub(r"\1}", NAMED.sub(lambda found: plain_name(found[0]), foreign))

"""Where in its file a rule's problem stands: the file is read again, for problems only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import yaml

from etl.rules.problem_keys import KeyPath, key_of
from etl.rules.rule import Problem


@dataclass(frozen=True)
class Location:
    """A line and column of a file of rules, counted from one, and the key there."""

    line: int
    column: int
    key: KeyPath = ()


def location_of(problem: Problem) -> Location:
    """The key that the problem is about; the beginning of the rule where no key is known or the file is gone."""
    try:
        rules = _rules(problem.file, os.stat(problem.file).st_mtime_ns)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return Location(problem.line, 1)
    node, data = rules.get(problem.line, (None, None))
    if node is None or not isinstance(data, dict):
        return Location(problem.line, 1)
    key = key_of(problem.message, data)
    mark = _mark(node, key)
    return Location(mark.line + 1, mark.column + 1, key)


def at_keys(problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
    """Problems with the lines of the keys that they are about, in their order."""
    found = (replace(one, line=location_of(one).line) for one in problems)
    return tuple(sorted(found, key=lambda one: (one.file, one.line)))


@lru_cache(maxsize=4)
def _rules(file: str, changed: int) -> dict[int, tuple[yaml.Node, Any]]:
    """Line of a rule → its node and value."""
    with open(file, encoding="utf-8") as text:
        return {node.start_mark.line + 1: (node, data) for node, data in _documents(text.read())}


def _documents(text: str) -> Iterator[tuple[yaml.Node, Any]]:
    loader = yaml.CSafeLoader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            assert node is not None
            parts = node.value if isinstance(node, yaml.SequenceNode) else [node]
            values = loader.construct_document(node)
            yield from zip(parts, values if isinstance(values, list) else [values], strict=True)
    finally:
        loader.dispose()


def _mark(node: Any, key: KeyPath) -> Any:
    """Where the key stands, or the nearest one around it."""
    mark = node.start_mark
    for part in key:
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            node = node.value[part]
            mark = node.start_mark
            continue
        pairs = node.value if isinstance(node, yaml.MappingNode) else []
        found = next(((one, value) for one, value in pairs if one.value == str(part)), None)
        if found is None:
            return mark
        mark, node = found[0].start_mark, found[1]
    return mark

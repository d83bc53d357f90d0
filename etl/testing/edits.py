"""Replacing values in a YAML text; comments, order and layout of the rest do not change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from etl.config.model import OptionPath
from etl.testing.yaml_writer import format_item, format_items, format_scalar

Node = yaml.Node


@dataclass(frozen=True)
class Edit:
    """Set the value at ``path``; a missing key is added to its mapping."""

    path: OptionPath
    value: Any


def apply_edits(text: str, edits: Iterable[Edit]) -> str:
    """Apply edits to a text. No edit's path may contain another's."""
    root = yaml.compose(text, Loader=yaml.CSafeLoader)
    changes = [change for edit in edits if root is not None and (change := _change(text, root, edit))]
    changes.sort(key=lambda change: change[0])
    for start, end, new in reversed(changes):  # of two additions at one position the later comes after
        text = text[:start] + new + text[end:]
    return text


def _change(text: str, root: Node, edit: Edit) -> tuple[int, int, str] | None:
    """Start, end and new text."""
    parent, node = _find_node(root, edit.path[:-1]), _find_node(root, edit.path)
    if not isinstance(parent, yaml.CollectionNode):
        return None
    if node is None:
        return _addition(text, parent, str(edit.path[-1]), edit.value)
    if parent.flow_style or (isinstance(node, yaml.ScalarNode) and not isinstance(edit.value, (list, Mapping))):
        return node.start_mark.index, value_end(node), format_scalar(edit.value)
    if isinstance(parent, yaml.SequenceNode) and isinstance(edit.value, Mapping):
        column = node.start_mark.column
        return node.start_mark.index, value_end(node), "\n".join(format_item(edit.value, column - 2))[column:]
    key = next(key for key, value in parent.value if value is node)
    colon = text.index(":", key.end_mark.index) + 1
    comment = text[colon : node.start_mark.index].partition("\n")
    head = comment[0].rstrip() if comment[1] else ""
    new = _block(edit.value, key.start_mark.column)
    return colon, value_end(node), head + new if new.startswith("\n") else new + head


def _addition(text: str, parent: yaml.CollectionNode, key: str, value: Any) -> tuple[int, int, str]:
    end = value_end(parent)
    if parent.flow_style:
        return end - 1, end - 1, f"{', ' if parent.value else ''}{key}: {format_scalar(value)}"
    column = parent.start_mark.column
    line_end = text.find("\n", end)
    at = len(text) if line_end < 0 else line_end
    return at, at, f"\n{' ' * column}{key}:{_block(value, column)}"


def _block(value: Any, column: int) -> str:
    """The text after ``key:`` in a block mapping whose keys are at this column."""
    if isinstance(value, Mapping):
        pad = " " * (column + 2)
        return "".join(f"\n{pad}{key}:{_block(inner, column + 2)}" for key, inner in value.items())
    if isinstance(value, list) and value and all(isinstance(event, Mapping) for event in value):
        return "\n" + "\n".join(format_items(value, column + 2))
    return f" {format_scalar(value)}"


def _find_node(node: Node | None, path: OptionPath) -> Node | None:
    for part in path:
        if isinstance(node, yaml.MappingNode):
            node = next((value for key, value in node.value if key.value == part), None)
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int) and part < len(node.value):
            node = node.value[part]
        else:
            return None
    return node


def value_end(node: Node) -> int:
    """The index after the last character of a value; YAML's end mark of a block includes following blanks and comments."""
    if isinstance(node, yaml.ScalarNode):
        return node.end_mark.index if node.style not in ("|", ">") else node.end_mark.index - 1
    if not isinstance(node, yaml.CollectionNode) or node.flow_style or not node.value:
        return node.end_mark.index
    last = node.value[-1]
    return value_end(last[1] if isinstance(last, tuple) else last)

"""Checks the annotations of functions whose arguments or results are whole events."""

from __future__ import annotations

import ast

from etl.udf.annotations import ITERATORS, parse_text
from etl.udf.module_names import Names

EVENT_HINT = "a function of an event returns dict, dict | None, list[dict] or Iterator[dict]"


def is_event(node: ast.expr, names: Names) -> bool:
    """Whether an annotation is that of a whole event: ``dict`` or ``dict[str, Any]``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return is_event(parse_text(node), names)
    if isinstance(node, ast.Subscript):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
        is_any = len(parts) == 2 and names.full_name(parts[1]) in ("typing.Any", "object")
        return is_any and names.full_name(node.value) in _EVENTS
    return names.full_name(node) in _EVENTS


_EVENTS = ("dict", "typing.Dict", "typing.Mapping", "collections.abc.Mapping", "typing.MutableMapping")


def returns_several_events(node: ast.expr | None, names: Names) -> bool | None:
    """Whether the annotation of a result is that of several events; None if it is not that of events."""
    if node is None:
        return None
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return returns_several_events(parse_text(node), names)
    if is_event(node, names):
        return False
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        found = {returns_several_events(part, names) for part in (node.left, node.right) if not _is_none(part)}
        return None if None in found or not found else True in found
    if isinstance(node, ast.Subscript):
        name = names.full_name(node.value)
        part = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
        if name == "typing.Optional":
            return returns_several_events(part, names)
        return True if (name in ITERATORS or name in ("list", "typing.List")) and is_event(part, names) else None
    return None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None

"""Mappings and lists inside each other: reading and replacing the value at a path."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etl.config.model import OptionPath


def as_mapping(value: object) -> Mapping[str, Any]:
    """The value when it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def value_at(root: Any, path: OptionPath) -> Any:
    """The value at a path, or None."""
    for part in path:
        try:
            root = root[part]
        except (KeyError, IndexError, TypeError):
            return None
    return root


def with_value(root: Any, path: OptionPath, value: Any) -> Any:
    """A copy with another value at a path that exists."""
    if not path:
        return value
    if isinstance(root, dict):
        return {**root, path[0]: with_value(root[path[0]], path[1:], value)}
    return [with_value(item, path[1:], value) if index == path[0] else item for index, item in enumerate(root)]

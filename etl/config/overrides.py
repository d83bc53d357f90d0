"""``--set path=value``: values that replace those of the file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from etl.api import nearest
from etl.config.document.parser import parse
from etl.config.environment import is_unicode
from etl.config.model import OptionPath
from etl.config.report import Report

_OVERRIDE = re.compile(r"(?:\$\.)?(?P<path>[^=]+?)\s*=\s*(?P<value>.*)", re.DOTALL)
_OPTIONAL = ("run", "dead_letters")
"""Keys of a file that hold options, and that a file may leave out."""

_SINGLE = ("source", "sink")
"""Keys of a file that hold the options of one component; ``sources`` and others hold components by their names."""

_INDEX = re.compile(r"\[(\d+)\]")


def override(root: dict[str, Any], overrides: Iterable[str], report: Report) -> None:
    """Put each ``path=value`` into the document; paths that lead nowhere are reported.

    A path leads over keys and list indexes: ``sources.auth.path``, ``steps.0.where``, ``steps[0].where``.
    """
    for text in overrides:
        if not is_unicode(text):
            report.add_at(
                (1, 1), (), "bad-override", f"--set {text.partition('=')[0]!r}: the text is not UTF-8", "give UTF-8 text"
            )
            continue
        found = _OVERRIDE.fullmatch(text)
        if not found:
            report.add_at(
                (1, 1), (), "bad-override", f"--set takes path=value, not {text!r}", "such as sources.auth.path=/tmp/x.log"
            )
            continue
        _put(root, found["path"], _value(found["value"]), report)


def _value(text: str) -> Any:
    """Lists and mappings as YAML; a scalar stays text and is converted to the option's type."""
    document = parse(text)
    if document.flaws or (isinstance(document.value, dict) and not text.lstrip().startswith("{")):
        return text
    quoted = text[:1] in ("'", '"')
    return document.value if quoted or isinstance(document.value, (dict, list)) else text


def _put(root: dict[str, Any], dotted: str, value: Any, report: Report) -> None:
    parts = _INDEX.sub(r".\1", dotted).split(".")
    path: OptionPath = ()
    node: Any = root
    for part in parts[:-1]:
        step = int(part) if isinstance(node, list) and part.isdigit() else part
        child = _child(node, step)
        if child is None and isinstance(node, dict) and _holds_options((*path, step)):
            child = node[part] = {}  # an option that the file does not give, such as batch.max_events
        if not isinstance(child, (dict, list)):
            names = [str(name) for name in node] if isinstance(node, dict) else [f"0 to {len(node) - 1}"]
            hint = nearest(part, names) or f"here are: {', '.join(names)}"
            report.add_at((1, 1), path, "bad-override", f"--set {dotted}: there is no {part!r}", hint)
            return
        path, node = (*path, step), child
    last: str | int = int(parts[-1]) if isinstance(node, list) and parts[-1].isdigit() else parts[-1]
    if isinstance(node, list) and not (isinstance(last, int) and last < len(node)):
        report.add_at((1, 1), path, "bad-override", f"--set {dotted}: the list has no item {last!r}")
        return
    node[last] = value
    path = (*path, last)
    report.overridden.add(path)
    if isinstance(value, str):
        report.substituted[path] = value


def _holds_options(path: OptionPath) -> bool:
    """Whether a mapping at this path has options, and not names that the user gives."""
    return path[0] in _OPTIONAL or len(path) > (1 if path[0] in _SINGLE else 2)


def _child(node: Any, step: str | int) -> Any:
    if isinstance(node, dict):
        return node.get(str(step))
    return node[step] if isinstance(step, int) and step < len(node) else None

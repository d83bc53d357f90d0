"""Where the problem of a rule is in its file: the key it is about, its line and column.

pySigma and the readers say what is wrong and not where, so the key is found by the message. The file is read again, only for
problems.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import yaml

from etl.rules.files import nodes_with_values
from etl.rules.rule import RuleProblem

KeyPath = tuple[str | int, ...]
"""Keys and list indexes from a document to a value."""


@dataclass(frozen=True)
class ProblemLocation:
    """Where the problem of a rule is: line and column, counted from 1, and the key there."""

    line: int
    column: int
    key: KeyPath = ()


def locate_problem(problem: RuleProblem) -> ProblemLocation:
    """The key that the problem is about; the first line of the rule if the key is unknown or the file is gone."""
    try:
        rules = _read_rules(problem.file, os.stat(problem.file).st_mtime_ns)
    except (OSError, ValueError, yaml.YAMLError, RecursionError):
        return ProblemLocation(problem.line, 1)
    node, data = rules.get(problem.line, (None, None))
    if node is None or not isinstance(data, dict):
        return ProblemLocation(problem.line, 1)
    key = find_key(problem.message, data)
    mark = _mark_of(node, key)
    return ProblemLocation(mark.line + 1, mark.column + 1, key)


def locate_problems(problems: tuple[RuleProblem, ...]) -> tuple[RuleProblem, ...]:
    """The problems with the lines of the keys that they are about, sorted by file and line."""
    located = (replace(one, line=locate_problem(one).line) for one in problems)
    return tuple(sorted(located, key=lambda one: (one.file, one.line)))


@lru_cache(maxsize=4)
def _read_rules(file: str, changed: int) -> dict[int, tuple[yaml.Node, Any]]:
    """Line of a rule → its node and value."""
    with open(file, encoding="utf-8") as text:
        return {node.start_mark.line + 1: (node, data) for node, data in nodes_with_values(text.read())}


def _mark_of(node: Any, key: KeyPath) -> Any:
    """The mark of a key, or of the nearest key around it."""
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


# ── Keys by messages ──────────────────────────────────────────────────────────────────────────────


_QUOTED = re.compile(r"'([^']+)'")
_CONDITION = ("detection", "condition")
_CORRELATION = "correlation"

_KEYS: tuple[tuple[re.Pattern[str], KeyPath | Callable[[str, Mapping[str, Any]], KeyPath]], ...] = tuple(
    (re.compile(pattern), key)
    for pattern, key in (
        (r"Unknown modifier '(.*?)'", lambda name, data: _find_modifier(name, data)),
        (r"Modifier Sigma(\w+?)Modifier incompatible", lambda name, data: _find_modifier(name.lower(), data)),
        (r"Detection '.*' not defined|at least one condition|[Cc]ondition .*pars|pipe syntax", _CONDITION),
        (r"log ?source", ("logsource",)),
        (r"\blevel\b", ("level",)),
        (r"\bstatus\b", ("status",)),
        (r"identifier must be an UUID|^its id '", ("id",)),
        (r"Timespan|without timespan", (_CORRELATION, "timespan")),
        (r"correlation type|without type", (_CORRELATION, "type")),
        (r"there is no rule '(.*?)'|^the correlation '(.*?)'|^the rule '(.*?)'", lambda name, data: _find_rule(name, data)),
        (r"groups by '(.*?)'|which it groups by or measures", (_CORRELATION, "group-by")),
        (r"the alias", (_CORRELATION, "aliases")),
        (r"builds on itself|names no rules|without rule", (_CORRELATION, "rules")),
        (r"the condition asks|asks for all of its|Sigma correlation condition|correlation rule without (?:condition|field)|"
         r"percentile|is given by 'and'", (_CORRELATION, "condition")),
        (r"\bdate\b", ("date",)),
        (r"^tags are|\btags?\b", ("tags",)),
        (r"^tests are", ("tests",)),
        (r"^metadata is", ("metadata",)),
        (r"^the level", ("level",)),
        (r"^a rule has a '(.*?)'", lambda name, data: (name,)),
        (r"^there is no key '(.*?)'", lambda name, data: (name,)),
    )
)  # fmt: skip


def find_key(message: str, data: Mapping[str, Any]) -> KeyPath:
    """The path of the key in the document that the message is about; empty if it is about the whole rule."""
    for pattern, key in _KEYS:
        if found := pattern.search(message):
            name = next((group for group in found.groups() if group), "")
            path = key(name, data) if callable(key) else key
            if _exists(path, data):
                return path
    return _find_quoted(message, data) or (("where",) if "where" in data else ())


def _find_modifier(name: str, data: Mapping[str, Any]) -> KeyPath:
    """The first key of a detection that has the modifier."""
    return next((path for path, key in _keys(data) if name in str(key).lower().split("|")[1:]), ())


def _find_rule(name: str, data: Mapping[str, Any]) -> KeyPath:
    """The item with this rule's name in the list of a correlation."""
    rules = (data.get(_CORRELATION) or {}).get("rules")
    return (_CORRELATION, "rules", rules.index(name)) if isinstance(rules, list) and name in rules else (_CORRELATION, "rules")


def _find_quoted(message: str, data: Mapping[str, Any]) -> KeyPath:
    """The key that the message quotes, if exactly one key has that name."""
    names = set(_QUOTED.findall(message))
    found = [path for path, key in _keys(data) if str(key) in names or str(key).split("|")[0] in names]
    return found[0] if len(found) == 1 else ()


def _keys(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(value, Mapping):
            yield (*path, key), key
        yield from _keys(item, (*path, key))


def _exists(path: KeyPath, data: Any) -> bool:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return bool(path)

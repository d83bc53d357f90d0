"""Our own rules: a name and a Spark SQL condition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from etl.api import nearest
from etl.rules.conditions.predicates import Sql
from etl.rules.conditions.tree import Leaf
from etl.rules.rule import Level, Problem, Rule

_KEYS = ("name", "where", "level", "tags", "title", "id", "author", "metadata", "tests")
LEVELS = get_args(Level)


def own_rule(data: Mapping[str, Any], file: str, line: int) -> Rule | Problem:
    """A mapping as a rule, or what is wrong with it."""
    name = data.get("name")
    wrong = _wrong(data)
    if wrong:
        return Problem(file, line, wrong, str(name or ""))
    return Rule(
        id=str(data.get("id", name)),
        title=str(data.get("title", name)),
        condition=Leaf(Sql(data["where"], ())),
        level=data.get("level"),
        tags=tuple(data.get("tags", ())),
        author=data.get("author"),
        metadata=dict(data.get("metadata", {})),
        file=file,
        line=line,
        tests=tuple(data.get("tests", ())),
        name=str(name),
    )


def _wrong(data: Mapping[str, Any]) -> str | None:
    for key in ("name", "where"):
        if not isinstance(data.get(key), str) or not data[key].strip():
            return f"a rule has a {key!r}, which is text (a Sigma rule has a 'detection')"
    for key in data:
        if key not in _KEYS:
            return f"there is no key {key!r}; " + (
                nearest(str(key), _KEYS) or f"keys are {', '.join(_KEYS)}; others go under metadata"
            )
    if data.get("level") not in (None, *LEVELS):
        return f"the level {data['level']!r} is none of {', '.join(LEVELS)}"
    if not isinstance(data.get("tags", []), list) or not all(isinstance(tag, str) for tag in data.get("tags", [])):
        return "tags are a list of texts"
    if not isinstance(data.get("tests", []), list):
        return "tests are a list: [{event: {field: value}}, {event: {…}, matches: false}]"
    if not isinstance(data.get("metadata", {}), dict):
        return "metadata is a mapping: {runbook: …}"
    return None

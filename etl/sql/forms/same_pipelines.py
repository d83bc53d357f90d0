"""Whether two values of pipeline files say the same: defaults may be left out, durations and functions be written otherwise."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from etl.catalogue import installed
from etl.options import parse_duration
from etl.sql.forms.join_queries import join_bounds, key_pairs
from etl.sql.forms.literals import TOKEN
from etl.sql.join_conditions import conjuncts
from etl.steps.sequences.pattern import PatternElement, PatternItem
from etl.steps.sequences.pattern_reader import read_pattern

_KEYWORDS = frozenset(
    """
    and or not is null in like rlike between case when then else end as filter where distinct true false interval escape div
    current_date current_time current_timestamp
    """.split()  # noqa: SIM905
)
"""Words that mean the same in upper and in lower case."""
_TYPES = frozenset(
    """
    string int integer bigint smallint tinyint double float boolean date timestamp binary decimal
    second seconds minute minutes hour hours day days millisecond milliseconds
    """.split()  # noqa: SIM905
)
"""Words that mean the same in upper and in lower case, too; a field may have their name."""
_EXPRESSIONS = frozenset({"where", "having", "by"})
"""Options of steps that are an expression."""
_NAMED_EXPRESSIONS = frozenset({("select", "fields"), ("set", "fields"), ("window", "aggregates"), ("over", "aggregates")})
"""Steps and their options that give names to expressions."""


def same(one: Any, other: Any) -> bool:
    """Whether two values say the same to the schema, which converts texts of options to their types."""
    return bool(_plain(one) == _plain(other))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain_entry(key, one) for key, one in value.items() if one not in ({}, None)}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return str(value).lower() if isinstance(value, bool) else str(value)


def _plain_entry(key: Any, value: Any) -> Any:
    if key == "from":
        return [value] if isinstance(value, str) else list(value or [])
    if key == "steps" and isinstance(value, list):
        return [_plain_step(one) for one in value]
    return _plain(value)


def _plain_step(step: Any) -> Any:
    """A step without options that have their default."""
    members = installed().families["step"]
    if not isinstance(step, Mapping) or str(step.get("type")) not in members:
        return _plain(step)
    kind, fields = str(step["type"]), members[str(step["type"])].model_fields
    found = {}
    if kind == "join":
        step = _plain_join(step)
    if kind == "sequence":
        step = _plain_sequence(step)
    for name, value in step.items():
        default = fields[name].default if name in fields else None
        plain = _plain_option(kind, str(name), value)
        if name == "type" or (value != {} and plain != _plain_option(kind, str(name), default)):
            found[str(name)] = plain
    return found


def _plain_join(step: Mapping[str, Any]) -> dict[str, Any]:
    """A join whose bounds are those before and after, and whose condition has no parentheses around its parts."""
    found = dict(step)
    try:
        found |= {"on": dict(key_pairs(step["on"]))}
        if step.get("time"):
            before, after = join_bounds(step)
            found |= {"within": None, "before": before, "after": after}
        if isinstance(where := step.get("where"), str):
            found["where"] = _without_parentheses(where)
    except (ValueError, KeyError, TypeError, AttributeError):  # which the check of the pipeline reports
        return dict(step)
    return found


def _plain_sequence(step: Mapping[str, Any]) -> dict[str, Any]:
    """A sequence whose conditions have no parentheses around their parts, and whose pattern is what it means."""
    found = dict(step)
    if isinstance(events := step.get("events"), Mapping):
        found["events"] = {name: _without_parentheses(str(text)) for name, text in events.items()}
    if isinstance(pattern := step.get("pattern"), str):
        read = read_pattern(pattern)
        found["pattern"] = pattern if read.findings else f"{_plain_parts(read.items)} {read.absent_after}"
    if isinstance(where := step.get("where"), list | tuple):
        found["where"] = sorted(" ".join(_WORD_OR_SIGN.findall(str(one))) for one in where)  # all hold, in any order
    return found


def _plain_parts(items: tuple[PatternItem, ...]) -> list[Any]:
    """The parts of a pattern without what has no effect: how a part that occurs once repeats, and where it stands."""
    found = []
    for one in items:
        inner = one.name if isinstance(one, PatternElement) else [_plain_parts(part) for part in one.alternatives]
        ways = (one.reluctant, one.possessive) if one.minimum != one.maximum else ()
        found.append([inner, one.minimum, one.maximum, one.next, one.absent, *ways, one.maximum != 1 and one.consecutive])
    return found


_WORD_OR_SIGN = re.compile(r"\w+|[^\w\s]")


def _without_parentheses(condition: str) -> str:
    """A condition whose parts, which AND joins, have no parentheses; itself where it is not SQL, as with ``${NAME}``."""
    import sqlglot

    try:
        parts = conjuncts(sqlglot.parse_one(condition, dialect="spark"))
    except sqlglot.errors.SqlglotError:
        return condition
    return " and ".join(one.unnest().sql("spark") for one in parts)


def _plain_option(kind: str, name: str, value: Any) -> Any:
    if value is None:  # which is not the text None
        return None
    if name in _EXPRESSIONS and isinstance(value, str):
        return _plain_expression(value)
    if (kind, name) in _NAMED_EXPRESSIONS and isinstance(value, Mapping):
        return {str(key): _plain_expression(str(one)) for key, one in value.items()}
    try:
        return parse_duration(value) if isinstance(value, str | timedelta) else _plain(value)
    except ValueError:
        return _plain(value)


def _plain_expression(text: str) -> str:
    """The tokens of an expression, names of functions and keywords in lower case."""
    tokens = []
    for found in TOKEN.finditer(text):
        token, word = found[0], (found["word"] or "").lower()
        if word and (found["call"] is not None or word in _KEYWORDS or word in _TYPES):
            token = word
        if found["quoted"] and found["quoted"].lower() not in _KEYWORDS:
            token = found["quoted"]
        tokens.append("<>" if token == "!=" else token)
    return " ".join(tokens)

"""The key of a rule that a problem is about: pySigma and we say what is wrong, and not where."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

KeyPath = tuple[str | int, ...]

_QUOTED = re.compile(r"'([^']+)'")
_CONDITION = ("detection", "condition")
_CORRELATION = "correlation"

_KEYS: tuple[tuple[re.Pattern[str], KeyPath | Callable[[str, Mapping[str, Any]], KeyPath]], ...] = tuple(
    (re.compile(pattern), key)
    for pattern, key in (
        (r"Unknown modifier '(.*?)'", lambda name, data: _with_modifier(name, data)),
        (r"Modifier Sigma(\w+?)Modifier incompatible", lambda name, data: _with_modifier(name.lower(), data)),
        (r"Detection '.*' not defined|at least one condition|[Cc]ondition .*pars|pipe syntax", _CONDITION),
        (r"log ?source", ("logsource",)),
        (r"\blevel\b", ("level",)),
        (r"\bstatus\b", ("status",)),
        (r"identifier must be an UUID|^its id '", ("id",)),
        (r"Timespan|without timespan", (_CORRELATION, "timespan")),
        (r"correlation type|without type", (_CORRELATION, "type")),
        (r"there is no rule '(.*?)'|^the correlation '(.*?)'|^the rule '(.*?)'", lambda name, data: _value(name, data)),
        (r"groups by '(.*?)'|which it groups by or measures", (_CORRELATION, "group-by")),
        (r"the alias", (_CORRELATION, "aliases")),
        (r"builds on itself|names no rules|without rule", (_CORRELATION, "rules")),
        (r"the condition asks|asks for all of its|Sigma correlation condition|correlation rule without (?:condition|field)|"
         r"percentile|is told by 'and'", (_CORRELATION, "condition")),
        (r"\bdate\b", ("date",)),
        (r"^tags are|\btags?\b", ("tags",)),
        (r"^tests are", ("tests",)),
        (r"^metadata is", ("metadata",)),
        (r"^the level", ("level",)),
        (r"^a rule has a '(.*?)'", lambda name, data: (name,)),
        (r"^there is no key '(.*?)'", lambda name, data: (name,)),
    )
)  # fmt: skip


def key_of(message: str, data: Mapping[str, Any]) -> KeyPath:
    """The path inside the document that the message is about; empty where the whole rule is."""
    for pattern, key in _KEYS:
        if found := pattern.search(message):
            name = next((group for group in found.groups() if group), "")
            path = key(name, data) if callable(key) else key
            if _is_there(path, data):
                return path
    return _quoted(message, data) or (("where",) if "where" in data else ())


def _with_modifier(name: str, data: Mapping[str, Any]) -> KeyPath:
    """The first key of a detection that has the modifier."""
    return next((path for path, key in _keys(data) if name in str(key).lower().split("|")[1:]), ())


def _value(name: str, data: Mapping[str, Any]) -> KeyPath:
    """Where a rule is named in the list of a correlation."""
    rules = (data.get(_CORRELATION) or {}).get("rules")
    return (_CORRELATION, "rules", rules.index(name)) if isinstance(rules, list) and name in rules else (_CORRELATION, "rules")


def _quoted(message: str, data: Mapping[str, Any]) -> KeyPath:
    """The key that the message quotes, where only one has the name."""
    names = set(_QUOTED.findall(message))
    found = [path for path, key in _keys(data) if str(key) in names or str(key).split("|")[0] in names]
    return found[0] if len(found) == 1 else ()


def _keys(value: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, Any]]:
    items = value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        if isinstance(value, Mapping):
            yield (*path, key), key
        yield from _keys(item, (*path, key))


def _is_there(path: KeyPath, data: Any) -> bool:
    for part in path:
        try:
            data = data[part]
        except (KeyError, IndexError, TypeError):
            return False
    return bool(path)

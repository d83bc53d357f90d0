"""Names of captures in grok patterns: ``%{NAME:field:type}`` and ``(?<field>…)``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from etl.scanner.tree import Atomic, Capture, Choice, Group, Node, Repeat, Sequence, walk
from etl.scanner.tree_analysis import first_bytes

_CAPTURE = re.compile(r"(%\{\w+:)([^:{}]+)((?::\w+)?\})|(\(\?<)([A-Za-z_@][\w.@\[\]-]*)(>)")

_TYPES = {"int": "int", "integer": "int", "long": "int", "short": "int", "float": "float", "double": "float"}
"""Types of captures in the tools that are imported, and in the parser grok, whose ``int`` has 64 bits."""


def rename_in_pattern(pattern: str, names: Mapping[str, str]) -> str:
    """The pattern with other names for some captures, and with types that the parser grok knows."""

    def replace(found: re.Match[str]) -> str:
        before, name, after = (found[1], found[2], found[3]) if found[1] else (found[4], found[5], found[6])
        plain = name.strip("[]").replace("][", ".") if name.startswith("[") else name
        if found[1] and after != "}":
            type_ = _TYPES.get(after[1:-1].lower())
            after = f":{type_}}}" if type_ else "}"
        return f"{before}{names.get(plain, plain)}{after}"

    return _CAPTURE.sub(replace, pattern)


def unify_types(patterns: list[str]) -> list[str]:
    """The patterns with one type for each field: a capture without a type gets that of the others of its name."""
    types = {found[2]: found[3] for pattern in patterns for found in _CAPTURE.finditer(pattern) if found[1] and found[3] != "}"}

    def replace(found: re.Match[str]) -> str:
        return f"{found[1]}{found[2]}{types[found[2]]}" if found[1] and found[2] in types else found[0]

    return [_CAPTURE.sub(replace, pattern) for pattern in patterns]


def empty_captures(trees: Iterable[Node]) -> Mapping[str, frozenset[int] | None]:
    """Text fields that may be captured empty, with the numbers of the patterns whose every match captures them once; None
    instead of the numbers of all patterns.

    The parser grok gives null for an empty capture, the tools that are imported an empty text: after a match of these patterns
    null is an empty capture.
    """
    always: list[frozenset[str]] = []
    nullable: set[str] = set()
    for tree in trees:
        found = [one for one in walk(tree) if isinstance(one, Capture)]
        names = [one.field for one in found]
        always.append(_always(tree) & {one.field for one in found if names.count(one.field) == 1 and not one.cast})
        nullable |= {one.field for one in found if one.field in always[-1] and first_bytes(one.part)[1]}
    numbers = {name: frozenset(at for at, names in enumerate(always) if name in names) for name in sorted(nullable)}
    return {name: None if len(found) == len(always) else found for name, found in numbers.items()}


def optional_empty_captures(tree: Node) -> frozenset[str]:
    """Text fields that a pattern captures once, not in every match, and possibly empty."""
    found = [one for one in walk(tree) if isinstance(one, Capture)]
    names = [one.field for one in found]
    nullable = {one.field for one in found if not one.cast and names.count(one.field) == 1 and first_bytes(one.part)[1]}
    return frozenset(nullable) - _always(tree)


def mark_optional_groups(pattern: str, fields: frozenset[str], new_name: Callable[[], str]) -> tuple[str, dict[str, str]]:
    """The pattern with a capture around each optional group in which one of the fields takes part whenever the group does, and
    the names of these captures by field."""
    marks: dict[str, str] = {}
    edits: list[tuple[int, int, str]] = []
    groups: list[_Group] = []
    at = 0
    while at < len(pattern):
        if skipped := _NO_GROUP.match(pattern, at):
            if groups and (capture := _CAPTURE.fullmatch(skipped[0])) and capture[2] in fields:
                groups[-1].fields.add(capture[2])
            at = skipped.end()
            continue
        if opened := _OPENED.match(pattern, at):
            if groups and opened["name"] in fields:
                groups[-1].fields.add(opened["name"])
            groups.append(_Group(at, opened.end(), opened[0] in ("(", "(?:")))
            at = opened.end()
            continue
        if pattern[at] == "|" and groups:
            groups[-1].has_choice = True
        elif pattern[at] == ")" and groups:
            group = groups.pop()
            if pattern[at + 1 : at + 2] == "?" and group.is_plain and group.fields and not group.has_choice:
                edits.append((group.begin, group.inside, name := new_name()))
                marks |= dict.fromkeys(group.fields, name)
            elif groups and not group.has_choice and pattern[at + 1 : at + 2] not in ("?", "*", "{"):
                groups[-1].fields |= group.fields
        at += 1
    for begin, inside, name in sorted(edits, reverse=True):
        pattern = f"{pattern[:begin]}(?<{name}>{pattern[inside:]}"
    return pattern, marks


@dataclass
class _Group:
    begin: int
    inside: int
    is_plain: bool
    fields: set[str] = field(default_factory=set)
    has_choice: bool = False


_NO_GROUP = re.compile(r"\\.|\[\^?\]?(?:[^\]\\]|\\.)*\]|%\{[^{}]*\}", re.DOTALL)
"""A character that is escaped, a class of characters, or a reference."""

_OPENED = re.compile(r"\((?:\?<(?P<name>[A-Za-z_@][\w.@\[\]-]*)>|\?<?[:=!>]|\?)?")


def _always(node: Node) -> frozenset[str]:
    """Fields that take part in every match."""
    match node:
        case Capture(part, field):
            return _always(part) | {field}
        case Sequence(parts):
            return frozenset().union(*map(_always, parts))
        case Choice(parts):
            return frozenset.intersection(*map(_always, parts)) if parts else frozenset()
        case Repeat(part, least) if least:
            return _always(part)
        case Group() | Atomic():
            return _always(node.part)
    return frozenset()

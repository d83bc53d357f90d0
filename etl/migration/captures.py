"""Names of captures in grok patterns: ``%{NAME:field:type}`` and ``(?<field>…)``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

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

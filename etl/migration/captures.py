"""Names of captures in grok patterns: ``%{NAME:field:type}`` and ``(?<field>…)``."""

from __future__ import annotations

import re
from collections.abc import Mapping

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

"""References to patterns that are not written as one: grok matches them letter by letter, or ignores a part of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from etl.api import Finding
from etl.scanner.syntax import REFERENCE
from parsers.grok.meant_names import meant

_BEGINNING = re.compile(r"(?<!\\)%\{\w[^{}]*\}?")
_HINT = "write %{NAME}, %{NAME:field} or %{NAME:field:int}; a field has letters, digits, _, -, @ and dots"


def misspelt_references(pattern: str, path: tuple[str | int, ...]) -> Iterator[Finding]:
    """Warnings about what looks like ``%{NAME:field:type}`` and is not."""
    for found in _BEGINNING.finditer(pattern):
        text, at = found.group(), found.start()
        reference = REFERENCE.match(pattern, at)
        if not text.endswith("}"):
            message = f"{text!r} has no closing brace, and is matched letter by letter"
        elif reference is None:
            message = f"{text!r} is no reference to a pattern, and is matched letter by letter"
        elif ignored := _ignored(reference):
            message = f"of {text!r} the part {ignored!r} is ignored"
        else:
            continue
        yield Finding("bad-reference", message, path, _HINT, at=at, severity="warning")


def unknown_references(pattern: str, path: tuple[str | int, ...], known: frozenset[str], said: int) -> Iterator[Finding]:
    """References to patterns that there are not, but for the one at ``said``."""
    for found in REFERENCE.finditer(pattern):
        if found["name"] not in known and found.start() != said:
            message, hint = f"there is no grok pattern {found['name']!r}", meant(found["name"], known)
            yield Finding("unknown-pattern", message, path, hint, at=found.start())


def _ignored(reference: re.Match[str]) -> str:
    """What stands between the last part of a reference and its brace."""
    end = max(reference.end(part) for part in ("name", "field", "cast"))
    return reference.string[end : reference.end() - 1]

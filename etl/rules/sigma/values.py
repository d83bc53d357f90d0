"""Values of Sigma rules, with pySigma's modifiers applied → conditions.

Texts with wildcards are read here; all other types of values are read by the families of predicates (`Predicate.sigma_types`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from etl.rules.conditions.tree import Condition, Leaf, any_of
from etl.rules.predicates.families import FAMILIES
from etl.rules.predicates.pattern import Pattern
from etl.rules.predicates.predicate import ANY_FIELD, SigmaBuilder, TextKind, UnsupportedError
from etl.rules.predicates.present import Present
from etl.rules.predicates.text import Text

if TYPE_CHECKING:
    from sigma.types import SigmaType

Placeholders = Mapping[str, Sequence[str]]
"""Name → the texts that replace ``%name%``."""

MANY, ONE = "*", "?"

_Part: TypeAlias = str | tuple[str]
"""A wildcard as it is written, or a text in a tuple."""


def condition_of(field: str | None, value: SigmaType, placeholders: Placeholders) -> Condition:
    """The condition that a field (None: any text field) has a value. Raises UnsupportedError."""
    for name in (kind.__name__ for kind in type(value).__mro__):
        if name == "SigmaExpansion":
            return any_of(condition_of(field, one, placeholders) for one in value.values)  # type: ignore[attr-defined]
        if name == "SigmaString":
            return _read_text(ANY_FIELD if field is None else field, value, placeholders)
        build, may_be_keyword = _builders().get(name, (None, False))
        if build is not None:
            if field is None and not may_be_keyword:
                raise UnsupportedError(f"a keyword cannot be a {name.removeprefix('Sigma')}")
            return build(ANY_FIELD if field is None else field, value)
    raise UnsupportedError(f"values of the type {type(value).__name__} are not supported")


@lru_cache(maxsize=1)
def _builders() -> Mapping[str, tuple[SigmaBuilder, bool]]:
    """Types of pySigma, by class name → what builds the condition, and whether the value may be a keyword."""
    return {name: (build, name in family.keyword_types) for family in FAMILIES for name, build in family.sigma_types.items()}


# ── Texts with wildcards ──────────────────────────────────────────────────────────────────────────


def _read_text(field: str, value: Any, placeholders: Placeholders) -> Condition:
    from sigma.types import Placeholder, SigmaCasedString

    if value.contains_placeholder():
        return any_of(_read_text(field, one, {}) for one in value.replace_placeholders(_replacements(placeholders, Placeholder)))
    parts = _parts_of(value)
    if field == ANY_FIELD:
        parts = _merge([MANY, *parts, MANY])
    return _to_condition(field, parts, isinstance(value, SigmaCasedString))


def _replacements(placeholders: Placeholders, kind: type) -> Callable[[Any], Any]:
    def values(placeholder: Any) -> Any:
        if placeholder.name not in placeholders:
            raise UnsupportedError(f"the placeholder %{placeholder.name}% has no values; give it under placeholders")
        from sigma.types import SigmaString

        return iter([SigmaString(text) for text in placeholders[placeholder.name]])

    return values


def _parts_of(value: Any) -> list[_Part]:
    from sigma.types import SpecialChars

    wildcards = {SpecialChars.WILDCARD_MULTI: MANY, SpecialChars.WILDCARD_SINGLE: ONE}
    return _merge([wildcards.get(part, (part,)) for part in value.s])


def _merge(parts: Sequence[_Part]) -> list[_Part]:
    """Merge adjacent texts into one, and adjacent ``*`` into one."""
    merged: list[_Part] = []
    for part in parts:
        last = merged[-1] if merged else None
        if part == MANY == last:
            continue
        if isinstance(part, tuple) and isinstance(last, tuple):
            merged[-1] = (last[0] + part[0],)
        else:
            merged.append(part)
    return merged


_KINDS: Mapping[str, TextKind] = {"x": "equals", "x*": "startswith", "*x": "endswith", "*x*": "contains", "": "equals"}
"""By wildcards, with x for the text."""


def _to_condition(field: str, parts: Sequence[_Part], cased: bool) -> Condition:
    shape = "".join("x" if isinstance(part, tuple) else part for part in parts)
    if shape == MANY:
        return Leaf(Text(field, "contains", "")) if field == ANY_FIELD else Leaf(Present(field))
    if shape in _KINDS:
        return Leaf(Text(field, _KINDS[shape], "".join(part[0] for part in parts if isinstance(part, tuple)), cased))
    return Leaf(_to_pattern(field, parts, cased))


def _to_pattern(field: str, parts: Sequence[_Part], cased: bool) -> Pattern:
    """A regular expression for a text with wildcards inside; its literal is the longest part."""
    inner = "".join({MANY: ".*", ONE: "."}[part] if isinstance(part, str) else _escape(part[0], cased) for part in parts)
    start = "" if parts[0] == MANY else r"\A"
    end = "" if parts[-1] == MANY else r"\z"
    inner = inner.removeprefix(".*") if not start else inner
    inner = inner.removesuffix(".*") if not end else inner
    longest = max((part[0] for part in parts if isinstance(part, tuple)), key=len, default="")
    return Pattern(
        field, f"(?s{'' if cased else 'i'}){start}{inner}{end}", (longest,) if len(longest) > 1 and longest.isascii() else ()
    )


_EQUAL_TO_ASCII = {char: f"(?-i:[{both}])" for both in ("kK", "sS", "\u017f", "\u212a") for char in both}
"""Letters that RE2 treats as equal if case does not count, one of ASCII and one not: written so that each is only itself."""


def _escape(text: str, cased: bool) -> str:
    """A text in RE2's syntax: punctuation and control characters by their code; letters compared as `Text` compares them."""
    escaped = re.sub(r"(?a:[\x00-\x1f\x7f]|[!-/:-@\[-^`{-~])", lambda found: f"\\x{ord(found[0]):02x}", text)
    return escaped if cased else "".join(_EQUAL_TO_ASCII.get(char, char) for char in escaped)

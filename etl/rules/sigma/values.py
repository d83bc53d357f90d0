"""Values of Sigma rules, their modifiers applied by pySigma, as conditions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from etl.rules.conditions.predicates import ANY_FIELD, Network, Number, Pattern, Present, SameField, Text, TextKind, TimePart
from etl.rules.conditions.tree import FALSE, Condition, Leaf, either, opposite
from etl.rules.search.regex_literals import required
from etl.rules.search.regex_search import engine

if TYPE_CHECKING:
    from sigma.types import SigmaType

Placeholders = Mapping[str, Sequence[str]]
"""Name → what stands for ``%name%``."""

MANY, ONE = "*", "?"


class UnsupportedError(ValueError):
    """A value that cannot be decided, and why."""


def condition_of(field: str | None, value: SigmaType, placeholders: Placeholders) -> Condition:
    """A field (None: any text field) has a value."""
    from sigma import types

    for kind, build in _table():
        if isinstance(value, kind):
            if field is None and kind not in (
                types.SigmaString,
                types.SigmaExpansion,
                types.SigmaRegularExpression,
                types.SigmaNumber,
            ):
                raise UnsupportedError(f"a keyword cannot be a {kind.__name__.removeprefix('Sigma')}")
            return build(ANY_FIELD if field is None else field, value, placeholders)
    raise UnsupportedError(f"values of the type {type(value).__name__} are not supported")


def _string(field: str, value: Any, placeholders: Placeholders) -> Condition:
    from sigma.types import Placeholder, SigmaCasedString

    if value.contains_placeholder():
        return either(_string(field, one, {}) for one in value.replace_placeholders(_filled(placeholders, Placeholder)))
    parts = _parts(value)
    if field == ANY_FIELD:
        parts = _merged([MANY, *parts, MANY])
    return _matched(field, parts, isinstance(value, SigmaCasedString))


def _filled(placeholders: Placeholders, kind: type) -> Callable[[Any], Any]:
    def values(placeholder: Any) -> Any:
        if placeholder.name not in placeholders:
            raise UnsupportedError(f"the placeholder %{placeholder.name}% has no values; give it under placeholders")
        from sigma.types import SigmaString

        return iter([SigmaString(text) for text in placeholders[placeholder.name]])

    return values


def _parts(value: Any) -> list[str | tuple[str]]:
    """Wildcards as they are written, texts in a tuple."""
    from sigma.types import SpecialChars

    signs = {SpecialChars.WILDCARD_MULTI: MANY, SpecialChars.WILDCARD_SINGLE: ONE}
    return _merged([signs.get(part, (part,)) for part in value.s])


def _merged(parts: Sequence[str | tuple[str]]) -> list[str | tuple[str]]:
    """Neighbouring texts as one, several ``*`` as one."""
    merged: list[str | tuple[str]] = []
    for part in parts:
        last = merged[-1] if merged else None
        if part == MANY == last:
            continue
        if isinstance(part, tuple) and isinstance(last, tuple):
            merged[-1] = (last[0] + part[0],)
        else:
            merged.append(part)
    return merged


_APART = {char: f"(?-i:[{both}])" for both in ("kK", "sS", "\u017f", "\u212a") for char in both}
"""Letters that RE2 takes for one another without regard to case, one of ASCII and one beyond, each for itself."""

_SIMPLE: Mapping[str, TextKind] = {"x": "equals", "x*": "startswith", "*x": "endswith", "*x*": "contains", "": "equals"}


def _matched(field: str, parts: Sequence[str | tuple[str]], cased: bool) -> Condition:
    shape = "".join("x" if isinstance(part, tuple) else part for part in parts)
    if shape == MANY:
        return Leaf(Text(field, "contains", "")) if field == ANY_FIELD else Leaf(Present(field))
    if shape in _SIMPLE:
        return Leaf(Text(field, _SIMPLE[shape], "".join(part[0] for part in parts if isinstance(part, tuple)), cased))
    return Leaf(_wild(field, parts, cased))


def _wild(field: str, parts: Sequence[str | tuple[str]], cased: bool) -> Pattern:
    """Wildcards inside of a text: a regular expression, and its longest text to look for first."""
    inner = "".join({MANY: ".*", ONE: "."}[part] if isinstance(part, str) else _escaped(part[0], cased) for part in parts)
    start = "" if parts[0] == MANY else r"\A"
    end = "" if parts[-1] == MANY else r"\z"
    inner = inner.removeprefix(".*") if not start else inner
    inner = inner.removesuffix(".*") if not end else inner
    longest = max((part[0] for part in parts if isinstance(part, tuple)), key=len, default="")
    return Pattern(
        field, f"(?s{'' if cased else 'i'}){start}{inner}{end}", (longest,) if len(longest) > 1 and longest.isascii() else ()
    )


def _escaped(text: str, cased: bool) -> str:
    """A text as RE2 reads it: signs by number; letters that it takes for ones of ASCII, and these for them, as texts are
    compared."""
    signs = re.sub(r"(?a:[\x00-\x1f\x7f]|[!-/:-@\[-^`{-~])", lambda found: f"\\x{ord(found[0]):02x}", text)
    return signs if cased else "".join(_APART.get(char, char) for char in signs)


def _regex(field: str, value: Any, placeholders: Placeholders) -> Condition:
    from sigma.types import SigmaRegularExpressionFlag as Flag

    if value.contains_placeholder():
        raise UnsupportedError("placeholders in regular expressions are not supported")
    letters = {Flag.IGNORECASE: "i", Flag.MULTILINE: "m", Flag.DOTALL: "s"}
    flags = "".join(sorted(letters[flag] for flag in value.flags))
    pattern = (f"(?{flags})" if flags else "") + str(value.regexp)
    known = f"(?{flags.replace('m', '')}){value.regexp}" if flags.strip("m") else str(value.regexp)
    return Leaf(Pattern(field, pattern, required(known, engine(pattern))))


def _number(field: str, value: Any, placeholders: Placeholders) -> Condition:
    if field == ANY_FIELD:
        return Leaf(Text(field, "contains", str(value)))
    return Leaf(Number(field, "=", value.number))


def _compared(field: str, value: Any, placeholders: Placeholders) -> Condition:
    from sigma.types import CompareOperators as Op

    signs: Mapping[Any, Any] = {Op.LT: "<", Op.LTE: "<=", Op.GT: ">", Op.GTE: ">="}
    if value.op not in signs:
        return opposite(Leaf(Number(field, "=", value.number.number)))
    return Leaf(Number(field, signs[value.op], value.number.number))


def _reference(field: str, value: Any, placeholders: Placeholders) -> Condition:
    kinds: Mapping[tuple[bool, bool], TextKind] = {
        (False, False): "equals",
        (True, False): "startswith",
        (False, True): "endswith",
        (True, True): "contains",
    }
    return Leaf(SameField(field, kinds[value.starts_with, value.ends_with], value.field))


@lru_cache(maxsize=1)
def _table() -> tuple[tuple[type, Callable[[str, Any, Placeholders], Condition]], ...]:
    """Types of pySigma → conditions; a type stands before those it is derived from."""
    from sigma import types as t

    return (
        (t.SigmaExpansion, lambda field, value, filled: either(condition_of(field or None, one, filled) for one in value.values)),
        (t.SigmaString, _string),
        (
            t.SigmaTimestampPart,
            lambda field, value, _: Leaf(TimePart(field, value.timestamp_part.name.lower(), int(value.number))),
        ),
        (t.SigmaNumber, _number),
        (t.SigmaBool, lambda field, value, _: Leaf(Text(field, "equals", str(bool(value)).lower()))),
        (t.SigmaNull, lambda field, value, _: opposite(Leaf(Present(field)))),
        (t.SigmaExists, lambda field, value, _: Leaf(Present(field), negated=not value.exists)),
        (t.SigmaRegularExpression, _regex),
        (t.SigmaCIDRExpression, lambda field, value, _: Leaf(Network(field, str(value.network)))),
        (t.SigmaCompareExpression, _compared),
        (t.SigmaFieldReference, _reference),
    )


__all__ = ["FALSE", "Placeholders", "UnsupportedError", "condition_of"]

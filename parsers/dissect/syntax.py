"""A dissect pattern → its keys and the text between them.

Source: the manuals of Logstash's dissect filter and of the dissect processors of Elasticsearch and Filebeat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from etl.api import parse_type
from etl.scanner.pattern_error import PatternError
from etl.scanner.syntax import field_name

Kind = Literal["field", "append", "skip", "name", "value"]

_KEY = re.compile(r"%\{(?P<inside>[^{}]*)\}")
_INSIDE = re.compile(
    r"""
    (?P<modifier>[+?&*]?)
    (?P<name>[^/|>#]*?)
    (?:/(?P<order>\d{1,9}))?
    (?:\#(?P<length>\d{1,3}))?
    (?:\|(?P<type>[\w(), ]+))?
    (?P<padded>->)?
    (?:\|(?P<late_type>[\w(), ]+))?    # the type may also follow the arrow
    """,
    re.VERBOSE,
)
_KINDS: dict[str, Kind] = {"": "field", "+": "append", "?": "skip", "*": "name", "&": "value"}


@dataclass(frozen=True)
class Key:
    """One ``%{…}`` and the text around it."""

    kind: Kind
    name: str
    """A field; of a value the key that holds its field's name; empty for a key that only skips."""

    order: int | None
    length: int | None
    """Characters of its value; None where the text after it ends the value."""

    padded: bool
    """Whether the text after it may be repeated."""

    type: str | None
    before: str
    after: str
    """Empty at the pattern's end."""

    at: int
    """Where it stands in the pattern."""


class Dissection(NamedTuple):
    """A pattern: ``head`` is the text before the first key."""

    head: str
    keys: tuple[Key, ...]


@lru_cache(maxsize=64)
def dissection(pattern: str) -> Dissection | PatternError:
    """The pattern's keys, or what is wrong with it."""
    try:
        found = _read(pattern)
        _check(found.keys)
        return found
    except PatternError as error:
        return error.with_traceback(None)


def _read(pattern: str) -> Dissection:
    keys = list(_KEY.finditer(pattern))
    texts = list(_texts(pattern, keys))
    read = [_key(key, before, after) for key, before, after in zip(keys, texts, texts[1:], strict=False)]
    if not read:
        raise PatternError("there is no key; a key is written %{name}", 0)
    for key in read[:-1]:
        if not key.after and key.length is None:
            message = "nothing stands between two keys, so the end of the first is unknown"
            raise PatternError(message, key.at, hint="%{name#4} takes four characters")
    return Dissection(texts[0], tuple(read))


def _texts(pattern: str, keys: list[re.Match[str]]) -> Iterator[str]:
    """What stands before, between and after the keys."""
    at = 0
    for start, end in [*(key.span() for key in keys), (len(pattern), len(pattern))]:
        text = pattern[at:start]
        if "%{" in text:
            raise PatternError("'%{' without its '}'", at + text.index("%{"))
        yield text
        at = end


def _key(found: re.Match[str], before: str, after: str) -> Key:
    at = found.start("inside")
    inside = _INSIDE.fullmatch(found["inside"])
    if inside is None:
        raise PatternError(
            f"{found[0]!r} is not a key; keys are %{{name}} %{{name#4}} %{{+name/2}} %{{?name}} %{{*name}} %{{&name}}", at
        )
    kind = _KINDS[inside["modifier"]]
    name = inside["name"].strip()
    if not name and kind not in ("field", "skip"):
        raise PatternError(f"{found[0]!r} lacks a name after {inside['modifier']!r}", at)
    if inside["order"] and kind != "append":
        raise PatternError(f"{found[0]!r}: an order belongs to '+', as in %{{+name/2}}", at)
    order = int(inside["order"]) if inside["order"] else None
    length = int(inside["length"]) if inside["length"] else None
    if length == 0:
        raise PatternError(f"{found[0]!r}: a length is 1 to 999 characters", at)
    name = field_name(name, at) if name else ""
    padded = inside["padded"] is not None
    return Key(kind if name else "skip", name, order, length, padded, _type(inside, at), before, after, at)


def _type(inside: re.Match[str], at: int) -> str | None:
    text: str | None = inside["type"] or inside["late_type"]
    if text is None or text.strip() == "ip":  # Filebeat's type ip is a text, too
        return None
    try:
        parse_type(text)
    except ValueError as error:
        raise PatternError(str(error), at, "unreadable-type") from None
    return text


def _check(keys: tuple[Key, ...]) -> None:
    """References need both their ends."""
    values = {key.name for key in keys if key.kind == "value"}
    names = {key.name for key in keys if key.kind != "value"}
    for key in keys:
        if key.kind == "value" and key.name not in names:
            raise PatternError(f"no key {key.name!r} gives the name for %{{&{key.name}}}", key.at, "dangling-reference")
        if key.kind == "name" and key.name not in values:
            raise PatternError(f"no %{{&{key.name}}} uses the name that %{{*{key.name}}} gives", key.at, "dangling-reference")

"""Why a text does not match an option's pattern, in words instead of a regular expression."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

WORDS = "patternErrorMessage"
"""Key of a JSON schema whose text replaces the pattern in messages, also in editors: `is not a topic: letters, digits …`."""

_FIELD_NAME = "^[A-Za-z_@]"
_WEB = "^https?://"
_RANGES = {"A-Za-z": "letters", "a-z": "small letters", "A-Z": "capitals", "0-9": "digits"}
_CLASSES = re.compile(r"\^(?:\[(?P<first>(?:\\.|[^\]\\])+)\])?\[(?P<rest>(?:\\.|[^\]\\])+)\](?:[*+]|\{[\d,]+\})\$")


def pattern_words(text: str, schema: Mapping[str, Any], pattern: str) -> str:
    """Completes a sentence that begins with the text."""
    if pattern.startswith(_FIELD_NAME):
        return "is not a field name: letters, digits, '_', '@' and '-', with dots between members"
    if pattern.startswith(_WEB):
        return _web_words(text)
    if WORDS in schema:
        return str(schema[WORDS])
    found = _CLASSES.fullmatch(pattern)
    if found is None or found["rest"].startswith("^"):
        return "is not written as the option asks"
    first = f", and begins with {_class_words(found['first'])}" if found["first"] else ""
    return f"may hold only {_class_words(found['rest'])}{first}"


def _web_words(text: str) -> str:
    scheme, found, rest = text.partition("://")
    if not found:
        return f"is not a URL: write http://{text.strip()} or https://{text.strip()}" if text.strip() else "is not a URL"
    if scheme not in ("http", "https"):
        return f"is not a URL that begins with http:// or https://, but with {scheme}://"
    if re.search(r"\s", text):
        return "is not a URL: it has a blank in it"
    if not rest or rest[0] in "/?#":
        return "is not a URL: it names no host after ://"
    return "is not the URL of a server: leave out what begins with '#' or '?'"


def _class_words(characters: str) -> str:
    *front, last = list(_members(characters))
    return f"{', '.join(front)} and {last}" if front else last


def _members(characters: str) -> Iterator[str]:
    rest = characters
    for written, name in _RANGES.items():
        if written in rest:
            rest = rest.replace(written, "", 1)
            yield name
    others = rest.replace("\\", "")
    if others:
        yield f"the characters {' '.join(others)}" if len(others) > 1 else repr(others)

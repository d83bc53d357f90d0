"""Signs that look like those of SQL."""

from __future__ import annotations

from typing import Any

from etl.sql.statements import ScriptError


def look_alike(text: str, tokens: list[Any]) -> ScriptError | None:
    """Signs that look like those of SQL, as word processors and Chinese keyboards write them."""
    for token in tokens:
        found = (
            next((character for character in token.text if character in _LOOK_ALIKES), None)
            if token.token_type.name != "STRING"
            else None
        )
        if found:
            at = text.find(found, token.start)
            return ScriptError("sql-syntax", f"{found!r} is not a character of SQL", at, f"write {_LOOK_ALIKES[found]}")
    return None


_LOOK_ALIKES = dict(zip("\u2018\u2019\u201c\u201d\uff08\uff09\uff0c\uff1b\uff1d", "''\"\"(),;=", strict=True))
"""Quotes of word processors, and full-width characters of Chinese keyboards → the characters of SQL."""

"""Patterns of times in C's letters (``%Y-%m-%d``) → Java's (``yyyy-MM-dd``)."""

from __future__ import annotations

import re

from etl.migration.draft import NoCounterpartError
from etl.scanner.strftime_letters import LETTERS

_LETTERS = {
    **LETTERS,
    "L": "SSS",
    "f": "SSSSSS",
    "N": "SSSSSSSSS",
    "j": "DDD",
    "%": "%",
    ".f": "SSSSSSSSS",
    "3f": "SSS",
    "6f": "SSSSSS",
    "9f": "SSSSSSSSS",
    ":z": "xxx",
}
_PART = re.compile(r"%(\.f|[369]f|:z|.)|([A-Za-z]+)|(.)", re.DOTALL)


def java_pattern(pattern: str) -> str:
    """The pattern in Java's letters; ``%s`` is the word of the parser timestamp for seconds. Raises NoCounterpartError."""
    if re.fullmatch(r"%s(\.%(L|f|N|[369]f)|%\.f)?", pattern):
        return "epoch"
    if pattern == "%+":
        return "iso8601"
    made = ""
    for letter, word, character in _PART.findall(pattern):
        if letter and letter not in _LETTERS:
            raise NoCounterpartError(f"%{letter} in a pattern of times")
        made += _LETTERS[letter] if letter else f"'{word}'" if word else character.replace("'", "''")
    return made

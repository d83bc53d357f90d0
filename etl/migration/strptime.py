"""Patterns of times in C's letters (``%Y-%m-%d``) → Java's (``yyyy-MM-dd``)."""

from __future__ import annotations

import re

from etl.migration.draft import NotCarriedError

_LETTERS = {
    "Y": "yyyy",
    "y": "yy",
    "m": "MM",
    "d": "dd",
    "e": "d",
    "H": "HH",
    "k": "H",
    "I": "hh",
    "l": "h",
    "M": "mm",
    "S": "ss",
    "L": "SSS",
    "f": "SSSSSS",
    "N": "SSSSSSSSS",
    "b": "MMM",
    "h": "MMM",
    "B": "MMMM",
    "a": "EEE",
    "A": "EEEE",
    "p": "a",
    "z": "Z",
    "Z": "z",
    "j": "DDD",
    "T": "HH:mm:ss",
    "R": "HH:mm",
    "D": "MM/dd/yy",
    "F": "yyyy-MM-dd",
    "%": "%",
    ".f": "SSSSSSSSS",
    "3f": "SSS",
    "6f": "SSSSSS",
    "9f": "SSSSSSSSS",
    ":z": "xxx",
    "n": " ",
    "t": " ",
}
_PART = re.compile(r"%(\.f|[369]f|:z|.)|([A-Za-z]+)|(.)", re.DOTALL)


def java_pattern(pattern: str) -> str:
    """The pattern in Java's letters; ``%s`` is the word of the parser timestamp for seconds. Raises NotCarriedError."""
    if pattern in ("%s", "%s.%L"):
        return "epoch"
    if pattern == "%+":
        return "iso8601"
    made = ""
    for letter, word, sign in _PART.findall(pattern):
        if letter and letter not in _LETTERS:
            raise NotCarriedError(f"%{letter} in a pattern of times")
        made += _LETTERS[letter] if letter else f"'{word}'" if word else sign.replace("'", "''")
    return made

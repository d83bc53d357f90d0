"""Java's regular expressions in Python, with a limit of time."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from etl.expressions.library.kernels import RowError
from etl.expressions.output_limit import MAX_CHARACTERS, TOO_LONG

SECONDS = 2.0
"""How long one text may take: a pattern such as ``(a+)+$`` takes for ever on some; the event is rejected."""


MAX_PATTERN = 500
"""Characters of a pattern that is a value of an event: preparing one takes up to the third power of its length, 0.1 s for 500."""


class TimedPattern:
    """A pattern whose searches have a time limit. Raises RowError beyond it."""

    def __init__(self, pattern: str) -> None:
        import regex

        self.pattern = pattern
        self._compiled = regex.compile(_to_python(pattern))
        self.groups: int = self._compiled.groups

    def search(self, text: str) -> Any:
        return self._call_with_timeout(self._compiled.search, text)

    def find_all(self, text: str) -> list[Any]:
        """All matches."""
        return self._call_with_timeout(lambda value, timeout: list(self._compiled.finditer(value, timeout=timeout)), text)

    def replace(self, new: str, text: str) -> str:
        """The text with another for each match. Raises RowError where it would grow by more than a text may have."""
        left = MAX_CHARACTERS + len(text)

        def give(_: Any) -> str:
            nonlocal left
            left -= len(new)
            if left < 0:
                raise RowError(TOO_LONG)
            return new

        return str(self._call_with_timeout(lambda value, timeout: self._compiled.sub(give, value, timeout=timeout), text))

    def split(self, text: str, maxsplit: int = 0) -> list[str]:
        return self._call_with_timeout(
            lambda value, timeout: self._compiled.split(value, maxsplit=maxsplit, timeout=timeout), text
        )

    def _call_with_timeout(self, call: Callable[..., Any], text: str) -> Any:
        try:
            return call(text, timeout=SECONDS)
        except TimeoutError as error:
            raise RowError(f"the pattern {self.pattern!r} took more than {SECONDS:g} seconds for a text") from error


@lru_cache(maxsize=256)
def compile_timed(pattern: str) -> TimedPattern | None:
    """The pattern for Python, None if it is invalid; ``\\z`` is Python's ``\\Z``."""
    import regex

    try:
        return TimedPattern(pattern)
    except (regex.error, OverflowError, RecursionError):
        return None


_JAVA = re.compile(r"\\(?:p\{(\w+)\}|(.))|\(\?<(?=[A-Za-z])", re.DOTALL)


_CLASSES = {
    "Alpha": "a-zA-Z", "Digit": "0-9", "Alnum": "a-zA-Z0-9", "Upper": "A-Z", "Lower": "a-z", "Punct": r"!-/:-@\[-`{-~",
    "Space": r"\s", "XDigit": "0-9a-fA-F", "IsAlphabetic": r"^\W\d_", "L": r"^\W\d_", "IsDigit": r"\d",
}  # fmt: skip


_ESCAPES = {"d": "[0-9]", "D": "[^0-9]", "w": "[a-zA-Z0-9_]", "W": "[^a-zA-Z0-9_]", "s": r"[ \t\n\x0b\f\r]",
            "S": r"[^ \t\n\x0b\f\r]",
            "z": r"\Z", "Z": r"(?=\n?\Z)", "h": r"[ \t]", "e": r"\x1b"}  # fmt: skip


def _to_python(pattern: str) -> str:
    """Java's syntax in Python's; classes such as ``\\d`` are of ASCII, as in Java."""
    inside = _insides(pattern)

    def write(found: re.Match[str]) -> str:
        if found[0].startswith("(?<"):
            return "(?P<"
        name = _CLASSES.get(found[1]) if found[1] else None
        text = f"[{name}]" if name else _ESCAPES.get(found[2] or "", found[0])
        is_inside = inside[found.start()]
        return (
            text[1:-1]
            if is_inside and text.startswith("[") and not text.startswith("[^")
            else text
            if not is_inside
            else found[0]
        )

    return _JAVA.sub(write, pattern)


def _insides(pattern: str) -> list[bool]:
    """For each character, whether it is inside brackets."""
    inside, found, escaped = False, [], False
    for character in pattern:
        found.append(inside)
        if escaped:
            escaped = False
        elif character == "\\":
            escaped = True
        elif character == "[":
            inside = True
        elif character == "]":
            inside = False
    return found

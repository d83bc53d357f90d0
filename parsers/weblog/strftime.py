"""Formats of C's strftime → those of `timestamp`.

Source: POSIX strftime, Apache's ``%{format}t`` and the fractions of a second that chrono and Python write (``%f %3f %.6f``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from etl.scanner.pattern_error import PatternError
from etl.scanner.strftime_letters import LETTERS

_CODE = re.compile(r"%(?P<flags>[-_0^#:]*)(?P<point>\.?)(?P<digits>\d?)(?P<letter>.)", re.DOTALL)

_SHORT = {"dd": "d", "MM": "M", "HH": "H", "hh": "h", "mm": "m", "ss": "s"}
"""Numbers without padding (``%-d``), or padded with blanks."""

_WHOLE = {"%s": "epoch", "%+": "iso8601"}
"""Formats that have names."""

_LITERAL = re.compile(r"(?:[^%]|%%)+")

_PLAIN = " :/-,."
"""Characters that stand for themselves in a time pattern."""


def is_strftime(text: str) -> bool:
    """Whether a format is written so, and not in the letters of `timestamp`."""
    return "%" in text


def time_format(text: str) -> str:
    """``%d/%b/%Y:%T %z`` → ``dd/MMM/yyyy:HH:mm:ss Z``. Raises PatternError."""
    return _WHOLE.get(text) or "".join(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        found = _CODE.match(text, at)
        if found and found["letter"] != "%":
            yield _letters(found, at)
            at = found.end()
            continue
        literal = _LITERAL.match(text, at)
        if literal is None:
            raise PatternError("a '%' at the end; a per cent sign is written %%", at)
        yield _quote(literal[0].replace("%%", "%"))
        at = literal.end()


def _quote(text: str) -> str:
    """Literal text as it stands in a time pattern."""
    if set(text) <= set(_PLAIN):
        return text
    doubled = text.replace("'", "''")
    return f"'{doubled}'" if text.strip("'") else doubled


def _letters(code: re.Match[str], at: int) -> str:
    if code["letter"] in "fNL":
        return code["point"] + "S" * int(code["digits"] or 9)
    letters = LETTERS.get(code["letter"])
    if letters is None or code["point"] or code["digits"]:
        known = " ".join(f"%{letter}" for letter in LETTERS)
        raise PatternError(f"{code[0]!r} is not a code of a time", at, hint=f"codes are {known} %f")
    return _SHORT.get(letters, letters) if set(code["flags"]) & set("-_") else letters

"""Java's formats (``java.util.Formatter``) with Python's: the usual conversions."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from etl.expressions.output_limit import MAX_CHARACTERS

_DIRECTIVE = re.compile(r"%(?:(?P<index>\d+)\$)?(?P<flags>[-#+ 0,(]*)(?P<width>\d+)?(?:\.(?P<precision>\d+))?(?P<kind>[a-zA-Z%])")

MAX_WIDTH = 100_000
"""Characters to which a value is filled: a format with more gives null."""


def printf(template: str, *values: Any) -> str | None:
    """The text, None if the format does not fit the values."""
    out, at, number, length = [], 0, 0, 0
    try:
        while at < len(template):
            if template[at] != "%":
                end = template.find("%", at)
                out.append(template[at : end if end >= 0 else None])
                at = end if end >= 0 else len(template)
                continue
            found = _DIRECTIVE.match(template, at)
            if found is None:
                return None
            at = found.end()
            if found["kind"] in "%n":
                out.append("%" if found["kind"] == "%" else "\n")
                continue
            position = int(found["index"]) - 1 if found["index"] else number
            number += not found["index"]
            out.append(_one(found, values[position]))
            length += len(out[-1])
            if length > MAX_CHARACTERS + sum(len(value) for value in values if isinstance(value, str)):
                return None
    except (ValueError, TypeError, IndexError):
        return None
    return "".join(out)


def _one(found: re.Match[str], value: Any) -> str:
    kind, flags = found["kind"], found["flags"]
    width = int(found["width"] or 0)
    if width > MAX_WIDTH or int(found["precision"] or 0) > MAX_WIDTH:
        raise ValueError(width)
    lower = kind.lower()
    if lower == "s":
        text = _shown(value)
        text = text[: int(found["precision"])] if found["precision"] else text
    elif lower == "b":
        text = str(value is not None and value is not False).lower()
    elif lower == "c":
        text = chr(value) if isinstance(value, int) else value
    else:
        spec = "".join(flag for flag in "+ #" if flag in flags) + ("0" if "0" in flags else "") + (str(width) if width else "")
        text = _number(lower, spec + ("," if "," in flags else ""), found["precision"], value)
    text = text.upper() if kind.isupper() else text
    return text.ljust(width) if "-" in flags else text.rjust(width)


def _number(kind: str, spec: str, precision: str | None, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int if kind in "dxo" else float | Decimal):
        raise ValueError(kind)
    return format(value, spec + (f".{precision or 6}" if kind in "feg" else "") + kind)


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)

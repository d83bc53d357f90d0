"""Java's formats (``java.util.Formatter``) with Python's: the usual conversions."""

from __future__ import annotations

import math
import re
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

from etl.expressions.output_limit import MAX_CHARACTERS

_DIRECTIVE = re.compile(r"%(?:(?P<index>\d+)\$)?(?P<flags>[-#+ 0,(]*)(?P<width>\d+)?(?:\.(?P<precision>\d+))?(?P<kind>[a-zA-Z%])")

MAX_WIDTH = 100_000
"""Characters to which a value is filled: a format with more gives null."""


def printf(template: str | None, *values: Any) -> str | None:
    """The text, None if the format is null or does not fit the values; a value that is null is written so."""
    if template is None:
        return None
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
    if lower == "s" or (value is None and lower != "b"):
        text = _shown(value)
        text = text[: int(found["precision"])] if found["precision"] else text
    elif lower == "b":
        text = str(value is not None and value is not False).lower()
    elif lower == "c":
        text = chr(value) if isinstance(value, int) else value
    else:
        text = _number(lower, flags, width, found["precision"], value)
    text = text.upper() if kind.isupper() else text
    return text.ljust(width) if "-" in flags else text.rjust(width)


def _number(kind: str, flags: str, width: int, precision: str | None, value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, int if kind in "dxo" else float | Decimal):
        raise ValueError(kind)
    if kind in "xo" and value < 0:
        value += 1 << (32 if value >= -(1 << 31) else 64)
    if kind in "feg" and math.isfinite(value):  # Java rounds half up the decimal text of a number
        text = _fraction(kind, Decimal(repr(value)) if isinstance(value, float) else value, int(precision or 6), flags)
    else:
        text = format(abs(value), ("#" if "#" in flags else "") + ("," if "," in flags else "") + kind)
    sign = "-" if value < 0 else "+" if "+" in flags else " " if " " in flags else ""
    left, right = ("(", ")") if sign == "-" and "(" in flags else (sign, "")
    zeros = max(0, width - len(left) - len(text) - len(right)) if "0" in flags else 0
    return left + "0" * zeros + text + right


def _fraction(kind: str, value: Decimal, digits: int, flags: str) -> str:
    """The digits of a finite number without its sign."""
    size = abs(value)
    if kind == "g":  # `precision` significant digits: plain from 0.0001 on
        digits = max(digits, 1)
        if not size or Decimal("0.0001") <= size < Decimal(10) ** digits:
            kind, digits = "f", digits - 1 - (size.adjusted() if size else 0)
        else:
            kind, digits = "e", digits - 1
    context = Context(prec=MAX_WIDTH + 400)
    if kind == "f":
        return format(size.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, context), ",f" if "," in flags else "f")
    power = size.adjusted() if size else 0
    mantissa = size.scaleb(-power, context).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, context)
    if mantissa >= 10:
        mantissa, power = mantissa.scaleb(-1).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP, context), power + 1
    return f"{mantissa:f}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if value is None else str(value)

"""The second argument of an aggregate where it is written as a number, or as a list of numbers."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

MAX_COLLECTED = 100_000
"""Values: Spark's own bound of ``min_by``."""

MAX_ESTIMATED = 1000
"""Values of ``approx_top``: fewer than it counts."""

MAX_BOUNDS = 1000
"""Bounds of a histogram."""


MIN_ERROR, MAX_ERROR = 0.005, 0.4
"""Relative standard errors of ``approx_count_distinct``: the smallest one needs 320 KB a group; Spark's largest one is 0.39."""


class Buckets(NamedTuple):
    """The buckets of a histogram: all of one width from 0 on, or those between bounds."""

    width: float | None
    bounds: tuple[float, ...] = ()


def check_share(text: str) -> str | None:
    """Why this is not a share, or None."""
    number = _number(text)
    good = number is not None and 0 <= number <= 1
    return None if good else f"the second argument is a number from 0 to 1, and it is {text!r}"


def check_limit(text: str, maximum: int = MAX_COLLECTED) -> str | None:
    """Why this is not a number of values, or None."""
    good = text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= maximum and len(text) <= 9
    return None if good else f"the second argument is a whole number from 1 to {maximum}, and it is {text!r}"


def check_top(text: str) -> str | None:
    """Why this is not a number of values of ``approx_top``, or None."""
    return check_limit(text, MAX_ESTIMATED)


def check_error(text: str) -> str | None:
    """Why this is not a relative standard error of an estimate, or None."""
    number = _number(text)
    good = number is not None and MIN_ERROR <= number <= MAX_ERROR
    bounds = f"the second argument is a relative standard error from {MIN_ERROR} to {MAX_ERROR}"
    return None if good else f"{bounds}, and it is {text!r}"


def check_buckets(text: str) -> str | None:
    """Why these are not buckets, or None."""
    return (
        None
        if read_buckets(text)
        else (
            "the second argument is the width of a bucket such as 100, or a list of bounds in ascending order such as "
            f"[0.1, 0.5, 1], at most {MAX_BOUNDS}; and it is {text!r}"
        )
    )


def read_buckets(text: str) -> Buckets | None:
    """``100``, ``[0.1, 0.5, 1]`` or ``array(0.1, 0.5, 1)``; None for anything else."""
    text = f"[{text[6:-1]}]" if text.startswith("array(") and text.endswith(")") else text
    if not text.startswith("["):
        width = _number(text)
        return Buckets(width) if width is not None and width > 0 else None
    if not text.endswith("]"):
        return None
    found = [_number(part) for part in text[1:-1].split(",")]
    bounds = tuple(number for number in found if number is not None)
    ascending = all(low < high for low, high in pairwise(bounds))
    return Buckets(None, bounds) if len(bounds) == len(found) <= MAX_BOUNDS and ascending else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None

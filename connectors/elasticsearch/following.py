"""Positions in time: where a micro-batch ends, and how it is cut."""

from __future__ import annotations

from collections.abc import Callable

ENOUGH = 0.8
"""A cut that has so much of what was asked for is good."""

Count = Callable[[int, int], int]
"""How many documents there are from one time to before another (milliseconds)."""


def cut(count: Count, low: int, high: int, most: int) -> int:
    """The time before which, from ``low`` on, there are at most ``most`` documents and almost as many, or those of one
    millisecond. Halves the time until it is found: some ten questions."""
    begin, good = low, low + 1
    while high - good > 1:
        middle = (good + high) // 2
        found = count(begin, middle)
        if found > most:
            high = middle
            continue
        good = middle
        if found >= ENOUGH * most:
            break
    return good


def edges(count: Count, low: int, high: int, parts: int) -> list[int]:
    """Times that cut the documents between two into about equal parts."""
    total = count(low, high)
    found = [low]
    for part in range(1, parts):
        share = -(-total * part // parts) - -(-total * (part - 1) // parts)
        found.append(min(high, cut(count, found[-1], high, share)))
    return [*found, high]

"""Time ranges with a given number of documents: the end of a micro-batch, and its splits."""

from __future__ import annotations

from collections.abc import Callable

MIN_FILL = 0.8
"""A range is accepted if it has this share of the requested documents."""

CountDocuments = Callable[[int, int], int]
"""Returns the number of documents from one time to before another (milliseconds)."""


def find_end_time(count: CountDocuments, low: int, high: int, max_documents: int) -> int:
    """Return the time before which, from ``low`` on, there are at most ``max_documents`` documents and almost as many, or
    those of one millisecond.

    Bisects the time range, with about ten requests.
    """
    begin, good = low, low + 1
    while high - good > 1:
        middle = (good + high) // 2
        found = count(begin, middle)
        if found > max_documents:
            high = middle
            continue
        good = middle
        if found >= MIN_FILL * max_documents:
            break
    return good


def divide_time(count: CountDocuments, low: int, high: int, parts: int) -> list[int]:
    """Return times that divide the documents between two times into about equal parts."""
    total = count(low, high)
    found = [low]
    for part in range(1, parts):
        share = -(-total * part // parts) - -(-total * (part - 1) // parts)
        found.append(min(high, find_end_time(count, found[-1], high, share)))
    return [*found, high]

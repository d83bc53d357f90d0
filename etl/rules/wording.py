"""Counts in words, for messages."""

from __future__ import annotations


def count_noun(number: int, singular: str, plural: str = "") -> str:
    """``1 rule``, ``2 rules``. The plural is the singular with an s if it is not given."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"

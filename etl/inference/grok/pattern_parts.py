"""A grok expression → the parts it is put together of, so that its beginnings can be tried one by one."""

from __future__ import annotations

import re
from collections.abc import Sequence

_TOKEN = re.compile(
    r"""
      %\{ [^}]* \}                              # a named pattern
    | \\ (?: [pP]\{[^}]*\} | [xk][{<][^}>]*[}>] | x[0-9a-fA-F]{2} | . )   # an escape
    | \[ \^? \]? (?: \\. | \[:\^?\w+:\] | [^\]\\] )* \]                   # a class
    | .                                         # anything else
    """,
    re.VERBOSE | re.DOTALL,
)
_REPEATED = re.compile(r"(?:[*+?]|\{\d*,?\d*\})[+?]?")


def alternatives(pattern: str) -> list[list[str]]:
    """The parts of each alternative; the parts of one put together are its text again."""
    found: list[list[str]] = [[]]
    at = 0
    while at < len(pattern):
        end = _part_end(pattern, at)
        part = pattern[at:end]
        if part == "|":
            found.append([])
        else:
            found[-1].append(part)
        at = end
    return found


def _part_end(pattern: str, at: int) -> int:
    """The end of the part that begins at a character: a group with all in it, and how often it is repeated."""
    depth = 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        assert token is not None
        at = token.end()
        depth += (token[0] == "(") - (token[0] == ")")
        if depth <= 0:
            break
    if pattern[at - 1 : at] == "|" and depth <= 0:
        return at
    repeated = _REPEATED.match(pattern, at)
    return repeated.end() if repeated else at


def next_part(parts: Sequence[str]) -> str:
    """What the pattern wants next, to be shown: a named pattern or a group, or plain text up to the next of them."""
    if not parts:
        return "the end of the pattern"
    if len(parts[0]) > 1 and parts[0][:1] in "%([":
        return parts[0]
    plain = next((number for number, part in enumerate(parts) if len(part) > 1 and part[:1] in "%(["), len(parts))
    return f"`{''.join(parts[:plain])}`"

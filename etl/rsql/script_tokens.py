"""Tokens of scripts."""

from __future__ import annotations

import re
from dataclasses import dataclass

from etl.rsql.problems import SourceError

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|//[^\n]*)
  | (?P<text>'(?:[^']|'')*'|"[^"]*")
  | (?P<number>-?\d+(?:\.\d+)?(?![\w.]))
  | (?P<sign>&&|\|\||==|!=|<>|>=|<=|[=<>&|(){};,:+*/%-])
  | (?P<word>!?[^\W\d][\w.$@-]*|!(?!=)|`[^`]+`)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """A token: its kind is the name of a group of the pattern, or ``end``."""

    kind: str
    text: str
    at: int


def read_tokens(text: str) -> tuple[list[Token], list[SourceError]]:
    """The tokens, and signs that belong to none; after a quote that is not closed, reading continues in the next line."""
    found: list[Token] = []
    errors: list[SourceError] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            is_quote = text[at] in "'\""
            what = "this quote is not closed" if is_quote else f"{text[at]!r} does not belong here"
            errors.append(SourceError("script-syntax", what, at))
            line_end = text.find("\n", at) if is_quote else at + 1
            at = len(text) if line_end < 0 else line_end
            continue
        if token.lastgroup != "blank":
            found.append(Token(str(token.lastgroup), token[0], at))
        at = token.end()
    return found, errors

"""The text of an aggregate taken apart: ``f(x, n) filter (where c)`` → its pieces, each with its place in the text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from etl.api import Finding


class Piece(NamedTuple):
    """A part of the text, and where in it the part begins."""

    text: str
    at: int


class Call(NamedTuple):
    """An aggregate taken apart, its arguments not yet looked at."""

    function: str
    arguments: tuple[Piece, ...]
    where: Piece | None = None


class _Token(NamedTuple):
    word: str
    start: int
    end: int


_EXAMPLES = "write for example sum(x) or count(*)"


def read_call(text: str) -> Call | Finding:
    """``f(x, n) filter (where c)`` → its pieces, or a finding that says how an aggregate is written."""
    tokens = _tokens(text)
    if isinstance(tokens, Finding):
        return tokens
    words = [token.word for token in tokens]
    hint = f"the key is its name: {words[-1]}: {text[: tokens[-2].start].strip()}" if words[-2:-1] == ["as"] else None
    bad = Finding("bad-aggregate", f"{text!r} is not one call of an aggregate", hint=hint or _EXAMPLES, at=0)
    close = _closing(words, 1)
    if close is None:
        return bad
    function, first = words[0], 2
    if words[2] == "distinct":
        function, first = f"{function} distinct", 3
    arguments = tuple(_pieces(text, tokens, first, close))
    rest = words[close + 1 :]
    if not rest:
        return Call(function, arguments)
    if rest[:3] != ["filter", "(", "where"] or _closing(words, close + 2) != len(words) - 1 or len(rest) < 5:
        return bad
    return Call(function, arguments, _cut(text, tokens[close + 4 : -1]))


def _tokens(text: str) -> list[_Token] | Finding:
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import TokenError

    try:
        found = Spark().tokenize(text)
    except TokenError as error:
        return Finding("bad-aggregate", f"{text!r} cannot be read: {error}", at=0)
    return [_Token(text[t.start : t.end + 1].lower(), t.start, t.end + 1) for t in found]


def _closing(words: list[str], opening: int) -> int | None:
    """The place of the bracket that closes the one at ``opening``."""
    if words[opening : opening + 1] != ["("]:
        return None
    depth = 0
    for at in range(opening, len(words)):
        depth += {"(": 1, ")": -1}.get(words[at], 0)
        if depth == 0:
            return at
    return None


def _pieces(text: str, tokens: list[_Token], first: int, close: int) -> Iterable[Piece]:
    """Arguments between two places, cut at the commas outside brackets."""
    begin, depth = first, 0
    for at in range(first, close + 1) if first < close else ():
        word = tokens[at].word
        if (word == "," and depth == 0) or at == close:
            yield _cut(text, tokens[begin:at])
            begin = at + 1
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(word, 0)


def _cut(text: str, tokens: list[_Token]) -> Piece:
    return Piece(text[tokens[0].start : tokens[-1].end], tokens[0].start) if tokens else Piece("", 0)

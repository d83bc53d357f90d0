"""The text of an aggregate, ``f(x, n) filter (where c)`` → its parts, each with its offset in the text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from etl.api import Finding
from etl.udf.declaration import functions_of, with_functions


class TextPart(NamedTuple):
    """A part of the text, and its offset."""

    text: str
    at: int


class AggregateCall(NamedTuple):
    """The call of an aggregate; its arguments are not analysed yet."""

    function: str
    arguments: tuple[TextPart, ...]
    where: TextPart | None = None
    per_second: bool = False
    """Whether it is inside ``per_second(…)``; its filter may be inside or after it."""


class _Token(NamedTuple):
    word: str
    start: int
    end: int


_EXAMPLES = "write for example sum(x) or count(*)"
_PER_SECOND = "per_second"


def read_call(text: str) -> AggregateCall | Finding:
    """``f(x, n) filter (where c)`` → its parts, or a finding that shows how an aggregate is written."""
    tokens = _tokens(text)
    if isinstance(tokens, Finding):
        return tokens
    return _read_rate(text, tokens) if tokens and tokens[0].word == _PER_SECOND else _read_tokens(text, tokens)


def _read_rate(text: str, tokens: list[_Token]) -> AggregateCall | Finding:
    """``per_second(f(x)) filter (where c)``: what is inside and the filter, as one call."""
    words = [token.word for token in tokens]
    close = _closing_index(words, 1)
    if close is None or words[3:4] != ["("]:
        hint = "write for example per_second(count(*)) or per_second(sum(x))"
        return Finding("bad-aggregate", f"per_second takes an aggregate, and this is {text!r}", hint=hint, at=0)
    call = _read_tokens(text, [*tokens[2:close], *tokens[close + 1 :]])
    return call if isinstance(call, Finding) else call._replace(per_second=True)


def _read_tokens(text: str, tokens: list[_Token]) -> AggregateCall | Finding:
    words = [token.word for token in tokens]
    hint = f"the key is its name: {words[-1]}: {text[: tokens[-2].start].strip()}" if words[-2:-1] == ["as"] else None
    bad = Finding("bad-aggregate", f"{text!r} is not one call of an aggregate", hint=hint or _EXAMPLES, at=0)
    close = _closing_index(words, 1)
    if close is None:
        return bad
    function, first = words[0], 2
    if words[2] == "distinct":
        function, first = f"{function} distinct", 3
    arguments = tuple(_split_arguments(text, tokens, first, close))
    rest = words[close + 1 :]
    if not rest:
        return AggregateCall(function, arguments)
    if rest[:3] != ["filter", "(", "where"] or _closing_index(words, close + 2) != len(words) - 1 or len(rest) < 5:
        return bad
    return AggregateCall(function, arguments, _text_part(text, tokens[close + 4 : -1]))


def _tokens(text: str) -> list[_Token] | Finding:
    from sqlglot.dialects.spark import Spark
    from sqlglot.errors import TokenError

    try:
        found = Spark().tokenize(text)
    except TokenError as error:
        return Finding("bad-aggregate", f"{text!r} cannot be read: {error}", at=0)
    return [_Token(text[t.start : t.end + 1].lower(), t.start, t.end + 1) for t in found]


def _closing_index(words: list[str], opening: int) -> int | None:
    """The index of the bracket that closes the one at ``opening``."""
    if words[opening : opening + 1] != ["("]:
        return None
    depth = 0
    for at in range(opening, len(words)):
        depth += {"(": 1, ")": -1}.get(words[at], 0)
        if depth == 0:
            return at
    return None


def _split_arguments(text: str, tokens: list[_Token], first: int, close: int) -> Iterable[TextPart]:
    """The arguments between two indexes, split at the commas outside brackets."""
    begin, depth = first, 0
    for at in range(first, close + 1) if first < close else ():
        word = tokens[at].word
        if (word == "," and depth == 0) or at == close:
            yield _text_part(text, tokens[begin:at])
            begin = at + 1
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(word, 0)


def _text_part(text: str, tokens: list[_Token]) -> TextPart:
    if not tokens:
        return TextPart("", 0)
    return TextPart(with_functions(text[tokens[0].start : tokens[-1].end], functions_of(text)), tokens[0].start)

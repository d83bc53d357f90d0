"""A CSV record → a pattern of the scanner.

Source: RFC 4180; beyond it other delimiters and quotes, a backslash as escape, blanks around values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce

from etl.scanner.char_class import ANY, CharClass, one_of
from etl.scanner.tree import Anchor, Capture, Chars, Choice, Node, Repeat, sequence

_LINE_END = one_of("\r").union(one_of("\n"))
_BLANK = one_of(" ").union(one_of("\t"))


REST = "rest"
"""The capture of what follows the last column; columns' captures have numbers."""


@dataclass(frozen=True)
class Dialect:
    """How records are written."""

    delimiter: str
    quote: str
    """Empty where nothing is quoted."""

    backslash: bool
    """Whether a backslash escapes a quote, instead of another quote."""

    trim: bool


def plain(column: int) -> str:
    """The capture of a value as it stands in the text."""
    return f"c{column}"


def escaped(column: int) -> str:
    """The capture of a value that has escaped characters in it."""
    return f"c{column}e"


def record(dialect: Dialect, is_captured: Sequence[bool], first: int, rest: Node | None, *, ends: bool) -> Node:
    """Columns from number ``first`` on, of which those that ``is_captured`` marks are captured.

    ``rest`` is what follows the last one and a delimiter: at will where the record ``ends`` here, else without fail.
    """
    delimiter = Chars(one_of(dialect.delimiter))
    columns = [_value(dialect, number if captured else None) for number, captured in enumerate(is_captured, first)]
    parts: list[Node] = [columns[0]]
    for column in columns[1:]:
        parts += [delimiter, column]
    if rest is not None:
        parts.append(Repeat(sequence([delimiter, rest]), 0 if ends else 1, 1))
    line_end: list[Node] = [Repeat(Chars(one_of("\r")), 0, 1), Repeat(Chars(one_of("\n")), 0, 1), Anchor("\\z")]
    return sequence([Anchor("\\A"), *parts, *line_end])


def anything() -> Node:
    """Whatever follows."""
    return Capture(Repeat(Chars(ANY), 0, None), REST)


def delimiters(dialect: Dialect) -> Node:
    """Nothing but delimiters."""
    return Capture(Repeat(Chars(one_of(dialect.delimiter)), 0, None), REST)


def _value(dialect: Dialect, column: int | None) -> Node:
    forms = [*_quoted_values(dialect, column), _unquoted_value(dialect, column)]
    value: Node = Choice(tuple(forms)) if len(forms) > 1 else forms[0]
    if not dialect.trim:
        return value
    blanks = Repeat(Chars(_without(_BLANK, one_of(dialect.delimiter))), 0, None)
    return sequence([blanks, value, blanks])


def _quoted_values(dialect: Dialect, column: int | None) -> Iterator[Node]:
    """Between quotes: without escapes, and with."""
    if not dialect.quote:
        return
    quote = Chars(one_of(dialect.quote))
    special = [one_of(dialect.quote), *([one_of("\\")] if dialect.backslash else [])]
    others = Chars(reduce(CharClass.union, special).inverted())
    pair = sequence([Chars(one_of("\\")), Chars(ANY)]) if dialect.backslash else sequence([quote, quote])
    yield sequence([quote, _capture(Repeat(others, 0, None), None if column is None else plain(column)), quote])
    several = sequence([Repeat(others, 0, None), Repeat(sequence([pair, Repeat(others, 0, None)]), 1, None)])
    yield sequence([quote, _capture(several, None if column is None else escaped(column)), quote])


def _unquoted_value(dialect: Dialect, column: int | None) -> Node:
    inner = _LINE_END.union(one_of(dialect.delimiter)).inverted()
    first = _without(inner, one_of(dialect.quote)) if dialect.quote else inner
    text = sequence([Chars(first), Repeat(Chars(inner), 0, None)])
    if dialect.trim:
        edge = _without(first, _BLANK)
        last = sequence([Repeat(Chars(inner), 0, None), Chars(_without(inner, _BLANK))])
        text = sequence([Chars(edge), Repeat(last, 0, 1)])
    return _capture(Repeat(text, 0, 1), None if column is None else plain(column))


def _capture(part: Node, name: str | None) -> Node:
    return part if name is None else Capture(part, name)


def _without(chars: CharClass, others: CharClass) -> CharClass:
    return chars.without(others)

"""Parts of a query's text, found by its tokens: items between commas, arguments of a call, names without their tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

_DEPTH = {"L_PAREN": 1, "R_PAREN": -1, "L_BRACKET": 1, "R_BRACKET": -1, "CASE": 1, "END": -1}


def tokenize(text: str) -> list[Any]:
    """The tokens of a text in Spark's SQL; their positions are those in this text."""
    from sqlglot.dialects.spark import Spark

    return list(Spark().tokenize(text))


def split_at_commas(tokens: Sequence[Any]) -> list[list[Any]]:
    """The tokens between commas outside brackets."""
    items: list[list[Any]] = [[]]
    for token, depth in _with_depth(tokens):
        if token.token_type.name == "COMMA" and not depth:
            items.append([])
        else:
            items[-1].append(token)
    return items


def call_arguments(tokens: Sequence[Any]) -> list[list[Any]]:
    """The tokens of each argument of the call that they begin with: ``name(a, b) …``."""
    first, last = _brackets(tokens)
    inside = tokens[first + 1 : last]
    return split_at_commas(inside) if inside else []


def quoted_names(text: str, tokens: Sequence[Any]) -> tuple[str, ...]:
    """The texts in the place of names behind the call that they begin with, as they are written."""
    behind = tokens[_brackets(tokens)[1] + 1 :]
    return tuple(text[token.start : token.end + 1] for token in behind if token.token_type.name == "STRING")


def _brackets(tokens: Sequence[Any]) -> tuple[int, int]:
    """Where the brackets of the first call are."""
    first = next(at for at, token in enumerate(tokens) if token.token_type.name == "L_PAREN")
    return first, next(at for at, (_, depth) in enumerate(_with_depth(tokens)) if at > first and not depth)


def lateral_views(tokens: Sequence[Any]) -> list[list[Any]]:
    """The tokens of each ``LATERAL VIEW``, from its function's name on."""
    views: list[list[Any]] = []
    skipped = {"LATERAL", "VIEW", "OUTER"}
    for token, depth in _with_depth(tokens):
        is_begin = not depth and token.text.upper() == "LATERAL"
        if is_begin:
            views.append([])
        elif views and (views[-1] or token.text.upper() not in skipped):
            views[-1].append(token)
    return views


def without_alias(tokens: list[Any]) -> list[Any]:
    """The tokens of an item without ``AS name``, ``name`` or ``AS (name, …)``."""
    if tokens[-1].token_type.name == "R_PAREN":
        opening = max(at for at, token in enumerate(tokens) if token.token_type.name == "L_PAREN")
        tokens = tokens[:opening]
    else:
        tokens = tokens[:-1]
    return tokens[:-1] if tokens[-1].token_type.name == "ALIAS" else tokens


def with_field_names(text: str, tokens: Sequence[Any], name_of: Callable[[str, str], str | None]) -> str:
    """The text of these tokens, where a column with the name of its table is a field.

    ``name_of(table, column)`` (in lower case) is the field for both, empty for the column as it is written, or None if there
    is no such table or no such column in it.
    """
    parts, at = [], tokens[0].start
    for before, table, dot, column in zip([None, *tokens], tokens, tokens[1:], tokens[2:], strict=False):
        is_begin = before is None or before.text != "."
        field = name_of(table.text.lower(), column.text.lower()) if dot.text == "." and is_begin else None
        if field is not None:
            parts += [text[at : table.start], field]
            at = column.end + 1 if field else column.start
    return "".join([*parts, text[at : tokens[-1].end + 1]])


def _with_depth(tokens: Sequence[Any]) -> Iterator[tuple[Any, int]]:
    """Each token with the number of open brackets behind it."""
    depth = 0
    for token in tokens:
        depth += _DEPTH.get(token.token_type.name, 0)
        yield token, depth

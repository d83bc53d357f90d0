"""Finds what sqlglot reads although a part is missing: ``concat(a, , b)``, ``select a, from t``, ``a in ()``, ``join t on``.

Spark and Flink refuse them. It searches the tokens, because the tree does not show that something was expected.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from etl.expressions.token_context import TokenContext

_ENDS = frozenset(
    (
        "",
        "SEMICOLON",
        "COMMA",
        "R_PAREN",
        "R_BRACKET",
        "FROM",
        "WHERE",
        "GROUP_BY",
        "HAVING",
        "ORDER_BY",
        "LIMIT",
        "JOIN",
        "UNION",
    )
)
"""Tokens, and the end of the text, at which no value, table or name begins."""

_BEGINNINGS = frozenset(("", "L_PAREN", "L_BRACKET", "SELECT", "DISTINCT", "FROM", "GROUP_BY", "ORDER_BY", "PARTITION_BY"))
"""Tokens behind which a list begins."""

_BETWEEN = frozenset(("ALIAS", "EXCEPT", "FOR", "IN", "ON", "USING"))
"""Words between two parts."""


class MissingPart(NamedTuple):
    """Where something is missing, and what to do."""

    at: int
    message: str
    hint: str


def find_missing_part(text: str, tokens: Sequence[Any]) -> MissingPart | None:
    """The first position of an expression or query at which something is missing, or None."""
    for number, token in enumerate(tokens):
        found = _check(TokenContext(text, tokens, number))
        if found is not None:
            return MissingPart(token.start, *found)
    return None


def _check(here: TokenContext) -> tuple[str, str] | None:
    kind, word = here.kind(), here.word()
    if kind == "COMMA":
        begins = here.kind(-1) in _BEGINNINGS and here.kind(-2) != "DOT"  # a field may be called so, as in mail.from
        side = "before" if begins else "after" if _ends(here) else ""
        return (f"something is missing {side} this ','", "write it, or remove the comma") if side else None
    if kind in _BETWEEN and (here.is_operand(-1) or here.kind(-1) in ("NOT", "STAR")):
        if _ends(here):
            return f"something is missing after {word!r}", "write it, or remove the word"
        if kind in ("EXCEPT", "IN") and (here.kind(1), here.kind(2)) == ("L_PAREN", "R_PAREN"):
            return f"the list after {word!r} is empty", "write what is in it"
    if kind == "NOT" and here.kind(1) == "NULL" and here.kind(-1) in ("VAR", "R_BRACKET"):
        return f"'is' is missing before {word!r}", "write IS NOT NULL"
    if kind == "INTERVAL" and here.word(1).isdecimal() and not here.is_name(2):
        return "an interval has a unit", f"interval {here.word(1)} minutes"
    return None


def _ends(here: TokenContext) -> bool:
    """Whether nothing follows the token; ``where => …`` is an argument."""
    return here.kind(1) in _ENDS and here.kind(2) != "FARROW"

"""Parses expressions to syntax trees, with sqlglot's Spark grammar; function calls are left as written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from etl.api import Finding, cut
from etl.expressions.missing_parts import find_missing_part
from etl.expressions.unsupported_syntax import find_unsupported_syntax

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

_SPECIAL_CALLS = ("CAST", "TRY_CAST", "TRIM", "SUBSTR", "SUBSTRING", "EXTRACT", "POSITION", "OVERLAY")
"""Functions whose arguments are not a plain list, such as ``cast(x as int)``."""

_NO_EXPRESSION = ("Alias", "Aliases", "Select", "Union", "Command", "Block", "Drop", "Create", "Insert", "Star", "Use", "Set")
MAX_TOKENS = 50_000
"""Maximum number of tokens of an expression: with this number lint takes two seconds, and Spark compiles far fewer."""
_LONGEST_TOKEN = 100
"""Maximum number of characters of a token on average."""

_POSITION = re.compile(r"\s*Line \d+, Col: \d+\.")


class BadExpressionError(ValueError):
    """The text is not an expression; ``at`` is the character of the error."""

    def __init__(self, message: str, at: int, hint: str | None = None) -> None:
        super().__init__(message)
        self.at = at
        self.hint = hint

    def finding(self) -> Finding:
        return Finding("bad-expression", str(self), hint=self.hint, at=self.at)


def parse(text: str) -> Node:
    """Parse an expression; names, literals and calls of the tree have ``meta["start"]``. Raises BadExpressionError."""
    trees = parse_statements(text, query=False)
    if len(trees) != 1 or trees[0] is None:
        raise BadExpressionError("one expression is expected", 0)
    return _check(trees[0])


def parse_statements(text: str, *, query: bool = True) -> list[Node | None]:
    """Parse all statements of a text. Raises BadExpressionError."""
    from sqlglot.errors import SqlglotError, TokenError

    grammar, parser = _grammar()
    try:
        tokens = grammar.tokenize(text[: MAX_TOKENS * _LONGEST_TOKEN])
    except TokenError as error:
        raise BadExpressionError(f"a quote or comment is not closed: {_first_line(error)}", len(text)) from error
    if len(tokens) > MAX_TOKENS or len(text) > MAX_TOKENS * _LONGEST_TOKEN:
        raise BadExpressionError(f"more than {MAX_TOKENS:,} tokens", 0, "the step lookup compares with a table of any size")
    found = find_unsupported_syntax(text, tokens, query=query)
    if found is not None:
        raise BadExpressionError(found.message, found.at, found.hint)
    tokens = _join_raw_strings(tokens)
    if not query:
        _read_first_word_as_field(tokens, parser)
    try:
        trees = list(parser(dialect=grammar).parse(tokens, text))
    except SqlglotError as error:
        hint = _FILTER_HINT if _FILTER.match(text) else None
        raise BadExpressionError(*_explain(error, text), hint) from error
    except RecursionError as error:
        raise BadExpressionError(TOO_DEEP, 0, DEEP_HINT) from error
    if missing := find_missing_part(text, tokens):
        raise BadExpressionError(missing.message, missing.at, missing.hint)
    if _CONSTANT_MEMBER.search(text):
        _locate_members(trees, tokens)
    return trees


_CONSTANT_MEMBER = re.compile(r"\.\s*(?:true|false|null)\b", re.IGNORECASE)


def _locate_members(trees: Iterable[Node | None], tokens: Sequence[Any]) -> None:
    """Give members that are called like constants, as in ``a.true``, their name as written and their position."""
    numbers = {token.start: number for number, token in enumerate(tokens)}
    names: list[Any] = [node for tree in trees if tree for node in tree.walk() if type(node).__name__ in ("Column", "Dot")]
    for name in names:
        parts = list(name.parts)
        for before, part in pairwise(parts):
            if "start" not in part.meta and (number := numbers.get(before.meta.get("start"))) is not None:
                token = tokens[number + 2]  # behind the dot
                part.set("this", token.text)
                part.meta.update(start=token.start, end=token.end)


def _join_raw_strings(tokens: list[Any]) -> list[Any]:
    """Tokens in which texts that follow each other are one text where one of them is raw: sqlglot joins others itself.

    In a raw text a doubled quote ends one text and begins another: ``r'a''b'`` is ``ab``.
    """
    from sqlglot.tokenizer_core import TokenType

    if not any(token.token_type == TokenType.RAW_STRING for token in tokens):
        return tokens
    texts = (TokenType.STRING, TokenType.RAW_STRING)
    joined: list[Any] = []
    for token in tokens:
        if joined and token.token_type in texts and joined[-1].token_type in texts:
            joined[-1].text += token.text
            joined[-1].token_type = TokenType.STRING
        else:
            joined.append(token)
    return joined


_AFTER_A_FIELD = frozenset(["is", "in", "like", "ilike", "rlike", "between", "not", "and", "or", "div"])


def _read_first_word_as_field(tokens: list[Any], parser: Any) -> None:
    """Let a word that begins a statement be a field where an operator follows: ``comment = 'x'``, ``load is null``."""
    from sqlglot.tokenizer_core import TokenType

    if not tokens or tokens[0].token_type not in parser.STATEMENT_PARSERS:
        return
    after = tokens[1].text.lower() if len(tokens) > 1 else ""
    if not after[:1].isalpha() or after in _AFTER_A_FIELD:
        tokens[0].token_type = TokenType.VAR


_FILTER = re.compile(r"\s*!?\(+[\w.]+,[=!<>~\w]+,")
_FILTER_HINT = "this looks like a filter expression of RocketMQ Streams: `etl convert --from rules` prints it in Spark SQL"

TOO_DEEP = "the expression is nested too deeply"
DEEP_HINT = "set parts of it as fields of their own; concat(a, b, …) joins any number of texts"


def start(node: Node) -> int:
    """The first character of a node, or of its leftmost part with a known position."""
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts, default=0)


@lru_cache(maxsize=1)
def _grammar() -> tuple[Any, Any]:
    from sqlglot.dialects.spark import Spark
    from sqlglot.parser import logger as _sqlglot_log
    from sqlglot.parsers.spark import SparkParser

    _sqlglot_log.setLevel("ERROR")  # its warnings on the terminal repeat findings

    class AsWritten(SparkParser):
        """A parser without sqlglot's own functions, which it would rename and rewrite."""

        FUNCTIONS = {}  # noqa: RUF012
        FUNCTION_PARSERS = {name: SparkParser.FUNCTION_PARSERS[name] for name in _SPECIAL_CALLS}  # noqa: RUF012
        NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
            name: parse for name, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if name not in ("TRANSFORM",)
        }

    class DoubledQuotes(Spark):
        """Spark's tokens; a doubled quote in a string is one quote, and not the end and the begin of two strings."""

        class Tokenizer(Spark.Tokenizer):
            STRING_ESCAPES = ["\\", "'", '"']  # noqa: RUF012

    return DoubledQuotes(), AsWritten


_ARROW_HINT = "get_json_object(text, '$.name') reads JSON; a lambda is an argument, as in transform(a, x -> x + 1)"


def _check(tree: Node) -> Node:
    kind = type(tree).__name__
    if kind in _NO_EXPRESSION or (kind == "Tuple" and not tree.expressions):
        raise BadExpressionError("an expression is expected here, not a query, a list or a name for it", start(tree))
    for node in tree.walk():
        if type(node).__name__ in ("Subquery", "Select"):
            raise BadExpressionError("a query cannot stand inside an expression", start(node))
        if type(node).__name__ in ("JSONExtract", "JSONExtractScalar"):
            raise BadExpressionError("'->' is not an operator of Spark SQL", start(node), _ARROW_HINT)
    return tree


def _explain(error: Exception, text: str) -> tuple[str, int]:
    details = getattr(error, "errors", None)
    if not details:
        return _first_line(error), 0
    first = details[0]
    at = _offset(text, first.get("line") or 1, first.get("col") or 1, len(first.get("highlight") or ""))
    what = first.get("description") or "syntax error"
    if what.startswith("Required keyword"):
        what = f"something is missing beside {first.get('highlight')!r}"
    elif what.startswith("Expecting )"):
        what = "a bracket ')' is missing"
    elif what.startswith("Invalid expression"):
        what = f"{first.get('highlight')!r} does not belong here"
    return f"{_POSITION.sub('', what)} in {_excerpt(text, at)!r}", at


def _excerpt(text: str, at: int) -> str:
    """The text, or the part of a long text around a position."""
    return text if len(text) <= _LONGEST_SHOWN else cut(text[max(0, at - _LONGEST_SHOWN // 2) :], _LONGEST_SHOWN)


_LONGEST_SHOWN = 120
"""Characters of an expression that a message quotes."""


def _offset(text: str, line: int, column: int, width: int) -> int:
    """The offset of a token: sqlglot gives its line and the column of its last character, both from 1."""
    before = sum(len(part) for part in text.splitlines(keepends=True)[: line - 1])
    return max(0, min(len(text), before + column - max(width, 1)))


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__

"""Names, words and texts of a statement, and errors that say what is missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from etl.sql.statements import ScriptError

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


class TokenParser(SparkParser):
    """Reads single parts of a statement. Its methods raise ScriptError."""

    def _name(self) -> tuple[str, int]:
        self._match_text_seq("IF", "NOT", "EXISTS")
        token = self._curr
        parts = [self._id("a name")]
        while self._match(TokenType.DOT):
            parts.append(self._id("a name"))
        return parts[-1], token.start

    def _id(self, what: str) -> str:
        node = self._parse_id_var(any_token=True)
        if node is None:
            raise self._missing(what)
        return str(node.name)

    def _dotted_name(self) -> str:
        """A class without quotes."""
        parts = [self._id("a class in quotes")]
        while self._match(TokenType.DOT):
            parts.append(self._id("a name"))
        return ".".join(parts)

    def _text(self) -> str:
        node = self._parse_string()
        if node is None:
            raise self._missing("a text in quotes")
        return str(node.name)

    def _take(self) -> None:
        """Go to the next word, of which there must be one more."""
        if not self._curr:
            raise self._missing("more")
        self._advance()

    def _missing(self, what: str) -> ScriptError:
        token = self._curr
        if not token:
            return ScriptError("sql-syntax", f"{what} is missing at the end of the statement", self._prev.end)
        return ScriptError("sql-syntax", f"{what} is expected, not {token.text!r}", token.start)

    def _expect(self, token_type: Any, what: str) -> None:
        if not self._match(token_type):
            raise self._missing(what)

    def _is_at(self, words: str) -> bool:
        """Whether words follow; the tokenizer joins some, such as PRIMARY KEY, whatever the blanks between them."""
        return bool(self._curr) and " ".join(self._curr.text.upper().split()) == words

    def _matches_words(self, words: str) -> bool:
        found = self._is_at(words)
        if found:
            self._take()
        return found

    def _expression_here(self) -> Node:
        node = self._parse_disjunction()
        if node is None:
            raise self._missing("an expression")
        return node

"""Types of scripts, and the expressions that name one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from etl.sql.grammar.token_parser import TokenParser
from etl.sql.statements import ScriptError

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

TYPE_NAMES = {
    "LONG": "BIGINT",
    "STRING": "STRING",
    "BYTES": "BINARY",
    "VARBINARY": "BINARY",
    "TEXT": "STRING",
    "DATETIME": "TIMESTAMP",
}
"""Names of types that Spark does not have, or reads otherwise."""

_KNOWN = (
    *TYPE_NAMES,
    *("VARCHAR", "CHAR", "TINYINT", "SMALLINT", "INT", "INTEGER", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN", "BINARY"),
    *("DATE", "TIME", "TIMESTAMP", "TIMESTAMP_LTZ", "ARRAY", "MAP", "ROW"),
)
"""Names of types, for hints."""


class TypeParser(TokenParser):
    """Reads types, casts and lists of columns."""

    def _type(self) -> Node:
        token = self._curr
        if self._match_text_seq("ROW"):
            return self._row_type(token)
        if self._curr and self._curr.text.upper() in TYPE_NAMES:
            self._take()
            node: Any = exp.DataType.build(TYPE_NAMES[token.text.upper()], dialect="spark")
            node.meta["start"] = token.start
            return node
        node = self._parse_types(schema=True)
        if node is None:
            raise self._unknown_type()
        self._match_text_seq("WITH", "LOCAL", "TIME", "ZONE")
        self._match_text_seq("WITHOUT", "TIME", "ZONE")
        node.meta.setdefault("start", token.start)
        return node

    def _unknown_type(self) -> ScriptError:
        """A word that is not a type, with the type that is probably meant."""
        error = self._missing("a type")
        near = get_close_matches(self._curr.text.upper(), _KNOWN, 1) if self._curr else []
        error.hint = f"is {near[0]} meant?" if near else None
        return error

    def _row_type(self, token: Any) -> Node:
        """``ROW<name TYPE, …>`` or ``ROW(name TYPE, …)``."""
        end = TokenType.GT if self._match(TokenType.LT) else TokenType.R_PAREN
        if end == TokenType.R_PAREN:
            self._expect(TokenType.L_PAREN, "'<'")
        members = []
        while not self._match(end):
            name = self._id("a member")
            members.append(exp.ColumnDef(this=exp.to_identifier(name), kind=self._type()))
            self._match_text_seq("NOT", "NULL")
            if self._match(TokenType.STRING):
                pass  # a comment
            if not self._match(TokenType.COMMA) and not (self._curr and self._curr.token_type == end):
                raise self._missing("',' or the end of ROW")
        node = exp.DataType(this=exp.DType.STRUCT, expressions=members, nested=True)
        node.meta["start"] = token.start
        return node

    def _cast_to_type(self, safe: bool) -> Node:
        """``x AS type`` in CAST or TRY_CAST, with the types of scripts."""
        value = self._expression_here()
        self._expect(TokenType.ALIAS, "AS")
        return exp.TryCast(this=value, to=self._type(), safe=safe)

    def _names_in_brackets(self) -> tuple[str, ...]:
        self._expect(TokenType.L_PAREN, "'('")
        names = [self._id("a column")]
        while not self._match(TokenType.R_PAREN):
            if not self._match(TokenType.COMMA):
                self._type()  # rsqldb names the types of columns to which INSERT writes
                if not self._match(TokenType.COMMA):
                    self._expect(TokenType.R_PAREN, "')'")
                    break
            names.append(self._id("a column"))
        return tuple(names)

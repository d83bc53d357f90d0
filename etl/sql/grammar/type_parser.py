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


_ELSEWHERE = frozenset({"MULTISET", "RAW", "VARIANT", "DESCRIPTOR"})
"""Types of Flink that events do not have."""


class TypeParser(TokenParser):
    """Reads types, casts and lists of columns."""

    def _type(self) -> Node:
        node = self._one_type()
        if self._curr and self._curr.text.upper() == "MULTISET":
            raise ScriptError(
                "bad-type", "there is no type MULTISET here", self._curr.start, "MAP<type, INT> has how often each comes"
            )
        while self._match_text_seq("ARRAY"):
            node = _nested(exp.DType.ARRAY, [node], node.meta["start"])
        return node

    def _one_type(self) -> Node:
        token = self._curr
        if self._match_text_seq("ROW"):
            return self._row_type(token)
        name, following = (token.text.upper() if token else ""), self._next
        if name in ("ARRAY", "MAP") and following and following.token_type == TokenType.LT:
            return self._elements(name)
        if name in TYPE_NAMES or name == "BINARY":
            self._take()
            length = self._match_length()
            node: Any = exp.DataType.build(TYPE_NAMES.get(name, name), dialect="spark")
            node.meta["start"] = token.start
            if node.this == exp.DType.BINARY and name != "BYTES":
                node.meta["length"] = (name, length or 1)
            return node
        if name in _ELSEWHERE:
            raise ScriptError("bad-type", f"there is no type {name} here", token.start, "read it as STRING, or as BIGINT")
        node = self._parse_types(schema=True)
        if node is None:
            raise self._unknown_type()
        self._match_text_seq("WITH", "LOCAL", "TIME", "ZONE")
        self._match_text_seq("WITHOUT", "TIME", "ZONE")
        node.meta.setdefault("start", token.start)
        return node

    def _match_length(self) -> int | None:
        """``(10)`` behind a type that has no length here."""
        if not self._match(TokenType.L_PAREN):
            return None
        self._expect(TokenType.NUMBER, "a number")
        length = self._prev.text
        self._expect(TokenType.R_PAREN, "')'")
        return int(length)

    def _elements(self, name: str) -> Node:
        """``ARRAY<type>`` or ``MAP<type, type>``."""
        start = self._curr.start
        self._take()
        self._take()
        types = []
        for number in range(2 if name == "MAP" else 1):
            if number:
                self._expect(TokenType.COMMA, "','")
            types.append(self._type())
            self._match_text_seq("NOT", "NULL")
        self._expect(TokenType.GT, "'>'")
        return _nested(exp.DType[name], types, start)

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
            members.append(exp.ColumnDef(this=exp.to_identifier(name), kind=_plain(self._type())))
            self._match_text_seq("NOT", "NULL")
            self._match_text_seq("COMMENT")
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
            if self._match_text_seq("COMMENT"):
                self._expect(TokenType.STRING, "a comment")
                continue
            if not self._match(TokenType.COMMA):
                self._type()  # rsqldb names the types of columns to which INSERT writes
                if not self._match(TokenType.COMMA):
                    self._expect(TokenType.R_PAREN, "')'")
                    break
            names.append(self._id("a column"))
        return tuple(names)


def _nested(kind: Any, types: list[Any], start: int) -> Any:
    """The type of arrays or maps."""
    node = exp.DataType(this=kind, expressions=[_plain(one) for one in types], nested=True)
    node.meta["start"] = start
    return node


def _plain(type_: Any) -> Any:
    """The type of a part of another one: texts have no length there."""
    if type_.this not in (exp.DType.VARCHAR, exp.DType.CHAR):
        return type_
    text = exp.DataType.build("string")
    text.meta["start"] = type_.meta["start"]
    return text

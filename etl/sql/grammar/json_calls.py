"""Parses calls of JSON functions, whose arguments are not a plain list: ``JSON_VALUE(x, '$.a' RETURNING INT NULL ON ERROR)``.

They become calls with plain arguments, as `etl.expressions.library.flink.json.functions` takes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

JSON_CALLS = ("JSON_VALUE", "JSON_QUERY", "JSON_EXISTS", "JSON_OBJECT", "JSON_ARRAY", "JSON_OBJECTAGG", "JSON_ARRAYAGG")

_NESTED = ("json_object", "json_array", "json")
"""Calls whose result stands in an object or array as JSON, not as a text."""


class JsonCalls:
    """A part of the parser of scripts."""

    def parse_json_call(self: Any, name: str) -> Node:
        """The arguments of a call, up to its closing bracket."""
        if name in ("JSON_OBJECT", "JSON_ARRAY"):
            return self._json_constructor(name)
        if name in ("JSON_OBJECTAGG", "JSON_ARRAYAGG"):
            return self._json_aggregate(name)
        arguments = self._parse_csv(self._parse_disjunction)
        clauses: dict[str, str] = {}
        if self._match_text_seq("RETURNING"):
            clauses["returning"] = self._type().sql(dialect="spark").lower()
        clauses |= self._wrapper_clause()
        while (behaviour := self._behaviour()) is not None:
            self._match_text_seq("ON")
            event = "empty" if self._match_text_seq("EMPTY") else "error"
            if event == "error":
                self._match_text_seq("ERROR")
            clauses[f"on_{event}"] = behaviour
        return _call(name, [*arguments, *_clauses(name, clauses)])

    def _wrapper_clause(self: Any) -> dict[str, str]:
        for words in (("WITHOUT",), ("WITH", "CONDITIONAL"), ("WITH", "UNCONDITIONAL"), ("WITH",)):
            if self._match_text_seq(*words):
                self._match_text_seq("ARRAY")
                self._match_text_seq("WRAPPER")
                return {"wrapper": {("WITHOUT",): "without", ("WITH", "CONDITIONAL"): "conditional"}.get(words, "unconditional")}
        return {}

    def _behaviour(self: Any) -> str | None:
        """What JSON functions give on empty or on error; ``default:…`` for a default."""
        for word in ("TRUE", "FALSE", "UNKNOWN", "NULL", "ERROR"):
            if self._match_text_seq(word):
                return word.lower()
        if self._match_text_seq("EMPTY"):
            kind = "object" if self._match_text_seq("OBJECT") else "array"
            self._match_text_seq("ARRAY")
            return f"empty {kind}"
        if self._match_text_seq("DEFAULT"):
            value = self._parse_unary()
            text = value.name if getattr(value, "is_string", False) else value.sql(dialect="spark").lower()
            return f"default:{text}"
        return None

    def _json_constructor(self: Any, name: str) -> Node:
        from sqlglot import exp
        from sqlglot.tokenizer_core import TokenType

        arguments: list[Any] = []
        default = "null" if name == "JSON_OBJECT" else "absent"
        while self._curr and self._curr.token_type != TokenType.R_PAREN:
            mode = self._null_mode()
            if mode:
                default = mode
                break
            if name == "JSON_OBJECT":
                self._match_text_seq("KEY")
                arguments.append(self._parse_bitwise())
                if not self._match_text_seq("VALUE") and not self._match(TokenType.COLON):
                    raise self._missing("VALUE")
            value = self._parse_bitwise()
            arguments.append(_call("raw_json", [value]) if _is_json(value) else value)
            default = self._null_mode() or default
            if not self._match(TokenType.COMMA):
                break
        return _call(name, [exp.Literal.string(default), *arguments])

    def _json_aggregate(self: Any, name: str) -> Node:
        """``JSON_OBJECTAGG([KEY] k VALUE v [NULL ON NULL])``, ``JSON_ARRAYAGG([DISTINCT] x [NULL ON NULL])``."""
        from sqlglot.tokenizer_core import TokenType

        if name == "JSON_OBJECTAGG":
            self._match_text_seq("KEY")
            arguments = [self._parse_bitwise()]
            if not self._match_text_seq("VALUE") and not self._match(TokenType.COLON):
                raise self._missing("VALUE")
            arguments.append(self._parse_bitwise())
        else:
            is_distinct = self._match(TokenType.DISTINCT)
            value = self._parse_bitwise()
            if value is None:
                raise self._missing("a value")
            arguments = [exp.Distinct(expressions=[value]) if is_distinct else value]
        default = "null" if name == "JSON_OBJECTAGG" else "absent"
        return _call(name, [*arguments, exp.Literal.string(self._null_mode() or default)])

    def _null_mode(self: Any) -> str | None:
        for word in ("NULL", "ABSENT"):
            if self._match_text_seq(word, "ON", "NULL"):
                return word.lower()
        return None


def _is_json(node: Any) -> bool:
    return isinstance(node, exp.Anonymous) and str(node.this).lower() in _NESTED


def _call(name: str, arguments: list[Any]) -> Node:
    return exp.Anonymous(this=name, expressions=arguments)


def _clauses(name: str, clauses: dict[str, str]) -> list[Any]:
    """The clauses as arguments, as far as the last that is written."""
    order = {
        "JSON_EXISTS": (("on_error", "false"),),
        "JSON_VALUE": (("returning", "string"), ("on_empty", "null"), ("on_error", "null")),
        "JSON_QUERY": (("returning", "string"), ("wrapper", "without"), ("on_empty", "null"), ("on_error", "null")),
    }[name]
    last = max((at for at, (clause, _) in enumerate(order) if clause in clauses), default=-1)
    return [exp.Literal.string(clauses.get(clause, default)) for clause, default in order[: last + 1]]

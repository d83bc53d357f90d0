"""The grammar of ``MATCH_RECOGNIZE (…)``."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from etl.sql.statements import ScriptError


def read_match(parser: Any, table: Any) -> Any:
    """The clause after its name, as ``TABLE(MATCH_RECOGNIZE(table, clause))``. Raises ScriptError."""
    at = parser._prev.start
    parser._expect(TokenType.L_PAREN, "'('")
    found: dict[str, Any] = {}
    while not parser._match(TokenType.R_PAREN):
        _read_part(parser, found)
    if "pattern" not in found:
        raise ScriptError("sql-syntax", "MATCH_RECOGNIZE has no PATTERN", at, "PATTERN (A B+ C)")
    clause = exp.MatchRecognize(**found)
    node = exp.TableFromRows(this=exp.Anonymous(this="MATCH_RECOGNIZE", expressions=[table, clause]))
    node.meta["start"] = at
    node.this.meta["start"] = at
    clause.meta["start"] = at
    if alias := parser._parse_table_alias():
        node.set("alias", alias)
    return node


def _read_part(parser: Any, found: dict[str, Any]) -> None:
    if parser._matches_words("PARTITION BY"):
        found["partition_by"] = parser._parse_csv(parser._parse_column)
    elif parser._matches_words("ORDER BY"):
        parser._retreat(parser._index - 1)
        found["order"] = parser._parse_order()
    elif parser._match_text_seq("MEASURES"):
        found["measures"] = parser._parse_csv(parser._parse_expression)
    elif parser._match_text_seq("ONE", "ROW", "PER", "MATCH"):
        pass
    elif parser._match_text_seq("ALL", "ROWS", "PER", "MATCH"):
        raise ScriptError(
            "unsupported-sql", "ALL ROWS PER MATCH is not supported", parser._prev.start, "a match is one row: ONE ROW PER MATCH"
        )
    elif parser._match_text_seq("AFTER", "MATCH", "SKIP"):
        found["after"] = _skip(parser)
    elif parser._match_text_seq("PATTERN"):
        found["pattern"] = _pattern(parser)
        if parser._match_text_seq("WITHIN"):
            found["within"] = parser._expression_here()
    elif parser._match_text_seq("WITHIN"):
        found["within"] = parser._expression_here()
    elif parser._match_text_seq("DEFINE"):
        found["define"] = parser._parse_csv(lambda: _definition(parser))
    else:
        raise parser._missing("PARTITION BY, ORDER BY, MEASURES, ONE ROW PER MATCH, AFTER MATCH, PATTERN or DEFINE")


def _skip(parser: Any) -> Any:
    at = parser._curr.start if parser._curr else parser._prev.end
    if parser._match_text_seq("PAST", "LAST", "ROW"):
        return exp.Var(this="past_last_event")
    if parser._match_text_seq("TO", "NEXT", "ROW"):
        return exp.Var(this="next_event")
    if parser._match_text_seq("TO"):
        which = "first" if parser._match_text_seq("FIRST") else "last"
        if which == "last":
            parser._match_text_seq("LAST")
        at = parser._curr.start if parser._curr else parser._prev.end
        node = exp.Var(this=which, variable=parser._id("a variable of the pattern"))
        node.meta["start"] = at
        return node
    hint = "AFTER MATCH SKIP PAST LAST ROW, SKIP TO NEXT ROW, SKIP TO FIRST A, or SKIP TO LAST A"
    raise ScriptError("sql-syntax", "AFTER MATCH does not say where the next match may begin", at, hint)


def _pattern(parser: Any) -> Any:
    """The text between the brackets."""
    parser._expect(TokenType.L_PAREN, "'('")
    first, depth = parser._curr, 1
    while parser._curr:
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(parser._curr.token_type, 0)
        if depth == 0:
            break
        parser._advance()
    if not parser._curr:
        raise parser._missing("')'")
    node = exp.Literal.string(parser.sql[first.start : parser._curr.start])
    node.meta["start"] = first.start
    parser._advance()
    return node


def _definition(parser: Any) -> Any:
    at = parser._curr.start if parser._curr else parser._prev.end
    name = parser._id("a variable of the pattern")
    parser._expect(TokenType.ALIAS, "AS")
    node = exp.alias_(parser._expression_here(), name, quoted=True)
    node.meta["start"] = at
    return node

"""Queries: SELECT and VALUES, windows and steps as functions of tables, versions of tables, CASE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from etl.sql.grammar.json_calls import JsonCalls
from etl.sql.grammar.match_recognize import read_match
from etl.sql.grammar.type_parser import TypeParser
from etl.sql.statements import ScriptError

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node


INTERVAL_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
"""Units after a difference of times in brackets."""


class QueryParser(JsonCalls, TypeParser):
    """Reads a query, with the clauses that Spark SQL does not have."""

    def _query(self) -> Node:
        at = self._curr
        node = self._parse_select(nested=True) if at and at.text.upper() != "WITH" else self._parse_statement()
        if node is None or not isinstance(node, (exp.Query, exp.Values)):
            raise ScriptError("sql-syntax", "a query is expected: SELECT … FROM …", at.start if at else self._prev.end)
        return self._parse_set_operations(node) or node

    def _is_table_query(self) -> bool:
        """``TABLE t``: all its rows."""
        return self._is_at("TABLE") and self._next is not None and self._next.token_type != TokenType.L_PAREN

    def _parse_case(self) -> Any:
        """``CASE x WHEN 1, 2 THEN …``: a branch with several values becomes one for each."""
        subject = None if self._match_text_seq("WHEN", advance=False) else self._parse_disjunction()
        branches = []
        while self._match(TokenType.WHEN):
            values = [self._expression_here()]
            while subject is not None and self._match(TokenType.COMMA):
                values.append(self._expression_here())
            self._expect(TokenType.THEN, "THEN")
            taken = self._expression_here()
            branches += [exp.If(this=value, true=taken.copy()) for value in values]
        default = self._expression_here() if self._match(TokenType.ELSE) else None
        self._expect(TokenType.END, "END")
        return exp.Case(this=subject, ifs=branches, default=default)

    def _parse_table(self, *args: Any, **options: Any) -> Any:
        """Also ``TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), …))``, and without ``TABLE(…)`` around it."""
        is_wrapped = self._is_at("TABLE") and self._next is not None and self._next.token_type == TokenType.L_PAREN
        if is_wrapped or (self._curr and self._is_table_function()):
            at = self._curr.start
            if is_wrapped:
                self._advance(2)
            call = self._window_call()
            if is_wrapped:
                self._expect(TokenType.R_PAREN, "')'")
            node = exp.TableFromRows(this=call)
            node.meta["start"] = at
            alias = self._parse_table_alias()
            if alias:
                node.set("alias", alias)
            return node
        table = super()._parse_table(*args, **options)
        if table is not None and self._match_text_seq("MATCH_RECOGNIZE"):
            return read_match(self, table)
        return table

    def _partition_keys(self) -> list[str]:
        """Names of the columns by which sessions are those of a key."""
        found: list[Any]
        if self._match(TokenType.L_PAREN):
            found = self._parse_csv(self._parse_column)
            self._expect(TokenType.R_PAREN, "')'")
        else:
            found = [self._parse_column()]
            while self._curr and self._next and self._curr.text == "," and self._next.text.upper() != "DESCRIPTOR":
                self._take()
                found.append(self._parse_column())
        return [str(one.name).lower() for one in found if one is not None]

    def _window_call(self) -> Any:
        name = self._id("a window: TUMBLE, HOP, CUMULATE or SESSION")
        at = self._prev.start
        self._expect(TokenType.L_PAREN, "'('")
        arguments: list[Any] = []
        keys: list[str] = []
        while not self._match(TokenType.R_PAREN):
            label = None
            if self._curr and self._next and self._next.token_type == TokenType.FARROW:
                label = self._id("an argument")
                self._advance()
            if self._match_text_seq("TABLE"):
                if self._curr and self._curr.token_type == TokenType.L_PAREN:
                    arguments.append(self._parse_select(nested=True, table=True))
                else:
                    arguments.append(super()._parse_table())
                if self._matches_words("PARTITION BY"):
                    keys += self._partition_keys()
            elif label is None and self._is_nested_call():
                arguments.append(self._window_call())
            else:
                arguments.append(self._expression_here())
            if label:
                arguments[-1] = exp.Kwarg(this=exp.Var(this=label), expression=arguments[-1])
            if not self._match(TokenType.COMMA) and not (self._curr and self._curr.token_type == TokenType.R_PAREN):
                raise self._missing("',' or ')'")
        call = exp.Anonymous(this=name, expressions=arguments)
        call.meta["partition_by"] = keys
        call.meta["start"] = at
        return call

    def _is_table_function(self) -> bool:
        """Whether a call follows that takes a table, by its place or by its name ``DATA``."""
        following = self._tokens[self._index + 1 : self._index + 4]
        if len(following) < 3 or following[0].token_type != TokenType.L_PAREN:
            return False
        first = following[1].text.upper()
        is_named = first in ("DATA", "TIMECOL", "SIZE", "SLIDE", "STEP", "GAP") and following[2].token_type == TokenType.FARROW
        return first == "TABLE" or is_named

    def _is_nested_call(self) -> bool:
        """Whether a call follows whose first argument is a table: ``step(TABLE t, …)`` or ``step(step(…), …)``."""
        following = self._tokens[self._index + 1 : self._index + 4]
        if len(following) < 3 or following[0].token_type != TokenType.L_PAREN or self._is_at("DESCRIPTOR"):
            return False
        return following[1].text.upper() == "TABLE" or following[2].token_type == TokenType.L_PAREN

    def _parse_table_alias(self, alias_tokens: Any = None) -> Any:
        return None if self._is_at("EMIT") or self._is_at("MATCH_RECOGNIZE") else super()._parse_table_alias(alias_tokens)

    def _parse_function(self, *args: Any, **options: Any) -> Any:
        """Also ``SESSION(time, gap)``, whose name is a keyword of Spark."""
        if self._is_at("SESSION") and self._next and self._next.token_type == TokenType.L_PAREN:
            at = self._curr.start
            self._advance(2)
            call = exp.Anonymous(this="SESSION", expressions=self._parse_csv(self._parse_disjunction))
            self._expect(TokenType.R_PAREN, "')'")
            call.meta["start"] = at
            return call
        if self._curr and self._curr.text.upper() in ("ALL", "ANY", "SOME") and self._has_values_in_brackets():
            kind = exp.All if self._is_at("ALL") else exp.Any
            self._advance(2)
            values = self._parse_select()
            self._expect(TokenType.R_PAREN, "')'")
            assert isinstance(values, exp.Values)
            values.set("alias", exp.TableAlias(this=exp.to_identifier("v"), columns=[exp.to_identifier("value")]))
            return kind(this=exp.select("value").from_(values))
        return super()._parse_function(*args, **options)

    def _has_values_in_brackets(self) -> bool:
        following = self._tokens[self._index + 1 : self._index + 3]
        return len(following) == 2 and following[0].token_type == TokenType.L_PAREN and following[1].text.upper() == "VALUES"

    def _parse_paren(self, *args: Any, **options: Any) -> Any:
        """Also ``(a - b) DAY``: the interval between two times."""
        found = super()._parse_paren(*args, **options)
        difference = found.this if isinstance(found, exp.Paren) else None
        if not isinstance(difference, exp.Sub) or self._curr is None or self._curr.text.upper() not in INTERVAL_UNITS:
            return found
        unit = self._curr.text
        self._advance()
        if self._match_text_seq("TO"):
            self._advance()
        distance = [exp.Literal.string(unit), difference.this, difference.expression]
        return exp.Anonymous(this="TIME_DISTANCE", expressions=distance)

    def _parse_interval(self, *args: Any, **options: Any) -> Any:
        """Also with a sign before the text, and with digits of a unit, which change nothing: ``INTERVAL -'100' DAY(3)``."""
        if not self._is_at("INTERVAL") or self._next is None:
            return super()._parse_interval(*args, **options)
        index, sign = self._index, None
        self._advance()
        if self._curr.token_type in (TokenType.DASH, TokenType.PLUS):
            sign = self._curr.token_type
            self._advance()
        if self._curr is None or self._curr.token_type != TokenType.STRING:
            self._retreat(index)
            return super()._parse_interval(*args, **options)
        text = self._parse_primary()
        unit = self._interval_unit()
        if unit is None:
            self._retreat(index)
            return super()._parse_interval(*args, **options)
        found = exp.Interval(this=text, unit=unit)
        if sign == TokenType.DASH:
            found.set("negative", True)
        return found

    def _interval_unit(self) -> Any:
        """``DAY``, ``DAY(3) TO SECOND(2)``; None where no unit follows."""
        first = self._unit_word()
        if first is None or not self._match_text_seq("TO"):
            return first
        last = self._unit_word()
        if last is None:
            raise self._missing("a unit: " + ", ".join(INTERVAL_UNITS))
        return exp.IntervalSpan(this=first, expression=last)

    def _unit_word(self) -> Any:
        """``DAY`` or ``DAY(3)``; None for another word."""
        if self._curr is None or self._curr.text.upper().rstrip("S") not in (*INTERVAL_UNITS, "MILLISECOND"):
            return None
        unit = exp.Var(this=self._curr.text.upper())
        self._advance()
        if self._curr and self._curr.token_type == TokenType.L_PAREN:
            self._advance()
            while self._curr and not self._match(TokenType.R_PAREN):
                self._advance()
        return unit

    def _parse_position(self, *args: Any, **options: Any) -> Any:
        """Also ``POSITION(x IN y FROM 3)``."""
        found = super()._parse_position(*args, **options)
        if self._match_text_seq("FROM"):
            found.set("position", self._parse_bitwise())
        return found

    def _parse_version(self) -> Any:
        if self._match_text_seq("FOR", "SYSTEM_TIME", "AS", "OF"):
            return exp.Version(this="TIMESTAMP", expression=self._parse_bitwise(), kind="AS OF")
        return super()._parse_version()

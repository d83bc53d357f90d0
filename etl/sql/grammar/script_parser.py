"""Statements of a script, and the dialect of its words. Loads sqlglot."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, partial
from typing import Any

from sqlglot.dialects.spark import Spark
from sqlglot.parser import logger
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from etl.sql.grammar.create_parser import CreateParser
from etl.sql.grammar.json_calls import JSON_CALLS, JsonCalls
from etl.sql.hints import table_options
from etl.sql.statements import UNITS, Delay, Drop, Insert, PartitionValue, Reset, ScriptError, SetOption, Statement

SPECIAL_CALLS = ("CAST", "TRY_CAST", "TRIM", "SUBSTR", "SUBSTRING", "EXTRACT", "POSITION", "OVERLAY", "CEIL", "FLOOR")
"""Functions whose arguments are not a plain list, such as ``CAST(x AS INT)``."""


QUERY_WORDS = ("SELECT", "WITH", "VALUES", "TABLE", "(")
"""How a query begins."""


class ScriptDialect(Spark):
    """Tokens of scripts: a backslash in a text is a character like others, as in the SQL standard."""

    class Tokenizer(Spark.Tokenizer):
        STRING_ESCAPES = ["'"]  # noqa: RUF012
        UNICODE_STRINGS = [(f"{letter}&'", "'") for letter in "Uu"]  # noqa: RUF012


class ScriptParser(CreateParser):
    """Parses one statement. Functions stay as they are written."""

    FUNCTIONS = {}  # noqa: RUF012
    FUNCTION_PARSERS = {  # noqa: RUF012
        **{name: parse for name, parse in SparkParser.FUNCTION_PARSERS.items() if name in SPECIAL_CALLS},
        "CAST": lambda self: self._cast_to_type(False),
        "TRY_CAST": lambda self: self._cast_to_type(True),
        **{name: partial(JsonCalls.parse_json_call, name=name) for name in JSON_CALLS},
    }
    NO_PAREN_FUNCTION_PARSERS = {  # noqa: RUF012
        name: parse for name, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if name not in ("TRANSFORM",)
    }

    def parse_statement(self, tokens: list[Any], text: str) -> list[Statement]:
        self.reset()
        self.sql = text
        self._tokens = tokens
        self._tokens_size = len(tokens)
        self._index = -1
        self.warnings: list[ScriptError] = []
        self.errors_found: list[ScriptError] = []
        """Those of parts without which the statement is read, so that they do not hide others."""
        self._advance()
        first = self._curr
        found = self._statement()
        while self._curr and self._curr is not first and self._curr.text.upper() in ("CREATE", "INSERT"):
            found += self._statement()  # rsqldb's scripts leave out semicolons
        if self._curr:
            if first is self._curr:
                raise ScriptError(
                    "sql-syntax",
                    f"{first.text!r} begins no statement",
                    first.start,
                    "a script has CREATE TABLE, CREATE VIEW, CREATE FUNCTION, INSERT INTO, SELECT and SET",
                )
            raise ScriptError("sql-syntax", f"{self._curr.text!r} does not belong here", self._curr.start)
        return found

    def _statement(self) -> list[Statement]:
        words = " ".join(token.text for token in self._tokens[self._index : self._index + 4]).split()
        if words and (key := statement_key(words, REFUSED)):
            raise ScriptError("unsupported-sql", f"a script has no {key}", self._curr.start, REFUSED[key])
        if words and (key := statement_key(words, NO_EFFECT)):
            self.warnings.append(ScriptError("no-effect", f"{key} has no effect in a script", self._curr.start, NO_EFFECT[key]))
            while self._curr:
                self._advance()
            return []
        if self._match_text_seq("CREATE"):
            return self._create()
        if self._match_text_seq("INSERT"):
            return [self._insert()]
        if self._match_text_seq("DROP"):
            return [self._drop()]
        if self._match_text_seq("SET"):
            return [SetOption(self._option())] if self._curr else []
        if self._match_text_seq("RESET"):
            at, name = self._prev.start, self._curr.text if self._curr else ""
            while self._curr:
                self._advance()
            return [Reset(name, at)]
        if self._is_at("WITH") and (insert := self._insert_after_with()):
            return [insert]
        if self._curr and self._curr.text.upper() in QUERY_WORDS:
            at = self._curr.start
            return [self._query_insert(None, at, ())]
        return []

    def _insert_after_with(self) -> Insert | None:
        """``WITH x AS (…) INSERT INTO t SELECT …``: the queries belong to that of INSERT. None for a query."""
        index = self._index
        with_ = self._parse_with()
        if not self._match_text_seq("INSERT"):
            self._retreat(index)
            return None
        insert = self._insert()
        own = insert.query.args.get("with_")
        assert with_ is not None
        if own:
            with_.set("expressions", [*with_.expressions, *own.expressions])
        insert.query.set("with_", with_)
        return insert

    def _drop(self) -> Drop:
        self._match_texts(("TEMPORARY", "TEMP"))
        if not self._match_texts(("TABLE", "VIEW")):
            raise self._missing("TABLE or VIEW")
        is_optional = bool(self._match_text_seq("IF", "EXISTS"))
        name, at = self._name()
        return Drop(name, at, is_optional)

    def _insert(self) -> Insert:
        if self._match_text_seq("OVERWRITE"):
            hint = (
                "INSERT INTO adds rows, for which a folder can be emptied before the run; PRIMARY KEY (…) NOT ENFORCED replaces "
            )
            hint += "them by key"
            self.errors_found.append(
                ScriptError("unsupported-sql", "a stream does not overwrite a table", self._prev.start, hint)
            )
            self._match_text_seq("INTO")
        elif not self._match_text_seq("INTO"):
            raise self._missing("INTO")
        self._match_text_seq("TABLE")
        name, at = self._name()
        options = table_options(self._prev.comments, at)
        partition = self._partition()
        columns: tuple[str, ...] = ()
        if self._curr and self._curr.token_type == TokenType.L_PAREN and self._next:
            columns = () if self._next.text.upper() in QUERY_WORDS else self._names_in_brackets()
        partition += self._partition()
        return replace(self._query_insert(name, at, columns), options=options, partition=partition)

    def _partition(self) -> tuple[PartitionValue, ...]:
        """``PARTITION (day = '2026-01-01', hour = 7)``; none where there is no such clause."""
        if not self._match_text_seq("PARTITION"):
            return ()
        self._expect(TokenType.L_PAREN, "'('")
        found: list[PartitionValue] = []
        while not found or self._match(TokenType.COMMA):
            at = self._curr.start if self._curr else self._prev.end
            name = self._id("a column")
            if not self._match(TokenType.EQ):
                hint = "columns without a value are columns of the query, and are left out here"
                raise ScriptError("sql-syntax", f"PARTITION gives {name!r} no value", at, hint)
            found.append(PartitionValue(name, self._expression_here(), at))
        self._expect(TokenType.R_PAREN, "')'")
        return tuple(found)

    def _query_insert(self, name: str | None, at: int, columns: tuple[str, ...]) -> Insert:
        query = self._query()
        delays: list[Delay] = []
        changes = False
        while self._match_text_seq("EMIT"):
            if self._match_text_seq("CHANGES"):
                changes = True
                continue
            delays.append(self._delay())
            while self._match(TokenType.COMMA):
                delays.append(self._delay())
        return Insert(name, at, columns, query, tuple(delays), changes)

    def _delay(self) -> Delay:
        at = self._prev.start
        is_without = bool(self._match_text_seq("WITHOUT", "DELAY"))
        seconds = 0.0
        if not is_without:
            if not self._match_text_seq("WITH", "DELAY"):
                raise self._missing("WITH DELAY, WITHOUT DELAY or CHANGES")
            amount = self._curr
            self._take()
            unit = self._curr.text.upper().rstrip("S") if self._curr else ""
            if not re.fullmatch(r"\d+(\.\d+)?", amount.text) or unit not in UNITS:
                raise self._missing("a time such as '1' MINUTE")
            self._take()
            seconds = float(amount.text) * UNITS[unit]
        is_before = bool(self._match_text_seq("BEFORE"))
        if not is_before and not self._match_text_seq("AFTER"):
            raise self._missing("BEFORE WATERMARK or AFTER WATERMARK")
        if not self._match_text_seq("WATERMARK"):
            raise self._missing("WATERMARK")
        return Delay(seconds, is_before, at)


@cache
def script_dialect() -> ScriptDialect:
    """The dialect, made once. Silences sqlglot's warnings: a mistake is a ScriptError."""
    logger.setLevel("ERROR")
    return ScriptDialect()


NO_EFFECT = {
    "USE": "names of catalogs and databases before the name of a table are left out",
    "SHOW": "`etl list` shows components, `etl explain` the plan of a script",
    "DESCRIBE": "`etl explain` shows the columns of a script's tables, `etl describe` a component",
    "DESC": "`etl explain` shows the columns of a script's tables, `etl describe` a component",
    "ADD": "functions of one's own are named by CREATE FUNCTION … LANGUAGE PYTHON",
    "REMOVE": "functions of one's own are named by CREATE FUNCTION … LANGUAGE PYTHON",
    "ANALYZE": "the engine needs no statistics of tables",
    "LOAD": "components are installed as packages",
    "UNLOAD": "components are installed as packages",
    "QUIT": "a script ends with its last statement",
    "EXIT": "a script ends with its last statement",
    "CLEAR": "a script has no screen",
    "HELP": "`etl --help` lists the commands",
    "CREATE CATALOG": "tables are those that the script declares; names of catalogs before their names are left out",
    "CREATE DATABASE": "tables are those that the script declares; names of databases before their names are left out",
    "DROP FUNCTION": "functions are those that the script declares",
    "DROP CATALOG": "tables are those that the script declares",
    "DROP DATABASE": "tables are those that the script declares",
}
"""Statements that change nothing here, and why."""

REFUSED = {
    "ALTER": "a script is one job: change the statement that declares it",
    "DELETE": "a stream adds rows; PRIMARY KEY (…) NOT ENFORCED replaces them by key",
    "UPDATE": "a stream adds rows; PRIMARY KEY (…) NOT ENFORCED replaces them by key",
    "MERGE": "INSERT INTO a table with PRIMARY KEY (…) NOT ENFORCED replaces rows by key",
    "TRUNCATE": "Flink has it in batch mode, we do not, because a script adds and replaces rows: empty it before the run",
    "CALL": "Flink has it, we do not, because procedures belong to catalogs: run the command before the script",
    "COMPILE": "Flink has it, we do not, because the script itself is what runs again: `etl explain` shows its plan",
    "STOP": "Flink has it, we do not, because a run is a process: end it with SIGTERM, or `etl serve` stops it",
    "CREATE MODEL": "Flink has it, we do not, because functions in Python call models: CREATE FUNCTION … LANGUAGE PYTHON",
    "CREATE MATERIALIZED": "Flink has it, we do not, because INSERT INTO fills tables: CREATE TABLE … AS SELECT …",
    "EXECUTE PLAN": "Flink has it, we do not, because the script itself is what runs again",
}
"""Statements that a script cannot have, and what to do instead."""


def statement_key(words: list[str], table: dict[str, str]) -> str | None:
    """The entry of a table that a statement's first words are, None for none; TEMPORARY and SYSTEM say nothing."""
    words = [*words[:1], *(word for word in words[1:] if word.upper() not in ("TEMPORARY", "TEMP", "SYSTEM"))]
    for count in (2, 1):
        key = " ".join(words[:count]).upper()
        if key in table:
            return key
    return None

"""The grammar of scripts: sqlglot's of Spark SQL with the statements and clauses of Flink SQL and rsqldb."""

from __future__ import annotations

import re
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from etl.sql.functions.json_calls import JSON_CALLS, JsonCalls
from etl.sql.statements import (
    UNITS,
    Column,
    CreateFunction,
    CreateTable,
    CreateView,
    Delay,
    Insert,
    Option,
    ScriptError,
    SetOption,
    Statement,
    Watermark,
)

if TYPE_CHECKING:
    from sqlglot.expressions import Expr as Node

SPECIAL_CALLS = ("CAST", "TRY_CAST", "TRIM", "SUBSTR", "SUBSTRING", "EXTRACT", "POSITION", "OVERLAY", "CEIL", "FLOOR")
"""Functions whose arguments are not a plain list, such as ``CAST(x AS INT)``."""


def look_alike(text: str, tokens: list[Any]) -> ScriptError | None:
    """Signs that look like those of SQL, as word processors and Chinese keyboards write them."""
    for token in tokens:
        found = next((sign for sign in token.text if sign in _LOOK_ALIKES), None) if token.token_type.name != "STRING" else None
        if found:
            at = text.find(found, token.start)
            return ScriptError("sql-syntax", f"{found!r} is no sign of SQL", at, f"write {_LOOK_ALIKES[found]}")
    return None


_LOOK_ALIKES = dict(zip("\u2018\u2019\u201c\u201d\uff08\uff09\uff0c\uff1b\uff1d", "''\"\"(),;=", strict=True))
"""Quotes of word processors, and wide signs of Chinese keyboards → the signs of SQL."""


@lru_cache(maxsize=1)
def grammar() -> tuple[Any, Any]:
    from sqlglot import exp
    from sqlglot.dialects.spark import Spark
    from sqlglot.parser import logger as _sqlglot_log
    from sqlglot.parsers.spark import SparkParser
    from sqlglot.tokenizer_core import TokenType

    _sqlglot_log.setLevel("ERROR")

    class ScriptDialect(Spark):
        """Words and signs of scripts: a backslash in a text is a character like others, as in the SQL standard."""

        class Tokenizer(Spark.Tokenizer):
            STRING_ESCAPES = ["'"]  # noqa: RUF012
            UNICODE_STRINGS = [(f"{letter}&'", "'") for letter in "Uu"]  # noqa: RUF012

    class ScriptParser(JsonCalls, SparkParser):
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
            if self._match_text_seq("CREATE"):
                return [self._create()]
            if self._match_text_seq("INSERT"):
                return [self._insert()]
            if self._match_text_seq("SET"):
                return [SetOption(self._option())] if self._curr else []
            if self._curr and self._curr.text.upper() in NO_EFFECT:
                raise ScriptError(
                    "unsupported-sql",
                    f"a script has no {self._curr.text.upper()}",
                    self._curr.start,
                    NO_EFFECT[self._curr.text.upper()],
                )
            if self._curr and self._curr.text.upper() in ("SELECT", "WITH", "("):
                at = self._curr.start
                return [self._query_insert(None, at, ())]
            return []

        # ── CREATE ────────────────────────────────────────────────────────────────────────────

        def _create(self) -> Statement:
            if self._match_text_seq("OR"):
                self._match_text_seq("REPLACE")
            self._match_texts(("TEMPORARY", "TEMP"))
            self._match_text_seq("SYSTEM")
            if self._match_text_seq("TABLE"):
                return self._create_table()
            if self._match_text_seq("VIEW"):
                return self._create_view()
            if self._match_texts(("FUNCTION", "GROK")):
                return self._create_function()
            raise ScriptError(
                "sql-syntax",
                f"CREATE {self._curr.text if self._curr else ''}: TABLE, VIEW or FUNCTION is expected",
                self._prev.start,
            )

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

        def _create_table(self) -> CreateTable:
            name, at = self._name()
            columns: list[Column] = []
            watermark, is_lookup, like = None, False, None
            key: tuple[str, ...] = ()
            if self._match(TokenType.L_PAREN):
                while not self._match(TokenType.R_PAREN):
                    if self._match_text_seq("WATERMARK"):
                        watermark = self._watermark()
                    elif self._match_text_seq("PERIOD", "FOR", "SYSTEM_TIME"):
                        is_lookup = True
                    elif self._is_at("PRIMARY KEY") or (self._is_at("CONSTRAINT") and self._next and self._next.text != ","):
                        key = self._primary_key()
                    else:
                        column, is_key = self._column()
                        columns.append(column)
                        key = (column.name,) if is_key else key
                    if not self._match(TokenType.COMMA) and not (self._curr and self._curr.token_type == TokenType.R_PAREN):
                        raise self._missing("',' or ')'")
            partitioned: tuple[str, ...] = ()
            options: tuple[Option, ...] = ()
            while self._curr:
                if self._match_text_seq("COMMENT"):
                    self._parse_string()
                elif self._matches_words("PARTITIONED BY"):
                    partitioned = self._names_in_brackets()
                elif self._match_text_seq("WITH"):
                    options = self._options()
                elif self._match_text_seq("LIKE"):
                    like = self._name()[0]
                    if self._match(TokenType.L_PAREN):
                        while self._curr and not self._match(TokenType.R_PAREN):
                            self._take()
                elif self._match(TokenType.ALIAS):
                    hint = f"declare its columns, then INSERT INTO {name} SELECT …"
                    raise ScriptError("unsupported-sql", "CREATE TABLE … AS SELECT is not supported", self._prev.start, hint)
                else:
                    break
            return CreateTable(name, at, tuple(columns), watermark, key, partitioned, options, like, is_lookup)

        def _is_at(self, words: str) -> bool:
            """Whether words follow; the tokenizer joins some, such as PRIMARY KEY, whatever the blanks between them."""
            return bool(self._curr) and " ".join(self._curr.text.upper().split()) == words

        def _matches_words(self, words: str) -> bool:
            found = self._is_at(words)
            if found:
                self._take()
            return found

        def _primary_key(self) -> tuple[str, ...]:
            if self._match_text_seq("CONSTRAINT"):
                self._id("a name")
            if not self._matches_words("PRIMARY KEY"):
                raise self._missing("PRIMARY KEY")
            names = self._names_in_brackets()
            self._match_text_seq("NOT", "ENFORCED")
            return names

        def _watermark(self) -> Watermark:
            at = self._prev.start
            if not self._match_text_seq("FOR"):
                self._id("a name")  # rsqldb names watermarks
                if not self._match_text_seq("FOR"):
                    raise self._missing("FOR")
            column = self._id("a column")
            while self._match(TokenType.DOT):
                column += "." + self._id("a column")
            self._expect(TokenType.ALIAS, "AS")
            return Watermark(column, self._expression_here(), at)

        def _text(self) -> str:
            node = self._parse_string()
            if node is None:
                raise self._missing("a text in quotes")
            return str(node.name)

        def _expression_here(self) -> Node:
            node = self._parse_disjunction()
            if node is None:
                raise self._missing("an expression")
            return node

        def _column(self) -> tuple[Column, bool]:
            at = self._curr.start if self._curr else 0
            name = self._id("a column")
            if self._match(TokenType.ALIAS):
                return Column(name, at, expression=self._expression_here()), False
            type_ = self._type()
            metadata, is_key, is_virtual = None, False, False
            while self._curr and self._curr.token_type not in (TokenType.COMMA, TokenType.R_PAREN):
                if self._match_text_seq("METADATA"):
                    metadata = name
                    if self._match_text_seq("FROM"):
                        metadata = self._text()
                elif self._match_text_seq("HEADER"):
                    metadata = name
                elif self._match_text_seq("COMMENT"):
                    self._parse_string()
                elif self._matches_words("PRIMARY KEY"):
                    is_key = True
                    self._match_text_seq("NOT", "ENFORCED")
                elif self._match_text_seq("VIRTUAL"):
                    is_virtual = True
                elif not self._match_text_seq("NOT", "NULL") and not self._match_text_seq("NULL"):
                    raise self._missing("',' or ')'")
            return Column(name, at, type_, metadata=metadata, is_virtual=is_virtual), is_key

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
                raise self._missing("a type")
            self._match_text_seq("WITH", "LOCAL", "TIME", "ZONE")
            self._match_text_seq("WITHOUT", "TIME", "ZONE")
            node.meta.setdefault("start", token.start)
            return node

        def _cast_to_type(self, safe: bool) -> Node:
            """``x AS type`` in CAST or TRY_CAST, with the types of scripts."""
            value = self._expression_here()
            self._expect(TokenType.ALIAS, "AS")
            return exp.TryCast(this=value, to=self._type(), safe=safe)

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

        def _options(self) -> tuple[Option, ...]:
            self._expect(TokenType.L_PAREN, "'('")
            found: list[Option] = []
            while not self._match(TokenType.R_PAREN):
                found.append(self._option())
                if not self._match(TokenType.COMMA) and not self._is_option_next():
                    raise self._missing("',' or ')'")
            return tuple(found)

        def _is_option_next(self) -> bool:
            """Whether the list ends here, or ``name = …`` follows: rsqldb's scripts leave out commas between options."""
            following = self._next.token_type if self._next else None
            return bool(self._curr) and (self._curr.token_type == TokenType.R_PAREN or following in (TokenType.EQ, TokenType.DOT))

        def _option(self) -> Option:
            token = self._curr
            if not token:
                raise self._missing("an option")
            words = [token.text]
            self._take()
            while token.token_type != TokenType.STRING and self._match_set((TokenType.DOT, TokenType.DASH)):
                words += [self._prev.text, self._curr.text if self._curr else ""]
                self._take()
            self._expect(TokenType.EQ, "'='")
            value = self._curr
            if not value:
                raise self._missing("a value")
            if strange := look_alike(self.sql, [value]):
                raise strange
            self._take()
            return Option("".join(words), value.text, token.start, value.start)

        def _create_view(self) -> CreateView:
            name, at = self._name()
            columns = self._names_in_brackets() if self._curr and self._curr.token_type == TokenType.L_PAREN else ()
            if self._match_text_seq("COMMENT"):
                self._parse_string()
            self._expect(TokenType.ALIAS, "AS")
            return CreateView(name, at, columns, self._query())

        def _create_function(self) -> CreateFunction:
            name, at = self._name()
            self._expect(TokenType.ALIAS, "AS")
            target = self._text() if self._curr and self._curr.token_type == TokenType.STRING else self._dotted_name()
            language = file = ""
            if self._match_text_seq("LANGUAGE"):
                self._take()
                language = self._prev.text.upper()
            if self._match_text_seq("USING"):
                if self._curr and self._curr.token_type != TokenType.STRING:
                    self._take()  # FILE
                file = self._text()
            return CreateFunction(name, at, target, language, file)

        def _dotted_name(self) -> str:
            """A class without quotes."""
            parts = [self._id("a class in quotes")]
            while self._match(TokenType.DOT):
                parts.append(self._id("a name"))
            return ".".join(parts)

        # ── Queries ───────────────────────────────────────────────────────────────────────────

        def _query(self) -> Node:
            at = self._curr
            node = self._parse_select(nested=True) if at and at.text.upper() != "WITH" else self._parse_statement()
            if node is None or not isinstance(node, (exp.Query, exp.Values)):
                raise ScriptError("sql-syntax", "a query is expected: SELECT … FROM …", at.start if at else self._prev.end)
            return self._parse_set_operations(node) or node

        def _insert(self) -> Insert:
            if self._match_text_seq("OVERWRITE"):
                hint = "INSERT INTO adds rows; PRIMARY KEY (…) NOT ENFORCED replaces them by key"
                raise ScriptError("unsupported-sql", "a stream does not overwrite a table", self._prev.start, hint)
            if not self._match_text_seq("INTO"):
                raise self._missing("INTO")
            self._match_text_seq("TABLE")
            name, at = self._name()
            columns: tuple[str, ...] = ()
            if self._curr and self._curr.token_type == TokenType.L_PAREN and (self._next and self._next.text.upper() != "SELECT"):
                columns = self._names_in_brackets()
            if self._match_text_seq("PARTITION"):
                hint = "declare the table PARTITIONED BY (…), and give the column as one of the query"
                raise ScriptError("unsupported-sql", "INSERT INTO … PARTITION is not supported", self._prev.start, hint)
            return self._query_insert(name, at, columns)

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

        def _parse_table(self, *args: Any, **options: Any) -> Any:
            """Also ``TABLE(TUMBLE(TABLE t, DESCRIPTOR(time), …))``."""
            if self._curr and self._curr.text.upper() == "TABLE" and self._next and self._next.token_type == TokenType.L_PAREN:
                at = self._curr.start
                self._advance(2)
                call = self._window_call()
                self._expect(TokenType.R_PAREN, "')'")
                node = exp.TableFromRows(this=call)
                node.meta["start"] = at
                alias = self._parse_table_alias()
                if alias:
                    node.set("alias", alias)
                return node
            table = super()._parse_table(*args, **options)
            if table is not None and self._match_text_seq("MATCH_RECOGNIZE"):
                from etl.sql.forms.match_grammar import read_match

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
            return super()._parse_function(*args, **options)

        def _parse_version(self) -> Any:
            if self._match_text_seq("FOR", "SYSTEM_TIME", "AS", "OF"):
                return exp.Version(this="TIMESTAMP", expression=self._parse_bitwise(), kind="AS OF")
            return super()._parse_version()

    return ScriptDialect(), ScriptParser


NO_EFFECT = {
    "USE": "names of catalogs and databases in front of a table are left out",
    "SHOW": "`etl list` shows components, `etl explain` the plan of a script",
    "DESCRIBE": "`etl describe` shows a component",
    "DESC": "`etl describe` shows a component",
    "DROP": "a script is one job: leave out the statement that declares it",
    "ALTER": "a script is one job: change the statement that declares it",
    "ADD": "functions are named by CREATE FUNCTION",
    "RESET": "leave out the SET",
    "DELETE": "a stream adds rows; PRIMARY KEY (…) NOT ENFORCED replaces them by key",
    "UPDATE": "a stream adds rows; PRIMARY KEY (…) NOT ENFORCED replaces them by key",
    "ANALYZE": "the engine needs no statistics of tables",
    "LOAD": "components are installed as packages",
    "MERGE": "INSERT INTO a table with PRIMARY KEY (…) NOT ENFORCED replaces rows by key",
}
"""Statements that other tools have, and what to do instead."""

TYPE_NAMES = {
    "LONG": "BIGINT",
    "STRING": "STRING",
    "BYTES": "BINARY",
    "VARBINARY": "BINARY",
    "TEXT": "STRING",
    "DATETIME": "TIMESTAMP",
}
"""Names of types that Spark does not have, or reads otherwise."""

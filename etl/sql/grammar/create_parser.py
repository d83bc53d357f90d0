"""CREATE TABLE, CREATE VIEW and CREATE FUNCTION."""

from __future__ import annotations

from sqlglot.tokenizer_core import TokenType

from etl.sql.grammar.look_alikes import look_alike
from etl.sql.grammar.query_parser import QueryParser
from etl.sql.statements import Column, CreateFunction, CreateTable, CreateView, Insert, Option, ScriptError, Statement, Watermark


class CreateParser(QueryParser):
    """Reads declarations of tables, views and functions."""

    def _create(self) -> list[Statement]:
        if self._match_text_seq("OR"):
            self._match_text_seq("REPLACE")
        self._match_texts(("TEMPORARY", "TEMP"))
        self._match_text_seq("SYSTEM")
        if self._match_text_seq("TABLE"):
            return self._create_table()
        if self._match_text_seq("VIEW"):
            return [self._create_view()]
        if self._match_texts(("FUNCTION", "GROK")):
            return [self._create_function()]
        raise ScriptError(
            "sql-syntax",
            f"CREATE {self._curr.text if self._curr else ''}: TABLE, VIEW or FUNCTION is expected",
            self._prev.start,
        )

    def _create_table(self) -> list[Statement]:
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
        filled: list[Insert] = []
        while self._curr:
            if self._match_text_seq("COMMENT"):
                self._parse_string()
            elif self._matches_words("PARTITIONED BY"):
                partitioned = self._names_in_brackets()
            elif self._matches_words("DISTRIBUTED"):
                self._skip_distribution()
            elif self._match_text_seq("WITH"):
                options = self._options()
            elif self._match_text_seq("LIKE"):
                like = self._name()[0]
                if self._match(TokenType.L_PAREN):
                    while self._curr and not self._match(TokenType.R_PAREN):
                        self._take()
            elif self._match(TokenType.ALIAS):
                filled = [Insert(name, at, (), self._query())]
            else:
                break
        return [CreateTable(name, at, tuple(columns), watermark, key, partitioned, options, like, is_lookup), *filled]

    def _skip_distribution(self) -> None:
        """Read over ``BY [HASH|RANGE] (a) [INTO 4 BUCKETS]``, and ``INTO 4 BUCKETS``: buckets are those of a store."""
        if self._matches_words("BY"):
            self._match_text_seq("HASH") or self._match_text_seq("RANGE")
            self._names_in_brackets()
        if self._match_text_seq("INTO"):
            self._expect(TokenType.NUMBER, "a number of buckets")
            self._match_text_seq("BUCKETS")

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
        if self._match_text_seq("USING", "JAR"):  # code in Java, which does not run here, wherever it is
            self._text()
            while self._match(TokenType.COMMA):
                self._match_text_seq("JAR")
                self._text()
        elif self._match_text_seq("USING"):
            if self._curr and self._curr.token_type != TokenType.STRING:
                self._take()  # FILE
            file = self._text()
        return CreateFunction(name, at, target, language, file)

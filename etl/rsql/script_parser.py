"""Parses scripts to syntax trees."""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import dataclass

from etl.rsql.problems import SourceError, first_of
from etl.rsql.script_tree import (
    Assignment,
    BareWord,
    Branch,
    Constant,
    Expression,
    FunctionCall,
    IfStatement,
    KeyValuePair,
    Statement,
)

_TOKEN = re.compile(
    r"""
    (?P<blank>\s+|//[^\n]*)
  | (?P<text>'(?:[^']|'')*'|"[^"]*")
  | (?P<number>-?\d+(?:\.\d+)?(?![\w.]))
  | (?P<sign>&&|\|\||==|!=|<>|>=|<=|[=<>&|(){};,:+*/%-])
  | (?P<word>!?[^\W\d][\w.$@-]*|!(?!=)|`[^`]+`)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """A token: its kind is the name of a group of the pattern, or ``end``."""

    kind: str
    text: str
    at: int


def read_tokens(text: str) -> tuple[list[Token], list[SourceError]]:
    """The tokens, and characters that belong to none; after a quote that is not closed, reading continues in the next line."""
    found: list[Token] = []
    errors: list[SourceError] = []
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            is_quote = text[at] in "'\""
            what = "this quote is not closed" if is_quote else f"{text[at]!r} does not belong here"
            errors.append(SourceError("script-syntax", what, at))
            line_end = text.find("\n", at) if is_quote else at + 1
            at = len(text) if line_end < 0 else line_end
            continue
        if token.lastgroup != "blank":
            found.append(Token(str(token.lastgroup), token[0], at))
        at = token.end()
    return found, errors


MAX_DIGITS = 38
"""Characters of a number."""

MAX_DEPTH = 100
"""Calls and conditions inside each other: more stop with an error."""
MAX_CHARACTERS = 1 << 20
"""Size of the largest script."""

_LOGIC = {"&": "and", "&&": "and", "|": "or", "||": "or"}
_COMPARISONS = ("==", "!=", "<>", ">=", "<=", ">", "<")
_ARITHMETIC = {"+": "addition", "-": "subtraction", "*": "multiplication", "/": "division", "%": "mod"}


def parse_script(text: str) -> tuple[tuple[Statement, ...], list[SourceError]]:
    """The statements of a script that can be read, and the errors of the others."""
    if len(text) > MAX_CHARACTERS:
        return (), [SourceError("file-too-large", f"more than {MAX_CHARACTERS >> 20} MiB", 0)]
    tokens, errors = read_tokens(text)
    parser = _Parser(tokens, len(text))
    statements = parser.parse_statements(0)
    ends = [token.at for token in tokens if token.text == ";"]
    damaged = {bisect(ends, error.at) for error in errors}
    return statements, [*errors, *(error for error in parser.errors if bisect(ends, error.at) not in damaged)]


def parse_expression(text: str) -> Expression:
    """One expression. Raises SourceError."""
    tokens, errors = read_tokens(text)
    if errors:
        raise first_of(errors)
    return _Parser(tokens, len(text)).parse_whole_expression()


class _Parser:
    """Parses the tokens of one script."""

    def __init__(self, tokens: list[Token], end: int) -> None:
        self._tokens = tokens
        self._number = 0
        self._end = Token("end", "", end)
        self.errors: list[SourceError] = []
        """Errors of statements that cannot be read."""

    @property
    def _next(self) -> Token:
        return self._tokens[self._number] if self._number < len(self._tokens) else self._end

    def _take(self, *texts: str) -> bool:
        found = self._next.text in texts and self._next.kind not in ("text", "end")
        self._number += found
        return found

    def _expect(self, text: str, hint: str | None = None) -> None:
        if not self._take(text):
            raise self._unexpected_token(repr(text), hint)

    def _unexpected_token(self, expected: str, hint: str | None = None) -> SourceError:
        found = repr(self._next.text) if self._next.kind != "end" else "the end"
        return SourceError("script-syntax", f"{expected} is expected, not {found}", self._next.at, hint)

    def parse_statements(self, depth: int) -> tuple[Statement, ...]:
        """Statements up to the end, or up to the bracket that ends a branch."""
        found: list[Statement] = []
        if depth > MAX_DEPTH:
            raise SourceError("script-syntax", f"more than {MAX_DEPTH} conditions are inside each other", self._next.at)
        while self._next.kind != "end" and (self._next.text != "}" or not depth):
            if self._take(";"):
                continue
            begin = self._number
            try:
                found.append(self._parse_statement(depth))
                if self._next.kind != "end" and self._next.text != "}" and not isinstance(found[-1], IfStatement):
                    self._expect(";", "a statement ends with ';'")
            except SourceError as error:
                self.errors.append(error)
                self._number += self._number == begin
                self._skip_statement(depth)
        return tuple(found)

    def _skip_statement(self, depth: int) -> None:
        """Skip to after the semicolon that ends a statement with an error, or to the bracket that ends its block."""
        level = 0
        while self._next.kind != "end":
            if self._next.kind == "sign":
                level += (self._next.text == "{") - (self._next.text == "}")
                if level < 0 and depth:
                    return
                level = max(level, 0)
                if self._next.text == ";" and not level:
                    self._number += 1
                    return
            self._number += 1

    def _parse_statement(self, depth: int) -> Statement:
        token = self._next
        if token.text == "if":
            return self._parse_if(depth)
        if token.kind not in ("word", "text"):
            raise self._unexpected_token("a statement", "write field=function(…); or function(…);")
        following = self._tokens[self._number + 1] if self._number + 1 < len(self._tokens) else self._end
        if following.text == "=":
            self._number += 2
            return Assignment(_unquote(token.text), self._parse_or(0), token.at)
        found = self._parse_or(0)
        if not isinstance(found, FunctionCall):
            raise SourceError("script-syntax", "this is not a statement", token.at, "write field=function(…); or function(…);")
        return found

    def _parse_if(self, depth: int) -> IfStatement:
        at = self._next.at
        branches = []
        word = self._next.text
        while word in ("if", "elseif"):
            self._number += 1
            self._expect("(")
            condition = self._parse_or(0)
            self._expect(")")
            branches.append(Branch(condition, self._parse_block(depth)))
            word = self._next.text
            if word == "else" and self._number + 1 < len(self._tokens) and self._tokens[self._number + 1].text == "if":
                self._number += 1
                word = "if"
            elif word != "elseif":
                break
        if self._take("else"):
            branches.append(Branch(None, self._parse_block(depth)))
        return IfStatement(tuple(branches), at)

    def _parse_block(self, depth: int) -> tuple[Statement, ...]:
        self._expect("{", "the statements of a condition stand in { }")
        found = self.parse_statements(depth + 1)
        self._expect("}")
        return found

    def parse_whole_expression(self) -> Expression:
        found = self._parse_or(0)
        self._take(";")
        if self._next.kind != "end":
            raise self._unexpected_token("the end")
        return found

    def _parse_or(self, depth: int) -> Expression:
        return self._parse_operands(("|", "||"), depth)

    def _parse_and(self, depth: int) -> Expression:
        return self._parse_operands(("&", "&&"), depth)

    def _parse_operands(self, operators: tuple[str, ...], depth: int) -> Expression:
        at = self._next.at
        read = self._parse_and if "|" in operators else self._parse_comparison
        parts = [read(depth)]
        while self._take(*operators):
            parts.append(read(depth))
        return parts[0] if len(parts) == 1 else FunctionCall(_LOGIC[operators[0]], tuple(parts), at)

    def _parse_comparison(self, depth: int) -> Expression:
        left = self._parse_term(depth)
        operator = self._next
        if self._take(*_COMPARISONS):
            return FunctionCall(operator.text, (left, self._parse_term(depth)), operator.at)
        if (operator.kind == "number" and operator.text.startswith("-")) or (
            operator.kind == "sign" and operator.text in _ARITHMETIC
        ):
            name = _ARITHMETIC[operator.text[0]]
            raise SourceError(
                "script-syntax",
                f"{operator.text[0]!r} computes nothing in a script",
                operator.at,
                f"write {name}(a,b), or a step set",
            )
        return left

    def _parse_term(self, depth: int) -> Expression:
        token = self._next
        if depth > MAX_DEPTH:
            raise SourceError("script-syntax", f"more than {MAX_DEPTH} calls are inside each other", token.at)
        if self._take("("):
            found = self._parse_or(depth + 1)
            self._expect(")")
            return found
        if token.kind == "end" or token.kind == "sign":
            raise self._unexpected_token("a value")
        self._number += 1
        if token.kind == "text":
            return Constant(token.text[1:-1], token.at)
        if token.kind == "number":
            if len(token.text) > MAX_DIGITS:
                raise SourceError("invalid-value", f"a number has more than {MAX_DIGITS} characters", token.at)
            return Constant(float(token.text) if "." in token.text else int(token.text), token.at)
        if self._take("("):
            return FunctionCall(token.text, self._parse_arguments(depth + 1), token.at)
        if token.text in ("true", "false", "null"):
            return Constant({"true": True, "false": False, "null": None}[token.text], token.at)
        return BareWord(_unquote(token.text), token.at)

    def _parse_arguments(self, depth: int) -> tuple[Expression, ...]:
        found: list[Expression] = []
        while not self._take(")"):
            at = self._next.at
            value = self._parse_or(depth)
            found.append(KeyValuePair(value, self._parse_or(depth), at) if self._take(":") else value)
            if not self._take(",") and self._next.text != ")":
                raise self._unexpected_token("',' or ')'")
        return tuple(found)


def _unquote(text: str) -> str:
    return text[1:-1] if text[:1] in "`'\"" else text

"""Painless → syntax trees.

Source of the grammar: Elasticsearch's Painless language specification.
"""

from __future__ import annotations

import math
import re

from etl.migration.draft import NoCounterpartError
from etl.migration.ingest.painless.tokens import TokenReader
from etl.migration.ingest.painless.tree import (
    Assignment,
    Binary,
    Call,
    EmptyMap,
    FieldPath,
    ForEach,
    Function,
    If,
    Jump,
    Lambda,
    ListLiteral,
    Literal,
    MapLiteral,
    Member,
    MethodCall,
    New,
    Node,
    Pattern,
    Return,
    Statement,
    Ternary,
    Try,
    Unary,
    Variable,
    While,
)

_PRECEDENCE = (
    {"||"},
    {"&&"},
    {"|"},
    {"^"},
    {"&"},
    {"==", "!=", "===", "!=="},
    {"<", ">", "<=", ">=", "instanceof"},
    {"=~", "==~"},
    {"<<", ">>"},
    {"+", "-"},
    {"*", "/", "%"},
)

_TYPES = frozenset(
    [
        "def",
        "String",
        "int",
        "Integer",
        "long",
        "Long",
        "double",
        "Double",
        "float",
        "Float",
        "boolean",
        "Boolean",
        "List",
        "Map",
        "ArrayList",
        "HashMap",
        "Object",
        "Instant",
        "char",
        "byte",
        "short",
    ]
)
MAX_LONG = (1 << 63) - 1
MAX_DIGITS = 400
"""Characters of a number: those of the largest double in whole digits, and some."""

_NO_TYPES = frozenset(["return", "else", "new", "in", "instanceof", "throw", "true", "false", "null"])


def parse_condition(text: str) -> Node:
    """The tree of a condition. Raises NoCounterpartError. ``return x;`` is x."""
    parser = _Parser(text)
    statements = (
        parser.statements()
        if re.match(r"\s*(return\b|def\b|if\b|for\b|(?:[A-Z]\w*|boolean|int|long)(?:<[^>]*>)?\s+\w+\s*[=;(])", text)
        else ()
    )
    if not statements:
        node = parser.expression()
        parser.take(";")
        parser.end()
        return node
    return _as_expression(statements)


def condition_statements(text: str) -> tuple[Statement, ...]:
    """The statements of a condition that is a script with variables or loops. Raises NoCounterpartError."""
    return _Parser(text).statements()


def parse_script(text: str) -> tuple[Statement, ...]:
    """The statements of a script. Raises NoCounterpartError."""
    return _Parser(text).statements()


def _as_expression(statements: tuple[Statement, ...]) -> Node:
    """``if (a) {return x;} return y;`` as a ternary."""
    first, *rest = statements
    if isinstance(first, Return) and first.value is not None:
        return first.value
    if isinstance(first, If):
        return Ternary(first.condition, _as_expression((*first.then, *rest)), _as_expression((*first.other, *rest)))
    raise NoCounterpartError("its condition is a script with variables; write it as a filter or an expression")


class _Parser(TokenReader):
    def statements(self) -> tuple[Statement, ...]:
        found: list[Statement] = []
        while self.peek()[0] != "end":
            found += self.statement()
        return tuple(found)

    def block(self) -> tuple[Statement, ...]:
        if not self.take("{"):
            return self.statement()
        found: list[Statement] = []
        while not self.take("}"):
            if self.peek()[0] == "end":
                self.need("}")
            found += self.statement()
        return tuple(found)

    def statement(self) -> tuple[Statement, ...]:
        text = self.peek()[1]
        if self.take(";"):
            return ()
        if text == "function" and self.peek(1)[0] == "name":
            self.take("function")
        if found := self.function():
            return (found,)
        if self.take("if"):
            return (self.conditional(),)
        if self.take("for"):
            return self.loop()
        if self.take("while"):
            return (While(self.enclosed(), self.block()),)
        if self.take("do"):
            return (self.do_loop(),)
        if self.take("try"):
            return (self.attempt(),)
        if jump := self.take("break", "continue", "throw"):
            if jump == "throw":
                self.expression()
            self.take(";")
            return (Jump(jump),)
        if self.take("return"):
            value = None if self.peek()[1] in (";", "}", "") else self.expression()
            self.take(";")
            return (Return(value),)
        found_ = self.simple()
        self.take(";")
        return found_

    def simple(self) -> tuple[Statement, ...]:
        """A declaration, an assignment or a call."""
        type_ = self.peek()[1]
        if self.peek()[0] == "name" and (declared := self.declared_name()):
            made = [self.declaration(declared, type_)]
            while self.take(","):
                made.append(self.declaration(self.need_name(), type_))
            return tuple(made)
        if operator := self.take("++", "--"):
            return (Assignment(self.expression(), f"{operator[0]}=", Literal(1)),)
        target = self.expression()
        if operator := self.take("=", "+=", "-=", "*=", "/=", "%=", "^=", "&=", "|="):
            return (Assignment(target, operator, self.expression()),)
        if operator := self.take("++", "--"):
            return (Assignment(target, f"{operator[0]}=", Literal(1)),)
        return (Call(target),)

    def declaration(self, name: str, type_: str) -> Assignment:
        if not self.take("="):
            return Assignment(Variable(name), "=", Literal(None))
        value = self.expression()
        return Assignment(Variable(name), "=", MethodCall(value, "(double)", ()) if type_ in ("float", "double") else value)

    def function(self) -> Function | None:
        """``String f(def a, int b) {…}``."""
        start = self.at
        type_ = self.peek()[1]
        name = self.declared_name() if type_ not in _NO_TYPES else ""
        if not name or not self.take("("):
            self.at = start
            return None
        parameters: list[str] = []
        while not self.take(")"):
            parameters.append(self.declared_name() or self.need_name())
            if not self.take(",") and self.peek()[1] != ")":
                self.need(")")
        return Function(name, type_, tuple(parameters), self.block())

    def need_name(self) -> str:
        kind, text = self.peek()
        if kind != "name":
            raise NoCounterpartError(f"Painless that cannot be read: a name is missing before {text or 'the end'!r}")
        self.at += 1
        return text

    def enclosed(self) -> Node:
        self.need("(")
        node = self.expression()
        self.need(")")
        return node

    def do_loop(self) -> While:
        body = self.block()
        self.need("while")
        return While(self.enclosed(), body, first=True)

    def attempt(self) -> Try:
        body = self.block()
        handler: tuple[Statement, ...] = ()
        while self.take("catch"):
            self.need("(")
            while not self.take(")"):
                self.need_name()
            block = self.block()
            handler = handler or block
        return Try(body, handler)

    def declared_name(self) -> str:
        """The name of ``def x`` or ``List<String> x``."""
        type_ = self.peek()[1]
        if self.peek()[0] != "name" or type_ in _NO_TYPES:
            return ""
        ahead = 1
        if self.peek(ahead)[1] == "<":
            while self.peek(ahead)[0] == "name" or self.peek(ahead)[1] in ("<", ",", "."):
                ahead += 1
            if self.peek(ahead)[1] != ">":
                return ""
            while self.peek(ahead)[1] == ">":
                ahead += 1
        while self.peek(ahead)[1] == "[" and self.peek(ahead + 1)[1] == "]":
            ahead += 2
        if self.peek(ahead)[0] != "name" or self.peek(ahead)[1] in _NO_TYPES:
            return ""
        self.at += ahead + 1
        return self.peek(-1)[1]

    def conditional(self) -> If:
        self.need("(")
        condition = self.expression()
        self.need(")")
        then = self.block()
        other = self.block() if self.take("else") else ()
        return If(condition, then, other)

    def loop(self) -> tuple[Statement, ...]:
        self.need("(")
        start = self.at
        name = self.declared_name() or (self.need_name() if self.peek()[0] == "name" else "")
        if name and self.take(":", "in"):
            items = self.expression()
            self.need(")")
            return (ForEach(name, items, self.block()),)
        self.at = start
        before = () if self.peek()[1] == ";" else self.simple()
        self.need(";")
        condition = Literal(True) if self.peek()[1] == ";" else self.expression()
        self.need(";")
        after = () if self.peek()[1] == ")" else self.simple()
        self.need(")")
        return (*before, While(condition, self.block(), after))

    def expression(self, level: int = 0) -> Node:
        if level == len(_PRECEDENCE):
            return self.unary()
        node = self.expression(level + 1)
        while operator := self.shift() if "<<" in _PRECEDENCE[level] else self.take(*_PRECEDENCE[level]):
            if operator == "instanceof":
                node = Binary(operator, node, Literal(self.type_name()))
            else:
                node = Binary(operator.replace("===", "==").replace("!==", "!="), node, self.expression(level + 1))
        if level == 0 and self.take("?"):
            then = self.expression()
            self.need(":")
            node = Ternary(node, then, self.expression())
        elif level == 0 and self.take("?:"):
            node = Ternary(Binary("!=", node, Literal(None)), node, self.expression())
        return node

    def shift(self) -> str:
        """``<<`` or ``>>``, whose tokens are single because of types such as ``List<List<String>>``. Raises NoCounterpartError
        for ``>>>``, whose result depends on the width of the number."""
        for symbol in "<>":
            count = 0
            while self.peek(count) == ("sign", symbol):
                count += 1
            if count > 2:
                raise NoCounterpartError(f"{symbol * count} in Painless")
            if count == 2:
                self.at += count
                return symbol * 2
        return ""

    def type_name(self) -> str:
        kind, text = self.peek()
        if kind != "name":
            raise NoCounterpartError("Painless that cannot be read: a type is missing after instanceof")
        self.at += 1
        return text

    def unary(self) -> Node:
        if operator := self.take("!", "-", "~"):
            return Unary(operator, self.unary())
        self.take("+")
        if self.peek()[1] == "(" and self.peek(1)[1] in _TYPES and self.peek(2)[1] == ")":
            type_ = self.peek(1)[1]
            self.at += 3
            return MethodCall(self.unary(), f"({type_})", ())
        return self.postfix(self.primary())

    def primary(self) -> Node:
        kind, text = self.peek()
        self.at += 1
        if kind == "number":
            if text[1:2] in ("x", "X"):
                return Literal(int(text.rstrip("Ll"), 16))
            plain = text.rstrip("LlFfDd")
            whole = plain.isdigit() and text[-1] not in "FfDd"
            if len(plain) > MAX_DIGITS or math.isinf(float(plain)) or (whole and int(plain) > MAX_LONG):
                raise NoCounterpartError(f"Painless that cannot be read: {text[:40]} is more than a number can be")
            return Literal(int(plain) if whole else float(plain))
        if kind == "text":
            return Literal(re.sub(r"\\(.)", lambda found: {"n": "\n", "t": "\t", "r": "\r"}.get(found[1], found[1]), text[1:-1]))
        if kind == "pattern":
            return Pattern(text)
        if text == "(":
            node = self.expression()
            self.need(")")
            return node
        if text == "[":
            return self.list_or_map()
        if text == "new":
            return self.created()
        if kind == "name":
            constants: dict[str, bool | None] = {"true": True, "false": False, "null": None}
            if text in constants:
                return Literal(constants[text])
            return FieldPath(()) if text == "ctx" else Variable(text)
        raise NoCounterpartError(f"Painless that cannot be read, at {text or 'its end'!r}")

    def created(self) -> Node:
        type_ = self.type_name()
        if self.take("<"):
            while not self.take(">"):
                self.at += 1
                if self.peek()[0] == "end":
                    self.need(">")
        arguments = self.arguments() if self.take("(") else ()
        if type_ in ("HashMap", "TreeMap", "LinkedHashMap") and not arguments:
            return EmptyMap()
        if type_ in ("ArrayList", "LinkedList") and len(arguments) < 2:
            return arguments[0] if arguments else ListLiteral(())
        return New(type_, arguments)

    def list_or_map(self) -> Node:
        if self.take(":"):
            self.need("]")
            return EmptyMap()
        items: list[Node] = []
        entries: list[tuple[Node, Node]] = []
        while not self.take("]"):
            items.append(self.expression())
            if self.take(":"):
                entries.append((items[-1], self.expression()))
            if not self.take(",") and self.peek()[1] != "]":
                self.need("]")
        return MapLiteral(tuple(entries)) if entries else ListLiteral(tuple(items))

    def arguments(self) -> tuple[Node, ...]:
        items: list[Node] = []
        while not self.take(")"):
            items.append(self.argument())
            if not self.take(",") and self.peek()[1] != ")":
                self.need(")")
        return tuple(items)

    def argument(self) -> Node:
        start = self.at
        names: list[str] = []
        if self.take("("):
            while self.peek()[0] == "name" and (name := self.declared_name() or self.need_name()):
                names.append(name)
                self.take(",")
            self.take(")")
        elif self.peek()[0] == "name":
            names = [self.need_name()]
        if self.take("->"):
            return self.lambda_body(tuple(names))
        self.at = start
        return self.expression()

    def lambda_body(self, names: tuple[str, ...]) -> Lambda:
        body = self.block() if self.peek()[1] == "{" else self.simple()
        if len(body) == 1 and isinstance(body[0], Call):
            return Lambda(names, body[0].call)
        return Lambda(names, Literal(None), body)

    def postfix(self, node: Node) -> Node:
        while True:
            if self.take(".", "?."):
                kind, name = self.peek()
                if kind not in ("name", "number"):
                    raise NoCounterpartError(f"Painless that cannot be read: a name is missing before {name!r}")
                self.at += 1
                node = MethodCall(node, name, self.arguments()) if self.take("(") else _member(node, name)
            elif isinstance(node, Variable) and self.peek()[1] == "(":
                self.at += 1
                node = MethodCall(Variable(""), node.name, self.arguments())
            elif self.take("["):
                key = self.expression()
                self.need("]")
                if isinstance(key, Literal) and isinstance(key.value, str):
                    node = _member(node, key.value)
                else:
                    node = MethodCall(node, "get", (key,))
            else:
                return node


def _member(node: Node, name: str) -> Node:
    return FieldPath((*node.parts, name)) if isinstance(node, FieldPath) else Member(node, name)

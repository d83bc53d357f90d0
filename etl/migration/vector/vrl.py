"""Vector Remap Language → syntax trees: the part of it that a stream of steps can say.

Source: Vector's reference of VRL, "Expressions".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from etl.migration.draft import NoCounterpartError

MAX_CHARACTERS = 1 << 16
MAX_DEPTH = 60
MAX_DIGITS = 300
_TOKEN = re.compile(
    r"""(?P<space>[ \t\r]+|\#[^\n]*|\\\n)
    |(?P<end>\n|;)
    |(?P<raw>[srt]'(?:[^'\\]|\\.)*')
    |(?P<text>"(?:[^"\\]|\\.)*")
    |(?P<number>\d[\d_]*(?:\.\d+)?)
    |(?P<name>[A-Za-z_]\w*!?(?!=)|[A-Za-z_]\w*)
    |(?P<sign>\?\?=|\|=|\?\?|&&|\|\||==|!=|<=|>=|->|[-+*/%<>=!?:.,()\[\]{}|@])""",
    re.VERBOSE | re.DOTALL,
)
_LEVELS = (("??",), ("||",), ("&&",), ("==", "!="), ("<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"))
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


@dataclass(frozen=True)
class Literal:
    value: str | int | float | bool | None


@dataclass(frozen=True)
class Regex:
    text: str


@dataclass(frozen=True)
class Path:
    """``.a.b``, or a variable with members: ``x.b``."""

    variable: str
    parts: tuple[str, ...]


@dataclass(frozen=True)
class Call:
    name: str
    arguments: tuple[tuple[str, Node], ...]
    """Name (empty for a positional one) and value."""
    aborts: bool = False
    """Whether it is written with ``!``."""


@dataclass(frozen=True)
class Operation:
    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True)
class ArrayOf:
    items: tuple[Node, ...]


@dataclass(frozen=True)
class ObjectOf:
    members: tuple[tuple[str, Node], ...]


@dataclass(frozen=True)
class Assignment:
    target: Path
    value: Node
    operator: str = "="
    error: Path | None = None


@dataclass(frozen=True)
class If:
    cases: tuple[tuple[Node, tuple[Node, ...]], ...]
    other: tuple[Node, ...]


@dataclass(frozen=True)
class Abort:
    pass


Node = Literal | Regex | Path | Call | Operation | ArrayOf | ObjectOf | Assignment | If | Abort


class VrlReader:
    """Reads a program. Raises NoCounterpartError with the line of what it cannot read."""

    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            raise NoCounterpartError(f"a program of {len(text):,} characters is too long: {MAX_CHARACTERS:,} at most")
        self.tokens: list[tuple[str, str, int]] = []
        at, line = 0, 1
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise NoCounterpartError(f"line {line}: {text[at : at + 20]!r} in VRL")
            if found.lastgroup != "space":
                self.tokens.append((found.lastgroup or "", found[0], line))
            line += found[0].count("\n")
            at = found.end()
        self.at = 0
        self.depth = 0

    def program(self, closing: str = "") -> tuple[Node, ...]:
        found: list[Node] = []
        self._ends()
        while self._peek()[0] != "" and self._peek()[1] != (closing or None):
            found.append(self.expression())
            if self._peek()[0] not in ("end", "") and self._peek()[1] != closing:
                self._fail()
            self._ends()
        return tuple(found)

    def statements(self) -> Iterator[tuple[int, Node | NoCounterpartError]]:
        """The statements with their lines; in place of one that cannot be read, why."""
        self._ends()
        while self._peek()[0] != "":
            start, line = self.at, self.tokens[self.at][2]
            try:
                node: Node | NoCounterpartError = self.expression()
                if self._peek()[0] not in ("end", ""):
                    self._fail()
            except NoCounterpartError as error:
                node, self.depth = error, 0
                self.at = self._next_statement(start)
            yield line, node
            self._ends()

    def _next_statement(self, start: int) -> int:
        """Where the line ends that closes all brackets of a statement."""
        open_brackets = 0
        for at in range(start, len(self.tokens)):
            kind, text, _ = self.tokens[at]
            open_brackets += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
            if kind == "end" and open_brackets <= 0:
                return at
        return len(self.tokens)

    def _peek(self, ahead: int = 0) -> tuple[str, str]:
        at = self.at + ahead
        return self.tokens[at][:2] if at < len(self.tokens) else ("", "")

    def _fail(self) -> NoCounterpartError:
        line = self.tokens[self.at][2] if self.at < len(self.tokens) else "last"
        raise NoCounterpartError(f"line {line}: {self._peek()[1] or 'the end'!r} in VRL, which is not carried over")

    def _ends(self) -> None:
        while self._peek()[0] == "end":
            self.at += 1

    def _take(self, *symbols: str) -> str:
        kind, text = self._peek()
        if kind in ("sign", "name") and text in symbols:
            self.at += 1
            return text
        return ""

    def _need(self, symbol: str) -> None:
        if not self._take(symbol):
            self._fail()

    def expression(self) -> Node:
        """An assignment or a value. Raises NoCounterpartError for more than ``MAX_DEPTH`` inside each other."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NoCounterpartError(f"more than {MAX_DEPTH} expressions inside each other in VRL")
        node = self._expression()
        self.depth -= 1
        return node

    def _expression(self) -> Node:
        start = self.at
        if target := self._target():
            error = self._target() if self._take(",") else None
            if operator := self._take("=", "??=", "|="):
                self._ends()
                return Assignment(target, self.expression(), operator, error)
        self.at = start
        return self._level(0)

    def _target(self) -> Path | None:
        kind, text = self._peek()
        if text == "." and kind == "sign":
            self.at += 1
            return Path("", self._members(first=True))
        if kind == "name" and text not in ("if", "abort", "true", "false", "null") and not text.endswith("!"):
            if self._peek(1)[1] == "(":
                return None
            self.at += 1
            return Path(text, self._members(first=False))
        return None

    def _members(self, *, first: bool) -> tuple[str, ...]:
        parts: list[str] = []
        while first or self._take("."):
            kind, text = self._peek()
            if kind == "name" or (kind == "sign" and text == "@"):
                self.at += 1
                parts.append(text if kind == "name" else f"@{self._name()}")
            elif kind == "text":
                self.at += 1
                parts.append(_unescaped(text[1:-1]))
            elif not first:
                self._fail()
            first = False
        while self._peek()[1] == "[" and self._peek(1)[0] == "number" and self._peek(2)[1] == "]":
            parts.append(f"[{self._peek(1)[1]}]")
            self.at += 3
        return tuple(parts)

    def _name(self) -> str:
        kind, text = self._peek()
        if kind != "name":
            self._fail()
        self.at += 1
        return text

    def _level(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self._single()
        node = self._level(level + 1)
        while operator := self._take(*_LEVELS[level]):
            self._ends()
            node = Operation(operator, (node, self._level(level + 1)))
        return node

    def _single(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NoCounterpartError(f"more than {MAX_DEPTH} expressions inside each other in VRL")
        node = self._operand()
        self.depth -= 1
        return node

    def _operand(self) -> Node:
        kind, text = self._peek()
        if operator := self._take("!", "-"):
            return Operation(f"{operator}x", (self._single(),))
        if self._take("("):
            self._ends()
            node = self.expression()
            self._ends()
            self._need(")")
            return node
        if self._take("["):
            return self._array()
        if self._take("{"):
            return self._object()
        if kind in ("text", "raw", "number"):
            self.at += 1
            return _literal(kind, text)
        if self._take("if"):
            return self._branch()
        if self._take("abort"):
            return Abort()
        if text in ("true", "false", "null"):
            self.at += 1
            return Literal({"true": True, "false": False, "null": None}[text])
        if kind == "name" and self._peek(1)[1] == "(":
            self.at += 2
            return self._call(text)
        if target := self._target():
            return target
        self._fail()
        raise AssertionError

    def _array(self) -> Node:
        items: list[Node] = []
        self._ends()
        while not self._take("]"):
            items.append(self.expression())
            self._ends()
            if not self._take(",") and self._peek()[1] != "]":
                self._fail()
            self._ends()
        return ArrayOf(tuple(items))

    def _object(self) -> Node:
        members: list[tuple[str, Node]] = []
        self._ends()
        while not self._take("}"):
            kind, text = self._peek()
            if kind not in ("text", "name"):
                self._fail()
            self.at += 1
            self._need(":")
            members.append((_unescaped(text[1:-1]) if kind == "text" else text, self.expression()))
            self._ends()
            if not self._take(",") and self._peek()[1] != "}":
                self._fail()
            self._ends()
        return ObjectOf(tuple(members))

    def _branch(self) -> Node:
        cases: list[tuple[Node, tuple[Node, ...]]] = []
        other: tuple[Node, ...] = ()
        while True:
            condition = self._level(0)
            cases.append((condition, self._block()))
            after = self.at
            self._ends()
            if not self._take("else"):
                self.at = after
                break
            if not self._take("if"):
                other = self._block()
                break
        return If(tuple(cases), other)

    def _block(self) -> tuple[Node, ...]:
        self._need("{")
        found = self.program("}")
        self._need("}")
        return found

    def _call(self, name: str) -> Node:
        arguments: list[tuple[str, Node]] = []
        self._ends()
        while not self._take(")"):
            named = ""
            if self._peek()[0] == "name" and self._peek(1)[1] == ":":
                named = self._peek()[1]
                self.at += 2
            arguments.append((named, self.expression()))
            self._ends()
            if not self._take(",") and self._peek()[1] != ")":
                self._fail()
            self._ends()
        return Call(name.removesuffix("!"), tuple(arguments), name.endswith("!"))


def _literal(kind: str, text: str) -> Node:
    if kind == "number":
        plain = text.replace("_", "")
        if len(plain) > MAX_DIGITS:
            raise NoCounterpartError(f"a number of more than {MAX_DIGITS} digits in VRL")
        return Literal(float(plain) if "." in plain else int(plain))
    if kind == "text":
        return Literal(_unescaped(text[1:-1]))
    return Regex(text[2:-1].replace("\\'", "'")) if text[0] == "r" else Literal(text[2:-1].replace("\\'", "'"))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text)

"""The configuration language of Logstash → syntax trees.

Source of the grammar: Logstash's ``config_ast.treetop`` and its reference of configuration files.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from etl.migration.draft import NoCounterpartError

MAX_BYTES = 4 << 20
MAX_DEPTH = 50
"""Blocks, values and parentheses inside each other."""
MAX_DIGITS = 300

_TOKEN = re.compile(
    r"""(?P<space>\s+|\#[^\n]*)
    |(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<number>-?\d+(?:\.\d+)?(?![\w.-]))
    |(?P<sign>=>|==|!=|<=|>=|=~|!~|[-<>!(){}\[\],])
    |(?P<word>[A-Za-z_][\w-]*|[\w-]+)
    |(?P<other>[^\s\[\]{}(),"'][^\s\[\]{}(),]*)""",
    re.VERBOSE | re.DOTALL,
)
_REFERENCE = re.compile(r"(?:\[[^\[\],\n\"']+\])+")
_PATTERN = re.compile(r"/((?:[^/\\\n]|\\.)+)/")


@dataclass(frozen=True)
class Reference:
    """``[a][b]``."""

    text: str


@dataclass(frozen=True)
class Regex:
    text: str


@dataclass(frozen=True)
class Test:
    """A condition: an operator on operands, which are conditions, references, texts, numbers or lists of them."""

    operator: str
    operands: tuple[Any, ...]


@dataclass
class Plugin:
    """An input, filter, output or codec with its options. An option that is given several times has them together."""

    name: str
    options: dict[str, Any]
    line: int
    column: int


@dataclass
class Branch:
    """``if``, ``else if`` and ``else``: conditions (None: always) with what is in their blocks."""

    cases: list[tuple[Test | None, list[Plugin | Branch]]]
    line: int
    column: int


@dataclass
class Configuration:
    sections: dict[str, list[Plugin | Branch]] = field(default_factory=lambda: {"input": [], "filter": [], "output": []})


class ConfigurationReader:
    """Reads a text. Raises NoCounterpartError with line and column of what is wrong."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.line_ends = [found.start() for found in re.finditer("\n", text)]
        self.at = 0
        self.depth = 0
        self._skip()

    def read(self, into: Configuration) -> Configuration:
        while self.at < len(self.text):
            name = self._peek()[1].strip("\"'")
            if name not in into.sections:
                self._fail(f"{name!r} is not a section: there are input, filter and output")
            self._next()
            into.sections[name] += self._block()
        return into

    def location(self, at: int | None = None) -> tuple[int, int]:
        at = self.at if at is None else at
        line = bisect_left(self.line_ends, at)
        return line + 1, at - (self.line_ends[line - 1] + 1 if line else 0) + 1

    def _fail(self, message: str) -> NoCounterpartError:
        line, column = self.location()
        raise NoCounterpartError(f"{line}:{column}: {message}")

    def _skip(self) -> None:
        while (found := _TOKEN.match(self.text, self.at)) and found.lastgroup == "space":
            self.at = found.end()

    def _peek(self) -> tuple[str, str]:
        found = _TOKEN.match(self.text, self.at)
        return (found.lastgroup or "", found[0]) if found else ("end", "")

    def _next(self) -> str:
        found = _TOKEN.match(self.text, self.at)
        text = found[0] if found else ""
        self.at += len(text)
        self._skip()
        return text

    def _take(self, text: str) -> bool:
        kind, found = self._peek()
        if found == text and kind in ("sign", "word"):
            self._next()
            return True
        return False

    def _need(self, text: str) -> None:
        if not self._take(text):
            self._fail(f"{text!r} is missing before {self._peek()[1][:20] or 'the end'!r}")

    def _word(self, what: str) -> str:
        kind, text = self._peek()
        if kind not in ("word", "text"):
            self._fail(f"{what} is missing before {text[:20] or 'the end'!r}")
        self._next()
        return text[1:-1] if kind == "text" else text

    def _block(self) -> list[Plugin | Branch]:
        found: list[Plugin | Branch] = []
        with self._inside():
            self._need("{")
            while not self._take("}"):
                found.append(self._branch() if self._peek() == ("word", "if") else self._plugin())
        return found

    def _branch(self) -> Branch:
        line, column = self.location()
        self._need("if")
        cases: list[tuple[Test | None, list[Plugin | Branch]]] = [(self._condition(), self._block())]
        while self._take("else"):
            if self._take("if"):
                cases.append((self._condition(), self._block()))
            else:
                cases.append((None, self._block()))
                break
        return Branch(cases, line, column)

    def _plugin(self) -> Plugin:
        line, column = self.location()
        name = self._word("a plugin or '}'")
        self._need("{")
        options: dict[str, Any] = {}
        while not self._take("}"):
            key = self._word("an option or '}'")
            self._need("=>")
            value = self._value()
            options[key] = _together(options[key], value) if key in options else value
        return Plugin(name, options, line, column)

    def _value(self) -> Any:
        kind, text = self._peek()
        if kind == "text":
            return self._next()[1:-1]
        if kind == "number":
            return self._number()
        if text in ("[", "{"):
            with self._inside():
                return self._list() if text == "[" else self._pairs()
        if kind in ("word", "other"):
            before = self.at
            self._next()
            if self._peek()[1] == "{" and kind == "word":
                self.at = before
                with self._inside():
                    return self._plugin()
            return {"true": True, "false": False}.get(text, text)
        return self._fail(f"a value is missing before {text[:20] or 'the end'!r}")

    def _number(self) -> int | float:
        text = self._peek()[1]
        if len(text) > MAX_DIGITS:
            self._fail(f"a number of more than {MAX_DIGITS} digits")
        self._next()
        return float(text) if "." in text else int(text)

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """One level deeper, while what is inside is read."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self._fail(f"more than {MAX_DEPTH} blocks or parentheses inside each other")
        yield
        self.depth -= 1

    def _list(self) -> list[Any]:
        self._need("[")
        found: list[Any] = []
        while not self._take("]"):
            found.append(self._value())
            if not self._take(",") and self._peek()[1] != "]":
                self._need("]")
        return found

    def _pairs(self) -> dict[str, Any]:
        self._need("{")
        found: dict[str, Any] = {}
        while not self._take("}"):
            key = self._value()
            self._need("=>")
            value = self._value()
            found[str(key)] = _together(found[str(key)], value) if str(key) in found else value
            self._take(",")
        return found

    def _condition(self) -> Test:
        """Operators have one precedence and are read from the left, but ``and`` binds closer than ``or``."""
        return self._junction(("or", "xor", "nor"), lambda: self._junction(("and", "nand"), self._single))

    def _junction(self, words: tuple[str, ...], part: Any) -> Test:
        node: Test = part()
        while self._peek() in [("word", word) for word in words]:
            node = Test(self._next(), (node, part()))
        return node

    def _single(self) -> Test:
        with self._inside():
            if self._take("!"):
                return Test("!", (self._single(),))
            if self._take("("):
                node = self._condition()
                self._need(")")
                return node
            return self._comparison()

    def _comparison(self) -> Test:
        left = self._operand()
        kind, text = self._peek()
        if text in ("==", "!=", "<", ">", "<=", ">=", "=~", "!~") or (kind, text) == ("word", "in"):
            self._next()
            return Test(text, (left, self._operand()))
        if (kind, text) == ("word", "not"):
            self._next()
            self._need("in")
            return Test("!", (Test("in", (left, self._operand())),))
        return Test("", (left,))

    def _operand(self) -> Any:
        kind, text = self._peek()
        if found := _REFERENCE.match(self.text, self.at):
            self.at = found.end()
            self._skip()
            return Reference(found[0])
        if text == "[":
            with self._inside():
                return self._list()
        if kind == "text":
            return self._next()[1:-1]
        if kind == "number":
            return self._number()
        if found := _PATTERN.match(self.text, self.at):
            self.at = found.end()
            self._skip()
            return Regex(found[1].replace("\\/", "/"))
        if kind == "word":
            self._next()
            return {"true": True, "false": False}.get(text, text)
        return self._fail(f"a value is missing before {text[:20] or 'the end'!r}")


def _together(one: Any, other: Any) -> Any:
    """The values of an option that is given twice."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **other}
    return [*(one if isinstance(one, list) else [one]), *(other if isinstance(other, list) else [other])]


def pairs(value: Any) -> Iterator[tuple[str, Any]]:
    """A hash, or a list of names and values in turn."""
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from ((str(one), other) for one, other in zip(value[::2], value[1::2], strict=False))

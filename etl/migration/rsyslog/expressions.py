"""Expressions of RainerScript as nodes, and the masks of selectors.

A node is a tuple of its kind and its parts: ``("text", "x")``, ``("number", 3)``, ``("property", "$msg")``, ``("array", [...])``,
``("call", name, [...])``, ``("not", node)``, ``(operator, left, right)``; of filters outside RainerScript
``("prifilt", "*.info")`` and ``("filter", property, negated, comparison, text)``.
"""

from __future__ import annotations

import re
from typing import Any

from etl.migration.draft import NoCounterpartError

Node = tuple[Any, ...]

MAX_NESTING = 100
_TOKEN = re.compile(
    r"""(?:\s|\#[^\n]*)*(?:
      "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^'\\]|\\.)*)' | (?P<number>0x[0-9A-Fa-f]+|\d+)
      | (?P<property>\$[!./]?[A-Za-z0-9_$][\w!.@\[\]-]*|\$!) | (?P<word>[A-Za-z_]\w*)
      | (?P<sign>==|!=|<>|<=|>=|[<>()\[\],&+*/%-])
    )""",
    re.VERBOSE | re.DOTALL,
)
_COMPARISONS = frozenset(
    ["==", "!=", "<>", "<", "<=", ">", ">=", "contains", "contains_i", "startswith", "startswith_i", "endswith"]
)
_LEVELS = (("or",), ("and",), tuple(_COMPARISONS), ("&", "+", "-"), ("*", "/", "%"))
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


def read_expression(text: str, at: int) -> tuple[Node, int]:
    """The expression at a position, and where it ends. Raises NoCounterpartError."""
    reader = _Reader(text, at)
    node = reader.level(0)
    return node, reader.at


class _Reader:
    def __init__(self, text: str, at: int) -> None:
        self.text, self.at, self.depth = text, at, 0

    def _peek(self) -> re.Match[str] | None:
        return _TOKEN.match(self.text, self.at)

    def _operator(self, names: tuple[str, ...]) -> str | None:
        found = self._peek()
        word = (found["sign"] or (found["word"] or "").lower()) if found else ""
        if found is None or word not in names:
            return None
        self.at = found.end()
        return "!=" if word == "<>" else word

    def level(self, number: int) -> Node:
        """An expression of operators that bind at least as strongly as those of a level."""
        if number == len(_LEVELS):
            return self._unary()
        left = self.level(number + 1)
        while operator := self._operator(_LEVELS[number]):
            left = (operator, left, self.level(number + 1))
        return left

    def _unary(self) -> Node:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise NoCounterpartError("an expression is too deep")
        if self._operator(("not",)):
            node: Node = ("not", self.level(2))
        elif self._operator(("-",)):
            node = ("-", ("number", 0), self._unary())
        else:
            node = self._primary()
        self.depth -= 1
        return node

    def _primary(self) -> Node:
        found = self._peek()
        if found is None:
            raise NoCounterpartError("an expression is missing here")
        self.at = found.end()
        if (text := found["double"] if found["double"] is not None else found["single"]) is not None:
            return ("text", re.sub(r"\\(.)", lambda one: _ESCAPES.get(one[1], one[1]), text, flags=re.DOTALL))
        if found["number"]:
            return ("number", int(found["number"], 0))
        if found["property"]:
            return ("property", found["property"])
        if found["sign"] == "(":
            node = self.level(0)
            self._need(")")
            return node
        if found["sign"] == "[":
            return ("array", self._items("]"))
        if found["word"] and self._operator(("(",)):
            return ("call", found["word"].lower(), self._items(")"))
        raise NoCounterpartError(f"{found[0].strip()!r} is not an expression")

    def _items(self, end: str) -> list[Node]:
        items: list[Node] = []
        while not self._operator((end,)):
            items.append(self.level(0))
            if not self._operator((",",)):
                self._need(end)
                break
        return items

    def _need(self, symbol: str) -> None:
        if not self._operator((symbol,)):
            raise NoCounterpartError(f"{symbol!r} is missing in an expression")


FACILITIES = (
    *("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp", "ntp", "audit"),
    *("alert", "clock", *(f"local{number}" for number in range(8))),
)
SEVERITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
_OTHER_NAMES = {"error": "err", "warn": "warning", "panic": "emerg", "security": "auth"}


def selector_mask(selector: str) -> list[frozenset[int]]:
    """The severities that a selector such as ``*.info;mail.none`` takes, for each facility. Raises NoCounterpartError."""
    mask: list[set[int]] = [set() for _ in FACILITIES]
    for part in selector.split(";"):
        names, dot, priority = part.strip().rpartition(".")
        if not dot:
            raise NoCounterpartError(f"the selector {selector!r}")
        chosen = range(len(FACILITIES)) if names == "*" else [_index(name, FACILITIES) for name in names.split(",")]
        negated, exact = priority.startswith("!"), priority.lstrip("!").startswith("=")
        name = priority.lstrip("!=")
        if name == "none":
            levels, negated = {*range(8)}, True
        elif name == "*":
            levels = {*range(8)}
        else:
            level = _index(name, SEVERITIES)
            levels = {level} if exact else {*range(level + 1)}
        for facility in chosen:
            if negated:
                mask[facility] -= levels
            else:
                mask[facility] |= levels
    return [frozenset(levels) for levels in mask]


def _index(name: str, names: tuple[str, ...]) -> int:
    name = name.strip().lower()
    name = _OTHER_NAMES.get(name, name)
    if name.isdecimal() and int(name) < len(names):
        return int(name)
    if name == "mark":
        return FACILITIES.index("syslog")
    if name not in names:
        raise NoCounterpartError(f"{name!r} is not a facility or a priority")
    return names.index(name)

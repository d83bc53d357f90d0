"""Filters of JSON paths, as Jayway's JsonPath reads them: ``?(@.price > 3 && @.name)``."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from etl.expressions.library.flink.java_patterns import MAX_PATTERN, TimedPattern, compile_timed

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<symbol>&&|\|\||==|!=|<=|>=|=~|<|>|!|\(|\)|\[|\]|,)
    | (?P<path>@[^\s=!<>&|,()\]]*(?:\[[^\]]*\][^\s=!<>&|,()\]]*)*)
    | '(?P<single>(?:[^'\\]|\\.)*)' | "(?P<double>(?:[^"\\]|\\.)*)"
    | /(?P<pattern>(?:[^/\\]|\\.)*)/(?P<flags>[a-z]*)
    | (?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<word>[a-zA-Z]+)
    )""",
    re.VERBOSE,
)
_WORDS = {"true": True, "false": False, "null": None}

Test = Callable[[Any], bool]
Value = Callable[[Any], Any]

MAX_DEPTH = 50
"""Brackets inside brackets."""


class FilterError(ValueError):
    """The text is no filter."""


def parse_filter(text: str, find: Callable[[str], Callable[[Any], list[Any]]]) -> Test:
    """The test of a filter's text; ``find`` makes of a path what finds its values in an element. Raises FilterError."""
    parser = _Parser(text, find)
    test = parser.alternatives(0)
    if parser.tokens:
        raise FilterError(f"{text!r} is not a filter of a JSON path")
    return test


class _Parser:
    """Reads tokens from the left: ``||`` of ``&&`` of tests."""

    def __init__(self, text: str, find: Callable[[str], Callable[[Any], list[Any]]]) -> None:
        self.text, self.find = text, find
        self.tokens: list[re.Match[str]] = []
        at = 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            if found is None:
                raise FilterError(f"{text!r} is not a filter of a JSON path")
            self.tokens.append(found)
            at = found.end()

    def alternatives(self, depth: int) -> Test:
        tests = [self._all(depth)]
        while self._take("||"):
            tests.append(self._all(depth))
        return lambda item: any(test(item) for test in tests)

    def _all(self, depth: int) -> Test:
        tests = [self._one(depth)]
        while self._take("&&"):
            tests.append(self._one(depth))
        return lambda item: all(test(item) for test in tests)

    def _one(self, depth: int) -> Test:
        if depth > MAX_DEPTH:
            raise FilterError("the filter has too many brackets")
        if self._take("!"):
            test = self._one(depth + 1)
            return lambda item: not test(item)
        if self._take("("):
            test = self.alternatives(depth + 1)
            self._require(")")
            return test
        left, is_path = self._operand()
        compare = self._operator()
        if compare is None:
            if not is_path:
                raise FilterError(f"{self.text!r} compares nothing")
            return lambda item: left(item) is not ABSENT
        right, _ = self._operand()
        return lambda item: compare(left(item), right(item))

    def _operator(self) -> Callable[[Any, Any], bool] | None:
        name = self.tokens[0]["symbol"] or (self.tokens[0]["word"] or "").lower() if self.tokens else ""
        if name not in _OPERATORS:
            return None
        self.tokens.pop(0)
        return _OPERATORS[name]

    def _operand(self) -> tuple[Value, bool]:
        if self._take("["):
            items = []
            while not self._take("]"):
                items.append(self._operand()[0])
                self._take(",")
            return lambda item: [one(item) for one in items], False
        token = self.tokens.pop(0) if self.tokens else None
        if token is None or token["symbol"]:
            raise FilterError(f"{self.text!r} lacks a value")
        if token["path"]:
            find = self.find("$" + token["path"][1:])
            return lambda item: next(iter(find(item)), ABSENT), True
        value = _literal(token)
        return lambda item: value, False

    def _take(self, symbol: str) -> bool:
        found = bool(self.tokens) and self.tokens[0]["symbol"] == symbol
        if found:
            self.tokens.pop(0)
        return found

    def _require(self, symbol: str) -> None:
        if not self._take(symbol):
            raise FilterError(f"{self.text!r} lacks {symbol!r}")


class _Absent:
    """What a path of a filter has where the element has no such member."""


ABSENT = _Absent()


def _literal(token: re.Match[str]) -> Any:
    text = token["single"] if token["single"] is not None else token["double"]
    if text is not None:
        return re.sub(r"\\(.)", r"\1", text)
    if token["pattern"] is not None:
        return _pattern(token["pattern"], token["flags"])
    if token["number"]:
        return Decimal(token["number"])
    if token["word"].lower() not in _WORDS:
        raise FilterError(f"{token['word']!r} is not a value of a filter")
    return _WORDS[token["word"].lower()]


def _pattern(text: str, flags: str) -> Any:
    compiled = compile_timed(f"{'(?i)' if 'i' in flags else ''}\\A(?:{text})\\z")
    if compiled is None or len(text) > MAX_PATTERN:
        raise FilterError(f"{text!r} is not a pattern")
    return compiled


def _equal(left: Any, right: Any) -> bool:
    return isinstance(left, bool) is isinstance(right, bool) and bool(left == right)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def run(left: Any, right: Any) -> bool:
        kinds = [str if isinstance(one, str) else _NUMBER if _is_number(one) else None for one in (left, right)]
        return kinds[0] is not None and kinds[0] == kinds[1] and compare(left, right)

    return run


_NUMBER = (int, Decimal)


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBER) and not isinstance(value, bool)


def _matches(value: Any, pattern: Any) -> bool:
    found = pattern.search(value) if isinstance(value, str) and isinstance(pattern, TimedPattern) else None
    return found is not None


def _is_in(value: Any, items: Any) -> bool:
    return isinstance(items, list) and any(_equal(value, one) for one in items)


_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": _equal,
    "!=": lambda left, right: not _equal(left, right),
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "=~": _matches,
    "in": _is_in,
    "nin": lambda value, items: not _is_in(value, items),
}

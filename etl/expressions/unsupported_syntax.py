"""Finds syntax of other languages in expressions, and hints at the Spark SQL for it.

It searches the tokens of an expression, so that texts and comments are not mistaken for operators. The languages are those of
Vector and jq, Logstash, Python, JavaScript, KQL, C and shells.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from etl.api import cut
from etl.expressions.token_context import TokenContext

_WORDS = (
    r"xor|contains|icontains|includes|has|matches|match|regex|startswith|starts_with|endswith|ends_with|equals|eq|ne|neq|gt|gte|ge"
    r"|lt|lte|le|isnt|isnot|unless"
)
_CURLY = re.compile("[\u201c\u201d\u201e\u2018\u2019\u00ab\u00bb]")
_QUOTE = "['\"]"
_SUSPECT = re.compile(
    rf"&&|[~?;{{}}\[\]$@/:]|{_CURLY.pattern}|=\s*=\s*=|!\s+=|!==|\w!\(|\+\+\s*$|[-+*]=|^\s*if\s+[^(\s]|=<|=>|(?:^|[^\w`)\]])\."
    rf"|\.\s*{_QUOTE}|\bas\s*{_QUOTE}|\bexcept\s*\(|\bfrom\s+\w+\s*{_QUOTE}|\b(?:{_WORDS}|is|in)\b|\d[a-z]",
    re.IGNORECASE,
)
"""Only texts that match this are searched; nearly all others are plain Spark SQL."""

_LENGTH = re.compile(r"(\d+)(ms|s|sec|m|min|h|hr|d|w)", re.IGNORECASE)
_UNITS = {"ms": "milliseconds", "s": "seconds", "sec": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "hr": "hours",
          "d": "days", "w": "weeks"}  # fmt: skip

_CALLS = {
    "contains": "contains({}, {})", "includes": "contains({}, {})", "has": "contains({}, {})",
    "icontains": "contains(lower({}), lower({}))",
    "matches": "{} rlike {}", "match": "{} rlike {}", "regex": "{} rlike {}",
    "startswith": "startswith({}, {})", "starts_with": "startswith({}, {})",
    "endswith": "endswith({}, {})", "ends_with": "endswith({}, {})",
    "equals": "{} = {}", "eq": "{} = {}", "ne": "{} <> {}", "neq": "{} <> {}", "isnt": "{} is not {}", "isnot": "{} is not {}",
    "gt": "{} > {}", "gte": "{} >= {}", "ge": "{} >= {}", "lt": "{} < {}", "lte": "{} <= {}", "le": "{} <= {}",
}  # fmt: skip
"""Words between two values → the same in Spark SQL."""


class UnsupportedSyntax(NamedTuple):
    """Syntax of other languages that Spark SQL does not have, and a hint what to write instead."""

    at: int
    message: str
    hint: str


def find_unsupported_syntax(text: str, tokens: Sequence[Any], *, query: bool = False) -> UnsupportedSyntax | None:
    """The first syntax of another language in an expression or query, or None."""
    if not _SUSPECT.search(text):
        return None
    return next(_find_all(text, tokens, ignored="SEMICOLON" if query else ""), None)


def _find_all(text: str, tokens: Sequence[Any], ignored: str) -> Iterator[UnsupportedSyntax]:
    for number in range(len(tokens)):
        here = TokenContext(text, tokens, number)
        rule = _RULES.get(here.kind())
        found = rule(here) if rule and here.kind() != ignored else None
        if found:
            yield UnsupportedSyntax(here.token.start, *found)


_Finding = tuple[str, str] | None


def _no_operator(operator: str, hint: str) -> _Finding:
    return f"{operator!r} is not an operator of Spark SQL", hint


def _equals(here: TokenContext) -> _Finding:
    following = here.kind(1) if here.touches() else ""
    if following == "EQ":
        operator = here.word() + here.word(1)
        return _no_operator(operator, f"write {'=' if operator[0] == '=' else '<>'}")
    if following == "TILDE":
        return _no_operator("=~", f"a regular expression: {here.value(-1)} rlike {_pattern(here, 2)}")
    if following == "LT" and here.word() == "=":
        return _no_operator("=<", "write <=")
    return None


def _not(here: TokenContext) -> _Finding:
    if here.word() != "!":
        return None
    if here.kind(1) == "TILDE":
        return _no_operator("!~", f"write not {here.value(-1)} rlike {_pattern(here, 2)}")
    if here.kind(1) == "EQ":
        return _no_operator("! =", "write <> or !=")
    if here.is_name(-1) and here.kind(1) == "L_PAREN" and here.touches():
        return "'!' does not stand after a function's name", f"write {here.value(-1)}(…)"
    return None


def _sign(here: TokenContext) -> _Finding:
    operator, name = here.word(), here.value(-1)
    if here.kind(1) == "EQ" and here.touches() and here.is_operand(-1):
        return _no_operator(f"{operator}=", f"an expression gives the value alone: {name} {operator} …")
    if operator == "+" and here.kind(1) == "PLUS" and here.touches() and not here.kind(2):
        return _no_operator("++", f"write {name} + 1")
    return None


def _tilde(here: TokenContext) -> _Finding:
    if not here.is_operand(-1):
        return None
    return _no_operator("~", f"a regular expression: {here.value(-1)} rlike {_pattern(here, 1)}")


def _pattern(here: TokenContext, step: int) -> str:
    return here.value(step) if here.kind(step) == "STRING" else "'…'"


def _slash(here: TokenContext) -> _Finding:
    """``/x/`` in the place of a value."""
    if here.is_operand(-1) and here.word(-1).lower() not in _CALLS:
        return None
    return "a regular expression stands in quotes", f"write {here.value(-2)} rlike '…'"


def _name(here: TokenContext) -> _Finding:
    word = here.word()
    if _CURLY.search(word):
        return f"{_CURLY.findall(word)[0]} is not a quote of Spark SQL", "a text stands between ' and '"
    if word.lower() == "if" and here.number == 0 and here.kind(1) != "L_PAREN":
        return "'if' is a function in Spark SQL", "write if(condition, value, otherwise)"
    if word.lower() == "f" and here.kind(1) == "STRING" and here.touches():
        return "a text does not take values by their names", "write concat('…', field, '…')"
    length = _LENGTH.fullmatch(word)
    if length:
        return f"{word!r} is not a value", f"a length of time is written: interval {length[1]} {_UNITS[length[2].lower()]}"
    return _infix(here, word.lower())


def _infix(here: TokenContext, word: str) -> _Finding:
    negated = here.kind(-1) == "NOT"
    front = -2 if negated else -1
    if word not in _CALLS or not here.is_operand(front) or not _begins_value(here):
        return None
    if here.kind(front) == "VAR" and here.word(front).lower() in _CALLS:
        return None
    call = _CALLS[word].format(here.value(front), "'…'" if here.kind(1) == "SLASH" else here.value(1))
    return f"{word!r} cannot stand between two values in Spark SQL", f"write {'not ' if negated else ''}{call}"


def _begins_value(here: TokenContext) -> bool:
    return here.kind(1) in ("L_PAREN", "SLASH", "DASH") or (here.is_operand(1) and here.kind(1) not in ("R_PAREN", "R_BRACKET"))


def _xor(here: TokenContext) -> _Finding:
    left, right = here.value(-1), here.value(1)
    return _no_operator(here.word(), f"of two conditions exactly one: ({left}) <> ({right}), each in brackets")


def _text(here: TokenContext) -> _Finding:
    """A text in the place of a name: in Spark SQL names stand in backticks."""
    is_alias = here.kind(-1) == "ALIAS" or (here.kind(-2) == "FROM" and here.kind(-1) == "VAR")  # not EXTRACT(… FROM DATE '…')
    is_named = is_alias or "DOT" in (here.kind(-1), here.kind(1))
    if not is_named and not (here.kind(-1) in ("L_PAREN", "COMMA") and _is_excepted(here)):
        return None
    written = here.text[here.token.start : here.token.end + 1]
    return f"{cut(written, 60)} is a text, not a name, in Spark SQL", f"write `{cut(here.word(), 60)}`, in backticks"


def _is_excepted(here: TokenContext) -> bool:
    """Whether a token stands in the list of ``* EXCEPT (…)``."""
    step = -1
    while here.kind(step) not in ("", "L_PAREN", "R_PAREN"):
        step -= 1
    return here.kind(step) == "L_PAREN" and here.kind(step - 1) == "EXCEPT"


def _bracket(here: TokenContext) -> _Finding:
    before = here.kind(-1)
    if before == "IN":
        return "the values of 'in' stand in round brackets", "write in (…, …)"
    if here.is_operand(-1) and here.kind(1) == "NUMBER" and here.kind(2) == "COLON":
        return (
            "a part of a text is not cut out by brackets",
            f"write substring({here.value(-1)}, {int(here.word(1)) + 1}, length)",
        )
    if here.is_operand(-1):
        return None
    if here.is_name(1) and here.kind(2) == "R_BRACKET":
        path = re.match(r"(?:\[\s*`?[\w@.\-]+`?\s*\])+", here.text[here.token.start :])
        names = re.findall(r"[\w@.\-]+", path[0]) if path else [here.word(1)]
        return "a field stands without brackets", f"write {'.'.join(names)}"
    return "a list is not written in square brackets", "write array(…, …)"


def _in(here: TokenContext) -> _Finding:
    if here.kind(1) in ("L_PAREN", "L_BRACKET") or here.function() == "position":
        return None
    if here.kind(-1) == "STRING" and here.is_name(1):
        part, whole = here.value(-1), here.value(1)
        return (
            "'in' takes values in round brackets",
            f"a part of a text: contains({whole}, {part}); of a list: array_contains({whole}, {part})",
        )
    return "'in' takes values in round brackets", f"write {here.value(-1)} in ({here.value(1)}, …)"


def _is(here: TokenContext) -> _Finding:
    negated = here.kind(1) == "NOT"
    if here.kind(2 if negated else 1) not in ("STRING", "NUMBER"):
        return None
    operator, value = ("<>", here.value(2)) if negated else ("=", here.value(1))
    return "'is' goes with null, true and false", f"write {here.value(-1)} {operator} {value}"


def _dot(here: TokenContext) -> _Finding:
    if here.is_operand(-1) or here.kind(-1) in ("DOT", "PARAMETER", "STAR") or not here.is_name(1):
        return None
    return "a field has no dot before it", f"write {here.value(1)}"


def _arrow(here: TokenContext) -> _Finding:
    depth = sum({"L_PAREN": 1, "R_PAREN": -1}.get(token.token_type.name, 0) for token in here.tokens[: here.number])
    return None if depth else _no_operator("=>", "write >=")


def _parameter(here: TokenContext) -> _Finding:
    if here.word() == "@" and here.is_name(1):
        return "a name with '@' needs backticks", f"write `@{here.value(1)}`"
    name = here.value(2) if here.kind(1) == "DOT" else here.value(1)
    return f"{here.word()!r} does not stand before a field", f"write {name}"


def _brace(here: TokenContext) -> _Finding:
    names = re.match(r"\{+\s*([\w@.\-]+)\s*\}", here.text[here.token.start :])
    return "a field stands without braces", f"write {names[1]}" if names else "write its plain name"


def _semicolon(here: TokenContext) -> _Finding:
    return "';' ends no expression here", "leave it out"


_RULES: dict[str, Callable[[TokenContext], _Finding]] = {
    "DAMP": lambda here: _no_operator("&&", "write and"),
    "XOR": _xor,
    "DQMARK": lambda here: _no_operator("??", f"write coalesce({here.value(-1)}, {here.value(1)})"),
    "PLACEHOLDER": lambda here: _no_operator("?", "write if(condition, value, otherwise)"),
    "COLON_EQ": lambda here: _no_operator(":=", "write = to compare; the step `set` gives values to fields"),
    "PLUS": _sign,
    "DASH": _sign,
    "STAR": _sign,
    "EQ": _equals,
    "NEQ": _equals,
    "NOT": _not,
    "TILDE": _tilde,
    "SLASH": _slash,
    "VAR": _name,
    "STRING": _text,
    "L_BRACKET": _bracket,
    "IN": _in,
    "IS": _is,
    "DOT": _dot,
    "FARROW": _arrow,
    "PARAMETER": _parameter,
    "MOD": lambda here: _brace(here._replace(number=here.number + 1)) if here.kind(1) == "L_BRACE" else None,
    "L_BRACE": _brace,
    "SEMICOLON": _semicolon,
}
"""Kind of token → the function that finds such syntax that begins there."""

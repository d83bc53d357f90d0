"""Constant patterns that no text can match, because they are not regular expressions: Flink gives null or false for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from etl.sql.statements import ScriptError, start

_warnings: ContextVar[list[ScriptError] | None] = ContextVar("pattern_warnings", default=None)
"""Those of the script that is compiled."""

_RESULTS = {"regexp": "FALSE"} | dict.fromkeys(
    ("regexp_extract", "regexp_extract_all", "regexp_replace", "regexp_count", "regexp_instr", "regexp_substr"), "NULL"
)
"""Function whose second argument is a pattern → its result for an invalid pattern."""


@contextmanager
def noted_patterns() -> Iterator[list[ScriptError]]:
    """Begin a script: the warnings of its patterns."""
    found: list[ScriptError] = []
    token = _warnings.set(found)
    try:
        yield found
    finally:
        _warnings.reset(token)


def note_pattern(name: str, node: Any) -> None:
    """Add a warning for a call, ``name`` in lower case, whose constant pattern does not compile."""
    from sqlglot import exp

    warnings = _warnings.get()
    if warnings is None or name not in _RESULTS or len(node.expressions) < 2:
        return
    pattern = node.expressions[1]
    if not isinstance(pattern, exp.Literal) or not pattern.is_string or (reason := _complaint(pattern.name)) is None:
        return
    at = start(pattern)
    if any(one.at == at for one in warnings):  # an expression may be compiled more than once
        return
    message = f"{pattern.name!r} is not a regular expression: {reason}"
    hint = f"{name.upper()} is {_RESULTS[name]} for each row; a character such as ( that means itself is written \\("
    warnings.append(ScriptError("bad-regex", message, at, hint))


def _complaint(pattern: str) -> str | None:
    """Why a pattern cannot be compiled; None if it can."""
    from etl.expressions.library.flink.java_patterns import compile_timed
    from etl.expressions.patterns import java_regex
    from etl.expressions.patterns.java_characters import NoFormError
    from etl.scanner.pattern_error import PatternError

    if compile_timed(pattern) is not None:
        return None
    try:
        java_regex.parse(pattern)
    except (PatternError, NoFormError) as error:
        return str(error)
    return "it does not compile"

"""Syntax errors about lines and their indents: dashes, keys and colons."""

from __future__ import annotations

import re

from etl.api import cut
from etl.config.document.parser_stop import KEY, LONGEST_SHOWN, ParserStop, SyntaxProblem
from etl.config.document.scalars import quote_text

_BLOCK = re.compile(r":\s+[|>][+-]?\d?\s*$")
"""The header of a block scalar at the end of a line."""


def find_dash(stop: ParserStop) -> SyntaxProblem | None:
    """A list item in another column than its list, or among keys."""
    found = re.match(r"( *)- ", stop.here + " ")
    if "expected key" not in stop.problem and "'-' indicator" not in stop.problem:
        return None
    column = len(found[1]) if found else -1
    if found is None or stop.column > column:
        return None
    columns = [len(line) - len(line.lstrip()) for line in stop.lines[: stop.line] if line.lstrip().startswith("- ")]
    if stop.opened and columns:
        near = min(columns, key=lambda one: abs(one - column))
        if near != column:
            message = f"this '-' stands in column {column + 1}, and the one above in column {near + 1}"
            return stop.explain(message, "items of one list stand in one column")
    message = "an item of a list stands among the keys of a mapping"
    return stop.explain(message, "remove the '-', or put the item deeper, below a key of its own")


def find_uneven_keys(stop: ParserStop) -> SyntaxProblem | None:
    """A key in a column in which no key above stands."""
    if "expected key" not in stop.problem and "'-' indicator" not in stop.problem:
        return None
    key = KEY.match(stop.here)
    if key is None or stop.here[: stop.column].strip():
        return None
    return _explain_column(stop, stop.line, stop.column, key["key"])


def _explain_column(stop: ParserStop, line: int, column: int, key: str) -> SyntaxProblem:
    columns = sorted({_key_column(one) for one in stop.lines[:line] if KEY.match(one)})
    above = " or ".join(str(one + 1) for one in sorted(columns, key=lambda one: abs(one - column))[:2])
    message = f"the key {key!r} stands in column {column + 1}, and no key above does"
    return stop.explain(message, f"keys of one mapping stand in one column: here {above}", (line, column))


def _key_column(line: str) -> int:
    found = re.match(r"\s*(?:- +)*", line)
    return found.end() if found else 0


def find_lost_colon(stop: ParserStop) -> SyntaxProblem | None:
    """A line above without its colon, or without the blank after it: libyaml notices at the next colon."""
    if "mapping values are not allowed" not in stop.problem and "could not find expected ':'" not in stop.problem:
        return None
    line = stop.line if "could not find" not in stop.problem or not stop.opened else stop.opened[0] + 1
    if line > 1 and re.search(_BLOCK, stop.lines[line - 2]) and "could not find" in stop.problem:
        line -= 1
    above = next((at for at in range(line - 1, -1, -1) if stop.lines[at].strip() and not _is_comment(stop.lines[at])), None)
    if above is None:
        return None
    text, indent = stop.lines[above], _key_column(stop.lines[above])
    if re.search(_BLOCK, text):
        return stop.explain("a text after '|' or '>' must be indented deeper than its key", "indent its lines", (above + 1, 0))
    if found := re.match(r"\s*-(?=[\w'\"])", text):
        at = above, found.end() - 1
        return stop.explain("'-' needs a blank after it", f"write - {cut(text[found.end() :], LONGEST_SHOWN)}", at)
    if KEY.match(text):
        return None
    key = KEY.match(stop.here)
    if key and re.match(r"\s*- ", text) and key.start("key") != indent:  # not a key of the item above
        return _explain_column(stop, stop.line, key.start("key"), key["key"])
    word = re.match(r"[\w.-]+", text[indent:])
    if word is None:
        return None
    value = text[indent + word.end() :].lstrip(" :=")
    return stop.explain(f"{word[0]!r} has no colon and blank after it", f"write {word[0]}: {value}".rstrip(), (above, indent))


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def find_second_colon(stop: ParserStop) -> SyntaxProblem | None:
    """A text with a colon and a blank in it."""
    if "mapping values are not allowed" not in stop.problem:
        return None
    key = KEY.match(stop.here)
    if key and key.end() <= stop.column:
        value = stop.here[key.end() :].strip()
        column = len(stop.here) - len(stop.here[key.end() :].lstrip())
        hint = f"write {key['key']}: {cut(quote_text(value), LONGEST_SHOWN)}"
        return stop.explain("a text with ': ' in it needs quotes", hint, (stop.line, column))
    if key:
        return _explain_column(stop, stop.line, key.start("key"), key["key"])
    return None
    return None

"""What is wrong with a text that is not YAML, in words that name the cure.

PyYAML's parser (libyaml) names the token that it did not expect. The tokens and lines around show what the writer meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace

import yaml

from etl.api import cut
from etl.config.document.indent_errors import find_dash, find_lost_colon, find_second_colon, find_uneven_keys
from etl.config.document.parser_stop import LONGEST_SHOWN, ParserStop, SyntaxProblem, text_at
from etl.config.document.quote_errors import find_braces_in_text, find_bracket, find_open_quote, find_text_after_quotes
from etl.config.document.scalars import quote_text

_TABS = "indent with spaces: YAML does not take tabs"


def explain(error: yaml.MarkedYAMLError, text: str) -> SyntaxProblem:
    """The problem, at the location where the writer has to change something."""
    stop = ParserStop.of(error, text)
    found = next((problem for find in _FINDERS if (problem := find(stop))), None)
    return found or _explain_otherwise(stop)


def _explain_otherwise(stop: ParserStop) -> SyntaxProblem:
    if stop.line >= len(stop.lines):
        last = max(len(stop.lines) - 1, 0)
        return replace(stop.explain(stop.problem, None), line=last + 1, column=len(stop.lines[last]) + 1)
    message, hint = next((words for text, words in _OTHERWISE.items() if text in stop.problem), (stop.problem, None))
    return stop.explain(message, hint)


_OTHERWISE: Mapping[str, tuple[str, str]] = {
    "<document start>": ("the document ends before this", "remove what stands alone at the beginning of a line"),
    "directive": ("a line that begins with '%' is a directive of YAML", "put the text in quotes, or remove the line"),
    "expected key": (
        "a key is expected here",
        "keys of one mapping stand in one column, each with a colon and a blank after it",
    ),
    "'-' indicator": ("an item of the list is expected here", "items of one list begin with '- ' in one column"),
    "node content": ("a value is expected here", "look for a comma or bracket too many"),
    "mapping values are not allowed": ("no colon is expected here", "quote a text that contains ': '"),
    "unexpected ':'": ("no colon is expected here", "quote a text that contains ':'"),
    "could not find expected ':'": ("a colon is missing before this", "a key needs a colon and a blank after it"),
}
"""For errors that no function of `_FINDERS` finds: libyaml's words → message and hint."""


def _find_tab(stop: ParserStop) -> SyntaxProblem | None:
    indent = stop.here[: len(stop.here) - len(stop.here.lstrip())]
    if stop.rest[:1] == "\t" or "\t" in indent or "tab character" in stop.problem:
        at = stop.line, max(stop.here.find("\t"), 0)
        return stop.explain("a tab stands where blanks are needed", _TABS, at)
    return None


def _find_first_character(stop: ParserStop) -> SyntaxProblem | None:
    if "cannot start any token" in stop.problem:
        return _explain_quotes(stop, stop.column)
    if stop.opened and ("alphabetic or numeric" in stop.problem or "comment or line break" in stop.problem):
        return _explain_quotes(stop, stop.opened[1])
    if "undefined alias" in stop.problem:
        name = re.match(r"\*[\w-]*", stop.rest)
        value = text_at(stop.here, stop.column)
        if name and name[0] == value:
            hint = f"if it is meant as text, write {quote_text(value)}"
            return stop.explain(f"{value} stands for what is marked &{value[1:]} before it, and nothing is", hint)
        return _explain_quotes(stop, stop.column)
    if "mapping keys are not allowed" in stop.problem:
        return _explain_quotes(stop, stop.column)
    return None


def _explain_quotes(stop: ParserStop, column: int) -> SyntaxProblem:
    value = re.split(r":\s", text_at(stop.here, column))[0]  # a key is quoted alone
    message = f"a text that begins with {value[:1]!r} needs quotes"
    return stop.explain(message, f"write {cut(quote_text(value), LONGEST_SHOWN)}", (stop.line, column))


def _find_escape(stop: ParserStop) -> SyntaxProblem | None:
    if "unknown escape" not in stop.problem or stop.opened is None:
        return None
    start = stop.opened[1] + 1 if stop.opened[0] == stop.line else 0
    inside = stop.here[start : stop.here.find('"', stop.column)] if '"' in stop.rest else ""
    message = f"{stop.rest[:2]!r} is not an escape that double quotes know".replace("\\\\", "\\")
    cure = f"single quotes take it as it is: {quote_text(inside)}" if inside and "'" not in inside else "double each backslash"
    return stop.explain(message, cure)


def _find_directive(stop: ParserStop) -> SyntaxProblem | None:
    if "<document start>" in stop.problem and stop.lines[0].startswith("%"):
        return stop.explain("a line that begins with '%' is a directive of YAML", "remove the line", (0, 0))
    return None


_FINDERS: tuple[Callable[[ParserStop], SyntaxProblem | None], ...] = (
    *(_find_tab, _find_first_character, _find_escape, find_open_quote, _find_directive, find_dash, find_braces_in_text),
    *(find_text_after_quotes, find_bracket, find_lost_colon, find_second_colon, find_uneven_keys),
)
"""Tried in this order; the first problem found counts."""

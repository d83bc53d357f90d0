"""Syntax errors about quotes and brackets: not closed, closed twice, or needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import yaml

from etl.config.document.parser_stop import ParserStop, SyntaxProblem, text_at
from etl.config.document.scalars import quote_text

_PAIRS = {"{": "}", "[": "]"}


def find_open_quote(stop: ParserStop) -> SyntaxProblem | None:
    """A quote that is never closed, or closed in a later line."""
    if "unexpected end of stream" in stop.problem and stop.opened:
        mark = stop.lines[stop.opened[0]][stop.opened[1]]
        return stop.explain(f"the quote {mark} that begins here is not closed", f"end the text with {mark}", stop.opened)
    token = _quoted_before(stop)
    if token and token.start_mark.line < token.end_mark.line:
        at = token.start_mark.line, token.start_mark.column
        message = f"the quote {token.style} that begins here is closed in line {token.end_mark.line + 1}"
        return stop.explain(message, f"end the text with {token.style} in its own line", at)
    return None


def find_text_after_quotes(stop: ParserStop) -> SyntaxProblem | None:
    """Text after the closing quote."""
    token = _quoted_before(stop)
    if token is None or token.end_mark.line != stop.line or not stop.rest.strip(" ,}]"):
        return None
    start = token.start_mark.column
    last = stop.here.rfind(token.style)
    if last > token.end_mark.column and _text_start(stop.here, start) == start:
        meant, tail = stop.here[start + 1 : last], stop.here[last + 1 :].strip()
        if tail in ("", "}", "]", "},", "],", ","):
            return stop.explain(
                f"the text ends at its second {token.style}, and more follows", f"write {_within(meant, token.style)}"
            )
    start = _text_start(stop.here, start)
    whole = text_at(stop.here, start)
    return stop.explain("after the closing quote the text goes on", f"put quotes around all of it: {quote_text(whole)}")


def _text_start(line: str, quote: int) -> int:
    """Where a text begins in which a bracket is open before the quote: `where: level in ('a', 'b')`."""
    depth, bracket = 0, None
    for at in range(quote - 1, -1, -1):
        depth += (line[at] == ")") - (line[at] == "(")
        if depth < 0:
            depth, bracket = 0, at
    starts = [found.end() for found in re.finditer(r"[:,\[{]\s+|- +", line[:quote])]
    return max((start for start in starts if bracket is not None and start <= bracket), default=quote)


def _within(meant: str, quote: str) -> str:
    other = "'" if quote == '"' else '"'
    return f"{other}{meant}{other}" if other not in meant and "\\" not in meant else quote_text(meant)


def _quoted_before(stop: ParserStop) -> Any:
    """The last token before the stop, if it is a text in quotes."""
    last = None
    for token in _tokens(stop.text):
        if (token.start_mark.line, token.start_mark.column) >= (stop.line, stop.column):
            break
        if isinstance(token, yaml.ScalarToken):
            last = token
        elif not isinstance(token, yaml.BlockEndToken):
            last = None
    return last if last is not None and last.style in ("'", '"') else None


def _tokens(text: str) -> Iterator[Any]:
    try:
        yield from yaml.scan(text, Loader=yaml.CSafeLoader)
    except yaml.YAMLError:
        return


def find_braces_in_text(stop: ParserStop) -> SyntaxProblem | None:
    """`{type: file, path: ${HOME}/x}` and `index: {host}-x`."""
    if "expected" not in stop.problem:
        return None
    for found in re.finditer(
        r"(?:[:,\[]\s+|- +|\[)(?P<text>\$?\{[\w.:?-]+\}[^\s,\]}][^,\]}]*|\$\{[^}]*\}|[^\s'\"\[\]{},:]+\{[\w.:?-]+\}[^,\]}]*)",
        stop.here,
    ):
        start = found.start("text")
        if start <= stop.column <= found.end() + 1:
            return stop.explain("a text with {…} in it needs quotes here", f'write "{found["text"]}"', (stop.line, start))
    return None


def find_bracket(stop: ParserStop) -> SyntaxProblem | None:
    """A bracket that is not closed, closes nothing, or lacks a comma."""
    if "',' or" not in stop.problem or stop.opened is None:
        return _find_surplus_bracket(stop)
    open_line, open_column = stop.opened
    opener = stop.lines[open_line][open_column]
    closer = _PAIRS.get(opener, "")
    if stop.rest[:1] in ("}", "]"):
        without = replace(stop, text=_without_character(stop))
        if stop.rest[:1] != closer and _is_unclosed(without, stop.opened) and _is_unclosed(stop, (open_line, open_column)):
            hint = f"write {closer!r} before {stop.rest[:1]!r}" if open_line == stop.line else f"close it with {closer!r}"
            return stop.explain(f"the {opener!r} that begins here is not closed", hint, stop.opened)
        return stop.explain(f"this {stop.rest[:1]!r} closes nothing", "remove it")
    if stop.line > open_line and _is_unclosed(stop, stop.opened):
        if comment := re.search(r"\s#", re.sub(r""""[^"]*"|'[^']*'""", lambda found: "x" * len(found[0]), stop.lines[open_line])):
            message = "here a comment begins, and the rest of the line is not part of the text"
            return stop.explain(message, "put a text with ' #' in it in quotes", (open_line, comment.start() + 1))
        return stop.explain(f"the {opener!r} that begins here is not closed", f"close it with {closer!r}", stop.opened)
    if stop.rest[:1] == ":":
        return _explain_colon(stop)
    return stop.explain(
        f"a comma or {closer!r} is missing here", f"values between {opener!r} and {closer!r} stand with commas between"
    )


def _find_surplus_bracket(stop: ParserStop) -> SyntaxProblem | None:
    if "expected key" in stop.problem and stop.rest[:1] in ("}", "]"):
        return stop.explain(f"this {stop.rest[:1]!r} closes nothing", "remove it, or open it before")
    return None


def _without_character(stop: ParserStop) -> str:
    at = sum(len(line) + 1 for line in stop.lines[: stop.line]) + stop.column
    return stop.text[:at] + " " + stop.text[at + 1 :]


def _is_unclosed(stop: ParserStop, opened: tuple[int, int]) -> bool:
    """Whether the bracket at ``opened`` is never closed, by the brackets outside of quotes."""
    start = sum(len(line) + 1 for line in stop.lines[: opened[0]]) + opened[1]
    waiting: list[str] = []
    bare = re.sub(r""""(?:[^"\\\n]|\\.)*"|'[^'\n]*'|(?<=\s)#.*""", lambda found: " " * len(found[0]), stop.text[start:])
    for character in bare:
        if character in _PAIRS:
            waiting.append(_PAIRS[character])
        elif character in "]}":
            if not waiting or waiting.pop() != character:
                return True
            if not waiting:
                return False
    return True


def _explain_colon(stop: ParserStop) -> SyntaxProblem:
    before = re.search(r"[^,{\[]*$", stop.here[: stop.column])
    words = (before[0] if before else "").strip()
    name = words.rpartition(" ")[2]
    text = words.partition(": ")[2]
    quote = f"; if it is part of the text, quote all of it: {key}: {quote_text(text_at(stop.here, start))}" if (
        (key := words.partition(": ")[0]) and text and (start := stop.here.find(text)) >= 0
    ) else ""  # fmt: skip
    return stop.explain(f"{name!r} and a colon stand inside a text", f"if {name!r} is a key, put a comma before it{quote}")

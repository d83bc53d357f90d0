"""What is wrong with a text that is no YAML, in words that name the cure.

PyYAML's parser (libyaml) says which token it did not expect. What the writer meant is told from the tokens and lines around.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import yaml

from etl.api import cut
from etl.config.document import quoted

_LONGEST_SHOWN = 60
_PAIRS = {"{": "}", "[": "]"}
_KEY = re.compile(r"""\s*(?:- +)*(?P<key>[\w.$/-]+|'[^']*'|"[^"]*")\s*:(?:\s|$)""")
_BLOCK = re.compile(r":\s+[|>][+-]?\d?\s*$")
_TABS = "indent with spaces: YAML does not take tabs"


@dataclass(frozen=True)
class SyntaxProblem:
    """Line and column, counted from one; what is there; what to do."""

    line: int
    column: int
    message: str
    hint: str | None = None


@dataclass(frozen=True)
class _Stop:
    """Where the parser stopped: lines and columns are counted from zero."""

    problem: str
    line: int
    column: int
    opened: tuple[int, int] | None
    """Where what it was reading begins."""
    lines: list[str]
    text: str

    @property
    def here(self) -> str:
        return self.lines[self.line] if self.line < len(self.lines) else ""

    @property
    def rest(self) -> str:
        return self.here[self.column :]

    def said(self, message: str, hint: str | None, at: tuple[int, int] | None = None) -> SyntaxProblem:
        line, column = at or (self.line, self.column)
        return SyntaxProblem(line + 1, column + 1, message, hint)


def explained(error: yaml.MarkedYAMLError, text: str) -> SyntaxProblem:
    """The problem at the place where the writer has to change something."""
    mark: Any = error.problem_mark or error.context_mark
    opened = (error.context_mark.line, error.context_mark.column) if error.context_mark else None
    stop = _Stop(error.problem or "cannot be read", mark.line, mark.column, opened, text.split("\n"), text)
    found = next((said for kind in _KINDS if (said := kind(stop))), None)
    return found or _plain(stop)


def _plain(stop: _Stop) -> SyntaxProblem:
    if stop.line >= len(stop.lines):
        last = max(len(stop.lines) - 1, 0)
        return replace(stop.said(stop.problem, None), line=last + 1, column=len(stop.lines[last]) + 1)
    message, hint = next((said for text, said in _OTHERWISE.items() if text in stop.problem), (stop.problem, None))
    return stop.said(message, hint)


_OTHERWISE: Mapping[str, tuple[str, str]] = {
    "<document start>": ("the document ends in front of this", "remove what stands alone at the beginning of a line"),
    "directive": ("a line that begins with '%' is a directive of YAML", "put the text in quotes, or remove the line"),
    "expected key": (
        "a key is expected here",
        "keys of one mapping stand in one column, each with a colon and a blank behind it",
    ),
    "'-' indicator": ("an item of the list is expected here", "items of one list begin with '- ' in one column"),
    "node content": ("a value is expected here", "look for a comma or bracket too many"),
    "mapping values are not allowed": ("no colon is expected here", "quote a text that contains ': '"),
    "unexpected ':'": ("no colon is expected here", "quote a text that contains ':'"),
    "could not find expected ':'": ("a colon is missing in front of this", "behind a key belong a colon and a blank"),
}
"""Where nothing better is known: libyaml's words → message and hint."""


# ── Characters that begin no text ─────────────────────────────────────────────────────────────────


def _tab(stop: _Stop) -> SyntaxProblem | None:
    indent = stop.here[: len(stop.here) - len(stop.here.lstrip())]
    if stop.rest[:1] == "\t" or "\t" in indent or "tab character" in stop.problem:
        at = stop.line, max(stop.here.find("\t"), 0)
        return stop.said("a tab stands where blanks are needed", _TABS, at)
    return None


def _first_character(stop: _Stop) -> SyntaxProblem | None:
    if "cannot start any token" in stop.problem:
        return _needs_quotes(stop, stop.column)
    if stop.opened and ("alphabetic or numeric" in stop.problem or "comment or line break" in stop.problem):
        return _needs_quotes(stop, stop.opened[1])
    if "undefined alias" in stop.problem:
        name = re.match(r"\*[\w-]*", stop.rest)
        value = _value(stop.here, stop.column)
        if name and name[0] == value:
            hint = f"if it is meant as text, write {quoted(value)}"
            return stop.said(f"{value} stands for what is marked &{value[1:]} in front of it, and nothing is", hint)
        return _needs_quotes(stop, stop.column)
    if "mapping keys are not allowed" in stop.problem:
        return _needs_quotes(stop, stop.column)
    return None


def _needs_quotes(stop: _Stop, column: int) -> SyntaxProblem:
    value = re.split(r":\s", _value(stop.here, column))[0]  # a key is quoted alone
    message = f"a text that begins with {value[:1]!r} needs quotes"
    return stop.said(message, f"write {cut(quoted(value), _LONGEST_SHOWN)}", (stop.line, column))


def _value(line: str, column: int) -> str:
    """What most likely is one text: to a comma or bracket that closes more than is opened in it, or to the line's end."""
    depth, inside = 0, line[:column].count("[") + line[:column].count("{") > line[:column].count("]") + line[:column].count("}")
    for at, character in enumerate(line[column:], column):
        depth += (character in "[{(") - (character in "]})")
        if inside and (depth < 0 or (depth == 0 and character == "," and line[at + 1 : at + 2] in (" ", ""))):
            return line[column:at].rstrip()
    return line[column:].rstrip()


def _escape(stop: _Stop) -> SyntaxProblem | None:
    if "unknown escape" not in stop.problem or stop.opened is None:
        return None
    start = stop.opened[1] + 1 if stop.opened[0] == stop.line else 0
    inside = stop.here[start : stop.here.find('"', stop.column)] if '"' in stop.rest else ""
    message = f"{stop.rest[:2]!r} is no escape that double quotes know".replace("\\\\", "\\")
    cure = f"single quotes take it as it is: {quoted(inside)}" if inside and "'" not in inside else "double each backslash"
    return stop.said(message, cure)


# ── Quotes and brackets ───────────────────────────────────────────────────────────────────────────


def _open_quote(stop: _Stop) -> SyntaxProblem | None:
    if "unexpected end of stream" in stop.problem and stop.opened:
        mark = stop.lines[stop.opened[0]][stop.opened[1]]
        return stop.said(f"the quote {mark} that begins here is not closed", f"end the text with {mark}", stop.opened)
    token = _quoted_before(stop)
    if token and token.start_mark.line < token.end_mark.line:
        at = token.start_mark.line, token.start_mark.column
        message = f"the quote {token.style} that begins here is closed in line {token.end_mark.line + 1}"
        return stop.said(message, f"end the text with {token.style} in its own line", at)
    return None


def _more_behind_quotes(stop: _Stop) -> SyntaxProblem | None:
    token = _quoted_before(stop)
    if token is None or token.end_mark.line != stop.line or not stop.rest.strip(" ,}]"):
        return None
    start = token.start_mark.column
    last = stop.here.rfind(token.style)
    if last > token.end_mark.column and _text_start(stop.here, start) == start:
        meant, tail = stop.here[start + 1 : last], stop.here[last + 1 :].strip()
        if tail in ("", "}", "]", "},", "],", ","):
            return stop.said(
                f"the text ends at its second {token.style}, and more follows", f"write {_within(meant, token.style)}"
            )
    start = _text_start(stop.here, start)
    whole = _value(stop.here, start)
    return stop.said("behind the closing quote the text goes on", f"put quotes around all of it: {quoted(whole)}")


def _text_start(line: str, quote: int) -> int:
    """Where a text begins in which a bracket is open in front of the quote: `where: level in ('a', 'b')`."""
    depth, bracket = 0, None
    for at in range(quote - 1, -1, -1):
        depth += (line[at] == ")") - (line[at] == "(")
        if depth < 0:
            depth, bracket = 0, at
    starts = [found.end() for found in re.finditer(r"[:,\[{]\s+|- +", line[:quote])]
    return max((start for start in starts if bracket is not None and start <= bracket), default=quote)


def _within(meant: str, quote: str) -> str:
    other = "'" if quote == '"' else '"'
    return f"{other}{meant}{other}" if other not in meant and "\\" not in meant else quoted(meant)


def _quoted_before(stop: _Stop) -> Any:
    """The last token in front of the stop, if it is a text in quotes."""
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


def _braces_in_text(stop: _Stop) -> SyntaxProblem | None:
    """`{type: file, path: ${HOME}/x}` and `index: {host}-x`."""
    if "expected" not in stop.problem:
        return None
    for found in re.finditer(
        r"(?:[:,\[]\s+|- +|\[)(?P<text>\$?\{[\w.:?-]+\}[^\s,\]}][^,\]}]*|\$\{[^}]*\}|[^\s'\"\[\]{},:]+\{[\w.:?-]+\}[^,\]}]*)",
        stop.here,
    ):
        start = found.start("text")
        if start <= stop.column <= found.end() + 1:
            return stop.said("a text with {…} in it needs quotes here", f'write "{found["text"]}"', (stop.line, start))
    return None


def _bracket(stop: _Stop) -> SyntaxProblem | None:
    if "',' or" not in stop.problem or stop.opened is None:
        return _surplus_bracket(stop)
    open_line, open_column = stop.opened
    opener = stop.lines[open_line][open_column]
    closer = _PAIRS.get(opener, "")
    if stop.rest[:1] in ("}", "]"):
        without = replace(stop, text=_without_character(stop))
        if stop.rest[:1] != closer and _unclosed(without, stop.opened) and _unclosed(stop, (open_line, open_column)):
            hint = f"write {closer!r} in front of {stop.rest[:1]!r}" if open_line == stop.line else f"close it with {closer!r}"
            return stop.said(f"the {opener!r} that begins here is not closed", hint, stop.opened)
        return stop.said(f"this {stop.rest[:1]!r} closes nothing", "remove it")
    if stop.line > open_line and _unclosed(stop, stop.opened):
        if comment := re.search(r"\s#", re.sub(r""""[^"]*"|'[^']*'""", lambda found: "x" * len(found[0]), stop.lines[open_line])):
            message = "here a comment begins, and the rest of the line is no part of the text"
            return stop.said(message, "put a text with ' #' in it in quotes", (open_line, comment.start() + 1))
        return stop.said(f"the {opener!r} that begins here is not closed", f"close it with {closer!r}", stop.opened)
    if stop.rest[:1] == ":":
        return _colon_or_comma(stop)
    return stop.said(
        f"a comma or {closer!r} is missing here", f"values between {opener!r} and {closer!r} stand with commas between"
    )


def _surplus_bracket(stop: _Stop) -> SyntaxProblem | None:
    if "expected key" in stop.problem and stop.rest[:1] in ("}", "]"):
        return stop.said(f"this {stop.rest[:1]!r} closes nothing", "remove it, or open it in front")
    return None


def _without_character(stop: _Stop) -> str:
    at = sum(len(line) + 1 for line in stop.lines[: stop.line]) + stop.column
    return stop.text[:at] + " " + stop.text[at + 1 :]


def _unclosed(stop: _Stop, opened: tuple[int, int]) -> bool:
    """Whether the bracket there is never closed, by the brackets outside of quotes."""
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


def _colon_or_comma(stop: _Stop) -> SyntaxProblem:
    before = re.search(r"[^,{\[]*$", stop.here[: stop.column])
    words = (before[0] if before else "").strip()
    name = words.rpartition(" ")[2]
    text = words.partition(": ")[2]
    quote = f"; if it is part of the text, quote all of it: {key}: {quoted(_value(stop.here, start))}" if (
        (key := words.partition(": ")[0]) and text and (start := stop.here.find(text)) >= 0
    ) else ""  # fmt: skip
    return stop.said(f"{name!r} and a colon stand inside a text", f"if {name!r} is a key, put a comma in front of it{quote}")


# ── Lines and indents ─────────────────────────────────────────────────────────────────────────────


def _dash(stop: _Stop) -> SyntaxProblem | None:
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
            return stop.said(message, "items of one list stand in one column")
    message = "an item of a list stands among the keys of a mapping"
    return stop.said(message, "remove the '-', or put the item deeper, below a key of its own")


def _uneven_keys(stop: _Stop) -> SyntaxProblem | None:
    if "expected key" not in stop.problem and "'-' indicator" not in stop.problem:
        return None
    key = _KEY.match(stop.here)
    if key is None or stop.here[: stop.column].strip():
        return None
    return _uneven(stop, stop.line, stop.column, key["key"])


def _uneven(stop: _Stop, line: int, column: int, key: str) -> SyntaxProblem:
    columns = sorted({_key_column(one) for one in stop.lines[:line] if _KEY.match(one)})
    above = " or ".join(str(one + 1) for one in sorted(columns, key=lambda one: abs(one - column))[:2])
    message = f"the key {key!r} stands in column {column + 1}, and no key above does"
    return stop.said(message, f"keys of one mapping stand in one column: here {above}", (line, column))


def _key_column(line: str) -> int:
    found = re.match(r"\s*(?:- +)*", line)
    return found.end() if found else 0


def _lost_colon(stop: _Stop) -> SyntaxProblem | None:
    """A line above without its colon, or without the blank behind it: libyaml notices at the next colon."""
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
        return stop.said("a text behind '|' or '>' must be indented deeper than its key", "indent its lines", (above + 1, 0))
    if found := re.match(r"\s*-(?=[\w'\"])", text):
        at = above, found.end() - 1
        return stop.said("behind '-' belongs a blank", f"write - {cut(text[found.end() :], _LONGEST_SHOWN)}", at)
    if _KEY.match(text):
        return None
    word = re.match(r"[\w.-]+", text[indent:])
    if word is None:
        return None
    value = text[indent + word.end() :].lstrip(" :=")
    return stop.said(f"{word[0]!r} has no colon and blank behind it", f"write {word[0]}: {value}".rstrip(), (above, indent))


def _is_comment(line: str) -> bool:
    return line.lstrip().startswith("#")


def _second_colon(stop: _Stop) -> SyntaxProblem | None:
    if "mapping values are not allowed" not in stop.problem:
        return None
    key = _KEY.match(stop.here)
    if key and key.end() <= stop.column:
        value = stop.here[key.end() :].strip()
        column = len(stop.here) - len(stop.here[key.end() :].lstrip())
        hint = f"write {key['key']}: {cut(quoted(value), _LONGEST_SHOWN)}"
        return stop.said("a text with ': ' in it needs quotes", hint, (stop.line, column))
    if key:
        return _uneven(stop, stop.line, key.start("key"), key["key"])
    return None


def _directive(stop: _Stop) -> SyntaxProblem | None:
    if "<document start>" in stop.problem and stop.lines[0].startswith("%"):
        return stop.said("a line that begins with '%' is a directive of YAML", "remove the line", (0, 0))
    return None


_KINDS: tuple[Callable[[_Stop], SyntaxProblem | None], ...] = (
    *(_tab, _first_character, _escape, _open_quote, _directive, _dash, _braces_in_text),
    *(_more_behind_quotes, _bracket, _lost_colon, _second_colon, _uneven_keys),
)
"""Tried in this order; the first that knows the case answers."""

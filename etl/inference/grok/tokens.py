"""A line of a log as tokens, each with its kind and what comes before it.

Brackets and quotes that hold only typed values (``[2026-01-02 03:04:05] [INFO]``) are taken apart, others are one token.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from etl.inference.times import TimeForm, time_at

_LEVELS = (
    "trace debug info information notice warn warning error err crit critical alert emerg emergency fatal severe failure "
    "fine finer finest config verbose panic dpanic debug1 debug2 inf wrn dbg vrb ftl fail trce dbug"
)
LEVELS = frozenset(_LEVELS.split())
"""How levels are called; single letters and ``ERR`` as a word of a message count where the whole column is such."""
LEVEL_LETTERS = frozenset("VDIWEFATC")

KINDS: dict[str, str] = {
    "uuid": r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
    "ip": r"(?:\d{1,3}\.){3}\d{1,3}|(?:[0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|(?:[0-9a-fA-F]{0,4}:){2,6}:(?:[0-9a-fA-F]{1,4})?",
    "int": r"[+-]?\d{1,18}",
    "float": r"[+-]?\d{1,15}\.\d+",
    "hex": r"0x[0-9a-fA-F]+|(?=[0-9a-fA-F]*\d)(?=[0-9a-fA-F]*[a-fA-F])[0-9a-fA-F]{8,}",
    "url": r"[a-z][a-z0-9+.-]*://\S+",
    "email": r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    "mac": r"(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}",
    "path": r"/[\w.@%+~/:-]*|[A-Za-z]:\\[^\s\"]*",
    "line": r"[\w./\\-]+\.[a-z]{1,4}:\d+",
    "word": r"[A-Za-z_]\w*",
}
"""What values look like, the surest first."""

_KIND = re.compile("|".join(f"(?P<{name}>{looks})" for name, looks in KINDS.items()))
_BETWEEN = re.compile(r"[\s|;]*")
_DASH = re.compile(r"[^\w\s\[\](){}\"'|;]+(?=[\s|;]|$)")
_PROGRAM = re.compile(r"[^\s|\[\]:]+(?: \(\S+\))?\[\d+\](?: \([^)]*\))?(?=:(?:\s|$))")
_BRACKETS = {
    "[": re.compile(r"\[((?:[^\[\]\n]|\[[^\[\]\n]*\])*)\]"),
    "(": re.compile(r"\(((?:[^()\n]|\([^()\n]*\))*)\)"),
    "<": re.compile(r"<([^<>\n]*)>"),
    "{": re.compile(r"\{((?:[^{}\n]|\{[^{}\n]*\})*)\}"),
    '"': re.compile(r'"((?:[^"\\\n]|\\.)*)"'),
}
_LEVEL_AND_NAME = re.compile(r"([A-Za-z]{4,11}):([\w.$-]+):")
_LEVEL_GLUED = re.compile(r"([A-Za-z]{3,11})(?=\[)")
_RUN = re.compile(r"[^\s|;]+")
_THREAD_LEVEL = re.compile(r"(.+)/([A-Za-z]+)")
_MAX_BRACKET_TOKENS = 4
"""Tokens that a bracket may have to be taken apart."""


class Token(NamedTuple):
    """A token; ``before`` is what stands between it and the one before, ``form`` that of a time."""

    kind: str
    text: str
    before: str
    start: int
    end: int
    form: TimeForm | None = None


def kind_of(text: str) -> str:
    """The kind of a value; ``text`` for what is nothing known."""
    if text.lower() in LEVELS:
        return "level"
    found = _KIND.fullmatch(text)
    return found.lastgroup or "text" if found else "text"


def tokenize(line: str, max_tokens: int = 14) -> list[Token]:
    """The first tokens of a line."""
    found: list[Token] = []
    for token in _tokenize(line, 0, len(line)):
        found.append(token)
        if len(found) == max_tokens:
            break
    return found


def _tokenize(line: str, at: int, end: int) -> Iterator[Token]:
    """Tokens of a part of a line; ``before`` of the first begins at ``at``."""
    previous_end = at
    if at == 0 and (named := _LEVEL_AND_NAME.match(line)) and named[1].lower() in LEVELS:
        yield from _level_and_name(named)
        previous_end = at = named.end()
    while at < end:
        gap = _BETWEEN.match(line, at, end)
        at = gap.end() if gap else at
        if at >= end:
            return
        if inner := _inner(line, at, end):
            first, *rest = inner[0]
            yield first._replace(before=line[previous_end : first.start])
            yield from rest
            previous_end, at = inner[0][-1].end, inner[1]
            continue
        token = _token(line, at, end)
        yield token._replace(before=line[previous_end : token.start])
        previous_end = at = token.end


def _level_and_name(found: re.Match[str]) -> Iterator[Token]:
    """Python's ``INFO:shop.order:`` as four tokens."""
    (_, level), (start, name) = found.span(1), found.span(2)
    yield Token("level", found[1], "", 0, level)
    yield Token("dash", ":", "", level, start)
    yield Token("text", found[2], "", start, name)
    yield Token("dash", ":", "", name, found.end())


def _inner(line: str, at: int, end: int) -> tuple[list[Token], int] | None:
    """The tokens in a bracket that holds nothing but typed values, and where it ends."""
    bracket = _BRACKETS.get(line[at])
    found = bracket.match(line, at, end) if bracket and line[at] != '"' else None
    if not found or not found[1].strip() or found.end() - at > 80:
        return None
    if (thread := _THREAD_LEVEL.fullmatch(found[1])) and thread[2].lower() in LEVELS:
        start, cut = found.start(1), found.start(1) + len(thread[1])
        name = Token("thread", thread[1], line[at:start], start, cut)
        return [name, Token("level", thread[2], "/", cut + 1, found.end(1))], found.end()
    parts = []
    for token in _tokenize(line, found.start(1), found.end(1)):
        parts.append(token)
        if len(parts) > _MAX_BRACKET_TOKENS or token.kind not in _TYPED:
            return None
    return (parts, found.end()) if parts else None


_TYPED = {"time", "level", "int", "float", "ip", "uuid"}


def _token(line: str, at: int, end: int) -> Token:
    if line[at] in LEVEL_LETTERS and at + 1 < end and line[at + 1].isdigit() and time_at(line[:end], at + 1):
        return Token("level", line[at], "", at, at + 1)  # glog: I0102 03:04:05
    if time := time_at(line[:end], at):
        return Token("time", line[at : time[1]], "", at, time[1], time[0])
    if (bracket := _BRACKETS.get(line[at])) and (found := bracket.match(line, at, end)):
        return Token("quote" if line[at] == '"' else f"in{line[at]}", found[0], "", at, found.end())
    if dash := _DASH.match(line, at, end):
        return Token("dash", dash[0], "", at, dash.end())
    if program := _PROGRAM.match(line, at, end):
        return Token("program", program[0], "", at, program.end())
    if (glued := _LEVEL_GLUED.match(line, at, end)) and glued[0].lower() in LEVELS:
        return Token("level", glued[0], "", at, glued.end())  # logrus: INFO[0003]
    run = _RUN.match(line, at, end)
    assert run
    text = run[0]
    while len(text) > 1 and text[-1] in ",;:" and (at + len(text) == end or not text[-1].isalnum()):
        text = text[:-1]
        if text[-1] not in ",;:":
            break
    if text[-1] == "]" and "[" not in text and len(text) > 1:
        text = text[:-1]
    if text[0] == "#" and text[1:].isdigit():
        return Token("int", text[1:], "", at + 1, at + len(text))
    return Token(kind_of(text) if text != "]" else "dash", text, "", at, at + len(text))

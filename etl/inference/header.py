"""Finding the header that the lines of one program share (time, level, component, …), as columns.

Lines are compared token by token. A column is sure if nearly all lines have the same kind of value there. The header ends with
the last sure column; the rest of the line is the message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from etl.inference.grok.tokens import LEVEL_LETTERS, Token, tokenize
from etl.inference.times import TimeForm

AGREE = 0.96
"""Minimum share of lines with the same kind of value in a column; the other lines get other patterns."""
MAX_COLUMNS = 12
MAX_WEAK = 3
"""Maximum number of uncertain columns in sequence, between certain ones."""
NAME_MARK, SHORT, SHORT_WORDS = " - ", 60, 4
"""What stands after a name whose number of words differs, and how many characters and words it has at the most."""

_SURE = frozenset({"time", "level", "int", "float", "ip", "uuid", "hex", "in[", "thread", "url", "mac", "email", "line"})
MESSAGE_MARKS = frozenset({"-", "--", "---", ":", "=>", "->", ">", ">>", "*", "|"})


_Rows: TypeAlias = dict[int, list[Token]]
"""Tokens by the number of the line."""
_Family: TypeAlias = tuple[str, "TimeForm | str | None"]


@dataclass(frozen=True)
class Column:
    """The tokens at one index of all lines; ``before`` is the separator before them."""

    kind: str
    before: str
    values: Sequence[str]
    form: TimeForm | None = None
    padded: bool = False
    """Whether the number of blanks before it differs."""
    blanks: str = " +"
    """The pattern of these blanks."""


@dataclass(frozen=True)
class Header:
    """Columns, what separates the last from the message, and the numbers of the lines that have them."""

    columns: Sequence[Column]
    lines: Sequence[int]
    after: str = ""
    ends: Sequence[int] = field(default=())
    """Where the message begins in each of ``lines``."""


def find_header(lines: Sequence[str]) -> Header | None:
    """The header that most of the lines share, or None."""
    parsed = [tokenize(line) for line in lines]
    shape = Counter(_opening(row) for row in parsed if row).most_common(1)
    if not shape:
        return None
    chosen = [number for number, row in enumerate(parsed) if row and _opening(row) == shape[0][0]]
    columns: list[Column] = []
    rows = {number: parsed[number] for number in chosen}
    while len(columns) < MAX_COLUMNS:
        found = _column(rows, len(columns))
        if found is None:
            break
        column, rows = found
        columns.append(column)
    return _keep_sure_columns(columns, rows, lines)


def _opening(row: Sequence[Token]) -> tuple[str, ...]:
    """What lines of one format begin with: the kind of the first token, and where the first time is and its form."""
    time = next((number for number, token in enumerate(row[:8]) if token.kind == "time"), -1)
    if time < 0:
        kind = row[0].kind
        return (kind if kind in _SURE else "", row[0].before.strip())
    form = row[time].form
    return (str(time), form.pattern if form else "", row[time].before.strip())


def _column(rows: _Rows, at: int) -> tuple[Column, _Rows] | None:
    """The column at an index, and the lines that have it; None if fewer than `AGREE` do."""
    min_count = AGREE * len(rows)
    marks = Counter(_mark(row[at], at) for row in rows.values() if len(row) > at)
    mark = next((mark for mark, count in marks.most_common(1) if count >= min_count), None)
    if mark is None:
        return None
    rows = {number: row for number, row in rows.items() if len(row) > at and _mark(row[at], at) == mark}
    kinds = Counter(_family(row[at]) for row in rows.values())
    common, alike = kinds.most_common(1)[0]
    exact = alike >= min_count
    family = common if exact else _mixed_kind(kinds, at)
    if family is None:
        return None
    if exact and (family[0] in _SURE or family[0] in ("dash", "component")):
        rows = {number: row for number, row in rows.items() if _family(row[at]) == family}
    befores = {row[at].before for row in rows.values()}
    form = next(row[at].form for row in rows.values())
    blanks = r"\s" if any(set(text) & {"\n", "\t"} for text in befores) else " "
    blanks += "*" if "" in befores else "+"
    return Column(family[0], max(befores), [row[at].text for row in rows.values()], form, len(befores) > 1, blanks), rows


def _mixed_kind(kinds: Counter[_Family], at: int) -> _Family | None:
    """What a column is whose values differ in kind: programs with and without a process, words, or nothing."""
    names = {
        "text" if at == 0 and mark == "-" else kind for kind, mark in kinds
    }  # a dash at the start of a line is an empty label
    if "component" in names:
        return "component", None
    if names & {"time", "dash"}:
        others = sum(count for (kind, _), count in kinds.items() if kind not in ("time", "dash"))
        return ("text", None) if others >= AGREE * kinds.total() else None
    return "text", None


def _mark(token: Token, at: int) -> str:
    return " ".join(token.before.split()) if at else token.before


def _family(token: Token) -> _Family:
    """What values of one column have in common: the kind, a time's form, a mark's text."""
    if token.kind == "dash":
        return "dash", token.text
    return "component" if token.kind == "program" else token.kind, token.form


def _keep_sure_columns(columns: Sequence[Column], rows: _Rows, lines: Sequence[str]) -> Header | None:
    """The header of the columns up to the last sure one."""
    last = -1
    weak = 0
    marked = False
    for number, column in enumerate(columns):
        if is_sure(columns, number, rows):
            marked = marked or (column.kind == "dash" and column.values[0] in MESSAGE_MARKS and number > 0)
            last, weak = number, 0
        else:
            weak += 1
            if weak > MAX_WEAK or marked:
                break
    if last < 0:
        return None
    found = _with_ends(columns[: last + 1], rows, lines)
    return found if marked else _with_name(found, lines)


def _with_name(header: Header, lines: Sequence[str]) -> Header:
    """The header with a name of one word or more before `` - ``, where all messages begin with one."""
    rests = {n: lines[n][at:] for n, at in zip(header.lines, header.ends, strict=True)}
    cuts = {
        n: cut for n, text in rests.items() if (cut := text.find(NAME_MARK, 0, SHORT)) > 0 and text[:cut].count(" ") < SHORT_WORDS
    }
    if not cuts or len(cuts) < AGREE * len(rests):
        return header
    first = header.ends[0]
    before = lines[header.lines[0]][len(lines[header.lines[0]][:first].rstrip()) : first]
    name = Column("name", f"{header.after}{before}", [rests[n][:cut] for n, cut in cuts.items()])
    starts = dict(zip(header.lines, header.ends, strict=True))
    ends = {n: starts[n] + cut + len(NAME_MARK) for n, cut in cuts.items()}
    return Header([*header.columns, name], list(ends), NAME_MARK.strip(), list(ends.values()))


def is_sure(columns: Sequence[Column], number: int, rows: _Rows) -> bool:
    """Whether a column belongs to the header, and is not a word of the message."""
    column = columns[number]
    if column.kind in _SURE or column.kind in ("component", "dash"):
        return True
    if is_level_letters(column):
        return True
    following = columns[number + 1] if number + 1 < len(columns) else None
    if following is not None and following.kind == "dash" and set(following.values) <= MESSAGE_MARKS:
        return True
    spaces = [row[number + 1].before for row in rows.values() if len(row) > number + 1]
    return len(spaces) >= AGREE * len(rows) and all(_is_wide(text) for text in spaces)


def _is_wide(text: str) -> bool:
    """Whether a text separates columns rather than words."""
    return len(text) - len(text.strip(" \t")) > 1 or bool({"|", "\t"} & set(text)) or text == ";"


def is_level_letters(column: Column) -> bool:
    """``D``, ``I``, ``W``: levels of one letter, and nothing else."""
    return set(column.values) <= LEVEL_LETTERS


def _with_ends(columns: Sequence[Column], rows: _Rows, lines: Sequence[str]) -> Header:
    at = len(columns) - 1
    rests = {n: row[at + 1].before if len(row) > at + 1 else lines[n][row[at].end :] for n, row in rows.items()}
    after, count = Counter(text.strip() for text in rests.values()).most_common(1)[0]
    after = after if count >= AGREE * len(rows) else ""
    numbers = [number for number, text in rests.items() if text.lstrip().startswith(after)]
    return Header(columns, numbers, after, [_message_start(lines[n], rows[n][at].end, after) for n in numbers])


def _message_start(line: str, at: int, after: str) -> int:
    """Where the message begins: after blanks, what separates it, and blanks."""
    rest = line[at:].lstrip()[len(after) :]
    return len(line) - len(rest.lstrip())

"""Chooses field names for the columns of a log header: ECS names where kind and position of a column are unambiguous, otherwise
its kind and a number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from etl.inference.header import MESSAGE_MARKS, Column, is_level_letters

MIN_ALIKE_SHARE = 0.9
"""Minimum share of values that must match a pattern before the column gets the name for it."""

_THREAD = re.compile(
    r"(?i).*(main|thread|pool|exec|worker|nio|task|scheduler|timer|reactor|loop|qtp|akka|dispatcher|netty|background|-\d+$).*"
)
_LOGGER = re.compile(
    r"[A-Za-z_$][\w$-]*(\.[\w$-]+)+|[a-z]+[A-Z]\w*|[A-Z][a-z]+([A-Z]\w*)+|\w+\$\w+|[A-Za-z_]\w*(\.\w+)*(:\w+){1,2}"
)
_CLASS = re.compile(r"[A-Za-z_$][\w$]*(\.[\w$]+){2,}(:\w+)?")
_NAME = re.compile(r"[A-Za-z][\w.$/-]*")
_HOST = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9][A-Za-z0-9.\-]*")
REQUEST_LINE = re.compile(r'"[A-Z]{3,10} \S+( HTTP/[\d.]+)?"')


def name_columns(columns: Sequence[Column], after: str) -> list[str]:
    """A name for each column; empty for a column without information, such as a dash. ``after`` separates it from the message."""
    best = max((column.form.score for column in columns if column.form), default=0)
    taken: set[str] = set()
    names: list[str] = []
    for number in range(len(columns)):
        name = _choose_name(columns, number, after, best, taken)
        names.append(make_unique(name, taken) if name else "")
        taken.add(names[-1])
    return names


def make_unique(name: str, taken: set[str]) -> str:
    """The name, or with a number after it."""
    if name not in taken:
        return name
    plain = name.rpartition(".")[2] if "." in name else name
    return next(text for number in range(2, 100) if (text := f"{plain}{number}") not in taken)


def most_match(values: Sequence[str], pattern: re.Pattern[str]) -> bool:
    """Whether a pattern matches at least `MIN_ALIKE_SHARE` of the values as a whole."""
    return sum(1 for value in values if pattern.fullmatch(value)) >= MIN_ALIKE_SHARE * len(values)


def is_request(column: Column) -> bool:
    """Whether the quoted values are request lines of HTTP."""
    return column.kind == "quote" and most_match(column.values, REQUEST_LINE)


def _choose_name(columns: Sequence[Column], number: int, after: str, best: int, taken: set[str]) -> str:
    column = columns[number]
    if column.form:
        return _time_name(column, best, taken)
    if column.kind == "in[" and any(one.kind in _WORDS and most_match(one.values, _LOGGER) for one in columns[number + 1 :]):
        return "process.thread.name" if _bracket_name(column) == "process.thread.name" else "context"
    make = _NAMES.get(column.kind)
    if number == 0 and "-" in column.values:
        return "label"
    if column.kind == "dash":
        return ""
    if is_level_letters(column) and "log.level" not in taken and not any(one.kind == "level" for one in columns):
        return "log.level"
    return make(column) if make else _text_name(columns, number, after, taken)


def _time_name(column: Column, best: int, taken: set[str]) -> str:
    assert column.form
    if column.form.score == best and best > 2 and "timestamp" not in taken:
        return "timestamp"
    if not column.form.formats:
        return "time"
    return "epoch" if column.form.formats[0].startswith("epoch") else "date" if column.form.score == 2 else "time"


def _bracket_name(column: Column) -> str:
    inner = [value[1:-1].strip() for value in column.values]
    if most_match(inner, _THREAD):
        return "process.thread.name"
    if most_match(inner, _LOGGER) or most_match(inner, _NAME):
        return "log.logger"
    return "context"


_NAMES: dict[str, Callable[[Column], str]] = {
    "level": lambda _: "log.level",
    "thread": lambda _: "process.thread.name",
    "component": lambda _: "process.name",
    "name": lambda _: "process.name",
    "in[": _bracket_name,
    "in(": lambda _: "detail",
    "ip": lambda _: "source.ip",
    "uuid": lambda _: "id",
    "hex": lambda _: "hex",
    "url": lambda _: "url.original",
    "email": lambda _: "user.email",
    "mac": lambda _: "source.mac",
    "float": lambda _: "number",
    "line": lambda _: "log.origin.file.name",
    "quote": lambda _: "text",
}


_WORDS = frozenset({"text", "word", "line"})


def _text_name(columns: Sequence[Column], number: int, after: str, taken: set[str]) -> str:
    column = columns[number]
    if column.kind == "int":
        return _number_name(columns, number, taken)
    is_host = number > 0 and columns[number - 1].form is not None and "log.level" not in taken
    if is_host and number + 1 < len(columns) and _is_program(columns, number + 1, after) and most_match(column.values, _HOST):
        return "host.hostname"
    if _is_marked(columns, number, after) and most_match(column.values, _NAME):
        return "process.name" if "host.hostname" in taken else "log.logger"
    if most_match(column.values, _CLASS) and "log.logger" not in taken:
        return "log.logger"
    if most_match(column.values, _LOGGER) and ("log.level" in taken or "process.thread.name" in taken):
        return "log.logger"
    last = number == len(columns) - 1
    return "log.logger" if last and "log.level" in taken and "log.logger" not in taken else f"field{_generic(taken)}"


def _generic(taken: set[str]) -> int:
    return 1 + sum(1 for name in taken if name.startswith("field"))


def _number_name(columns: Sequence[Column], number: int, taken: set[str]) -> str:
    """The first number between time and level is the process, a number directly after it the thread."""
    if "level" in _next_kinds(columns, number) or columns[number - 1].form or "#" in columns[number].before:
        if "process.pid" not in taken and "time" in [one.kind for one in columns[:number]] and _is_early(columns, number):
            return "process.pid"
        if number and columns[number - 1].kind == "int" and "process.pid" in taken and "process.thread.id" not in taken:
            return "process.thread.id"
    return "number"


def _is_early(columns: Sequence[Column], number: int) -> bool:
    """Whether the header has a level, or a ``#`` marks the number as a process."""
    return any(one.kind == "level" or is_level_letters(one) for one in columns) or "#" in columns[number].before


def _next_kinds(columns: Sequence[Column], number: int) -> Iterator[str]:
    """The kinds of the next two columns. The ``---`` that Spring writes after level and process counts as a level."""
    for one in columns[number + 1 : number + 3]:
        yield "level" if is_level_letters(one) or (one.kind == "dash" and one.values[0] == "---") else one.kind


def _is_program(columns: Sequence[Column], number: int, after: str) -> bool:
    return columns[number].kind == "component" or _is_marked(columns, number, after)


def _is_marked(columns: Sequence[Column], number: int, after: str) -> bool:
    """Whether one of `MESSAGE_MARKS` follows the column."""
    if number + 1 == len(columns):
        return after in MESSAGE_MARKS
    return columns[number + 1].kind == "dash" and set(columns[number + 1].values) <= MESSAGE_MARKS

"""Delimited values without a header: the delimiter, and what the columns are called, by what is in them."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from etl.inference.column_names import make_unique
from etl.inference.grok.tokens import kind_of
from etl.inference.time_formats import choose_format
from etl.inference.times import TimeForm, time_at

DELIMITERS = (",", ";", "\t", "|")
MAX_LINES = 1_000
MIN_LINES, MIN_COLUMNS = 3, 3
SAME_WIDTH = 0.98
"""The share of lines that must have the same number of values."""
ALIKE = 0.98
"""The share of a column's values that must be of one kind."""
PROSE = 0.2
"""The share of values with several words, without quotes around them, from which on a column is text and no table's."""

_TYPES = {"int": "bigint", "float": "double", "bool": "boolean"}
_NAMES = {
    "ip": ("source.ip", "destination.ip"),
    "method": ("http.request.method",),
    "status": ("http.response.status_code",),
    "level": ("log.level",),
    "uuid": ("id",),
    "email": ("user.email",),
    "mac": ("source.mac", "destination.mac"),
    "url": ("url.original",),
    "path": ("url.path",),
    "host": ("host.hostname",),
}
"""Names by kind, for its first column and the later ones."""

_BOOL = re.compile(r"true|false", re.IGNORECASE)
_METHOD = re.compile(r"GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|CONNECT|TRACE")
_STATUS = re.compile(r"[1-5]\d\d")
_FQDN = re.compile(r"(?=.*[A-Za-z])[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+|[A-Za-z]+-?\d{1,4}")
_WORDS = re.compile(r"\S+\s+\S+\s+\S")


@dataclass(frozen=True)
class CsvTable:
    """How to read it: options of the parser `csv`, and the format of the column `timestamp`, if there is one."""

    delimiter: str
    names: tuple[str, ...]
    types: dict[str, str] = field(default_factory=dict)
    trim: bool = False
    time_format: str | None = None

    def options(self) -> dict[str, Any]:
        """Of the parser."""
        given: dict[str, Any] = {"names": list(self.names)}
        if self.types:
            given["fields"] = self.types
        if self.delimiter != ",":
            given["delimiter"] = self.delimiter
        return given | ({"trim": True} if self.trim else {})


def find_csv_table(lines: Sequence[str]) -> CsvTable | None:
    """The table that lines are, if nearly all have the same number of values and these are not prose."""
    lines = [line for line in lines[:MAX_LINES] if line.strip()]
    if len(lines) < MIN_LINES:
        return None
    tables = (_table(lines, delimiter) for delimiter in DELIMITERS)
    return max(filter(None, tables), key=lambda table: len(table.names), default=None)


def _table(lines: Sequence[str], delimiter: str) -> CsvTable | None:
    try:
        rows = [next(csv.reader([line], delimiter=delimiter, strict=True)) for line in lines]
    except csv.Error:
        return None
    width, count = Counter(map(len, rows)).most_common(1)[0]
    if width < MIN_COLUMNS or count < SAME_WIDTH * len(rows):
        return None
    cells = [list(column) for column in zip(*(row for row in rows if len(row) == width), strict=True)]
    columns = [_column([cell.strip() for cell in column]) for column in cells]
    if any(_is_prose(column, lines, delimiter) for column in cells) or not any(column.kind != "text" for column in columns):
        return None
    trim = any(cell[:1].isspace() for column in cells for cell in column)
    return _name_columns(delimiter, columns, trim)


@dataclass(frozen=True)
class _Column:
    kind: str
    values: Sequence[str]
    """Those that are not empty."""
    form: TimeForm | None = None


def _column(cells: Sequence[str]) -> _Column:
    values = [cell for cell in cells if cell]
    if not values:
        return _Column("text", values)
    if form := _time_form(values):
        return _Column("time", values, form)
    return _Column(next(_kinds(values), "text"), values)


def _kinds(values: Sequence[str]) -> Iterator[str]:
    """What the values are, the surest first."""
    min_values = ALIKE * len(values)
    for kind, looks in (("bool", _BOOL), ("method", _METHOD), ("status", _STATUS)):
        if sum(1 for value in values if looks.fullmatch(value)) >= min_values:
            yield kind
    kinds = Counter(map(kind_of, values))
    numbers = kinds["int"] + kinds["float"]
    if numbers == len(values):
        yield "float" if kinds["float"] else "int"
    kind, count = kinds.most_common(1)[0]
    if count >= min_values and kind in _NAMES:
        yield kind
    if sum(1 for value in values if _FQDN.fullmatch(value)) >= min_values:
        yield "host"


def _time_form(values: Sequence[str]) -> TimeForm | None:
    """The form in which all are times with a date."""
    found = {_whole_time(value) for value in values}
    form = found.pop()
    return form if not found and form is not None and form.formats else None


def _whole_time(value: str) -> TimeForm | None:
    found = time_at(value, 0)
    return found[0] if found is not None and found[1] == len(value) else None


def _is_prose(cells: Sequence[str], lines: Sequence[str], delimiter: str) -> bool:
    """Whether a column has sentences that stand in no quotes, so that a delimiter may be a comma of theirs."""
    long = sum(1 for cell in cells if _WORDS.match(cell.strip()))
    return long > PROSE * len(cells) and not all(f'{delimiter}"' in line or line.startswith('"') for line in lines)


def _name_columns(delimiter: str, columns: Sequence[_Column], trim: bool) -> CsvTable:
    times = [(column.form.score, -number) for number, column in enumerate(columns) if column.form]
    timestamp = -max(times)[1] if times else -1
    is_request = any(column.kind == "method" for column in columns)
    names: list[str] = []
    types: dict[str, str] = {}
    for number, column in enumerate(columns):
        kind = column.kind if column.kind != "status" or is_request else "int"
        choices = ("timestamp",) if number == timestamp else ("time",) if column.form else _NAMES.get(kind, ())
        column_name = next((name for name in choices if name not in names), f"column{number + 1}")
        names.append(make_unique(column_name, set(names)))
        if type_ := "int" if kind == "status" else _TYPES.get(kind):
            types[names[-1]] = type_
    form = columns[timestamp].form if times else None
    chosen = choose_format(form, columns[timestamp].values) if form else None
    return CsvTable(delimiter, tuple(names), types, trim, chosen)

"""A header as a grok pattern."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from etl.finding.column_names import is_request, name_columns
from etl.finding.header import Column, Header

MESSAGE = "message"
BLANKS_PATTERN = r"\s*"

_SPECIAL = re.compile(r"([\\.^$|?*+()\[\]{}])")
_LOGLEVEL = re.compile(
    r"(?i)alert|trace|debug|notice|info(?:rmation)?|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal|severe|emerg(?:ency)?"
)
_ISO8601 = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,:]\d+)?)?(Z|[+-]\d\d:?\d\d)?")
_BRACKET = r"\[ *(?<{0}>(?:[^\[\]]|\[[^\[\]]*\])*?) *\]"
REQUEST_PATTERN = '"%{WORD:http.request.method} %{NOTSPACE:url.original}(?: HTTP/%{NUMBER:http.version})?"'
_PATTERNS = {
    "int": "%{{INT:{0}:int}}",
    "float": "%{{NUMBER:{0}:float}}",
    "ip": "%{{IP:{0}}}",
    "uuid": "%{{UUID:{0}}}",
    "mac": "%{{MAC:{0}}}",
    "email": "%{{EMAILADDRESS:{0}}}",
    "in[": _BRACKET,
    "in(": r"\( *(?<{0}>(?:[^()]|\([^()]*\))*?) *\)",
    "in<": r"<(?<{0}>[^<>]*)>",
    "in{": r"\{{(?<{0}>(?:[^{{}}]|\{{[^{{}}]*\}})*)\}}",
    "quote": r'"(?<{0}>(?:[^"\\]|\\.)*)"',
    "line": r"(?<{0}>[^\s:]+):%{{INT:log.origin.file.line:int}}",
    "thread": r"(?<{0}>[^\[\]]+?)",
    "component": r"(?<{0}>[^\s\[\]:]+(?: \(\S+\))?)\[%{{INT:process.pid:int}}\](?: \([^)]*\))?",
    "name": r"(?<{0}>.+?)",
}
"""By the kind of a column; ``{0}`` is its name."""


def escape_literal(text: str) -> str:
    """Literal text in a pattern."""
    return _SPECIAL.sub(r"\\\1", text)


def make_header_pattern(header: Header) -> str:
    """The pattern of its lines up to the message."""
    names = name_columns(header.columns, header.after)
    parts = "".join(_make_parts(header.columns, names, header.after))
    return (
        f"^{parts}{BLANKS_PATTERN if header.after else ''}{make_separator_pattern(header.after, flexible=True)}{BLANKS_PATTERN}"
    )


def make_time_pattern(column: Column, name: str) -> str:
    """A time, by the library's names where they say the same."""
    if all(_ISO8601.fullmatch(value) for value in column.values):
        return f"%{{TIMESTAMP_ISO8601:{name}}}"
    assert column.form
    return f"(?<{name}>{column.form.named()})"


def _make_parts(columns: Sequence[Column], names: Sequence[str], after: str) -> Iterator[str]:
    for number, (column, name) in enumerate(zip(columns, names, strict=True)):
        yield (
            make_separator_pattern(column.before, column.padded) if column.before.strip() or not column.padded else column.blanks
        )
        glued = columns[number + 1].before == "" if number + 1 < len(columns) else bool(after)
        yield _make_part(column, name, glued)


def make_separator_pattern(text: str, flexible: bool = False) -> str:
    """What stands between columns; ``flexible``: with any number of blanks, for they differ."""
    return "".join(
        _make_blank_pattern(part, flexible) if part.isspace() else escape_literal(part) for part in re.split(r"(\s+)", text)
    )


def _make_blank_pattern(text: str, flexible: bool) -> str:
    if set(text) != {" "}:
        return r"\s+"
    return " +" if flexible or len(text) > 1 else " "


def _make_part(column: Column, name: str, glued: bool) -> str:
    if column.kind == "dash" and not name:
        return escape_literal(column.values[0]) if len(set(column.values)) == 1 else r"\S+"
    if column.form:
        return make_time_pattern(column, name)
    if column.kind == "level" and glued and all(len(value) == 1 for value in column.values):
        return f"(?<{name}>[A-Z])"
    if column.kind == "level":
        known = all(_LOGLEVEL.fullmatch(value) for value in column.values)
        return f"%{{{'LOGLEVEL' if known else 'WORD'}:{name}}}"
    if is_request(column):
        return REQUEST_PATTERN
    if column.kind == "component" and not all("[" in value for value in column.values):
        return rf"(?<{name}>[^\s\[\]:]+)(?:\[%{{INT:process.pid:int}}\])?"
    made = _PATTERNS.get(column.kind)
    if made:
        return made.format(name)
    mark = next((mark for mark in "|;" if mark in column.before), None)
    if mark:
        return f"(?<{name}>[^{mark}]*?)"
    return rf"(?<{name}>\S+?)" if glued else f"%{{NOTSPACE:{name}}}"

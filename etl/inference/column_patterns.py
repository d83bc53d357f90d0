"""Makes a grok pattern of the header that the lines of a log have before their messages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from etl.inference.column_names import is_request, name_columns
from etl.inference.header import Column, Header

MESSAGE = "message"
BLANKS_PATTERN = r"\s*"

_SPECIAL = re.compile(r"([\\.^$|?*+()\[\]{}])")
_LOGLEVEL = re.compile(
    r"(?i)alert|trace|debug|notice|info(?:rmation)?|warn(?:ing)?|err(?:or)?|crit(?:ical)?|fatal|severe|emerg(?:ency)?"
)
_ISO8601 = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d([.,:]\d+)?)?(Z|[+-]\d\d:?\d\d)?")
_BRACKET = r"\[ *(?<{0}>(?:[^\[\]]|\[[^\[\]]*\])*?) *\]"
REQUEST_PATTERN = '"%{WORD:http.request.method} %{NOTSPACE:url.original}(?: HTTP/%{NUMBER:http.version})?"'
VALUE_PATTERNS = {
    "int": "%{{INT:{0}:int}}",
    "float": "%{{NUMBER:{0}:float}}",
    "ip": "%{{IP:{0}}}",
    "uuid": "%{{UUID:{0}}}",
    "mac": "%{{MAC:{0}}}",
    "email": "%{{EMAILADDRESS:{0}}}",
}
"""Kind of a value → pattern; ``{0}`` is the name of the field."""
_PATTERNS = {
    **VALUE_PATTERNS,
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
"""Kind of a column → pattern; ``{0}`` is the column's name."""


def escape_literal(text: str) -> str:
    """Return a pattern that matches the text itself."""
    return _SPECIAL.sub(r"\\\1", text)


def make_header_pattern(header: Header) -> str:
    """Return the pattern of the header's lines up to the message."""
    names = name_columns(header.columns, header.after)
    parts = "".join(_make_parts(header.columns, names, header.after))
    return (
        f"^{parts}{BLANKS_PATTERN if header.after else ''}{make_separator_pattern(header.after, flexible=True)}{BLANKS_PATTERN}"
    )


def make_time_pattern(column: Column, name: str) -> str:
    """Return the pattern of a column of times: the library's ``TIMESTAMP_ISO8601`` if it fits all, else an expression."""
    if all(_ISO8601.fullmatch(value) for value in column.values):
        return f"%{{TIMESTAMP_ISO8601:{name}}}"
    assert column.form
    return f"(?<{name}>{column.form.grok_pattern()})"


def _make_parts(columns: Sequence[Column], names: Sequence[str], after: str) -> Iterator[str]:
    for number, (column, name) in enumerate(zip(columns, names, strict=True)):
        yield (
            make_separator_pattern(column.before, column.padded) if column.before.strip() or not column.padded else column.blanks
        )
        has_no_separator = columns[number + 1].before == "" if number + 1 < len(columns) else bool(after)
        yield _make_part(column, name, has_no_separator)


def make_separator_pattern(text: str, flexible: bool = False) -> str:
    """Return the pattern of the text between two columns; ``flexible``: with any number of spaces, because lines differ."""
    return "".join(
        _make_blank_pattern(part, flexible) if part.isspace() else escape_literal(part) for part in re.split(r"(\s+)", text)
    )


def _make_blank_pattern(text: str, flexible: bool) -> str:
    if set(text) != {" "}:
        return r"\s+"
    return " +" if flexible or len(text) > 1 else " "


def _make_part(column: Column, name: str, has_no_separator: bool) -> str:
    if column.kind == "dash" and not name:
        return escape_literal(column.values[0]) if len(set(column.values)) == 1 else r"\S+"
    if column.form:
        return make_time_pattern(column, name)
    if column.kind == "level" and has_no_separator and all(len(value) == 1 for value in column.values):
        return f"(?<{name}>[A-Z])"
    if column.kind == "level":
        known = all(_LOGLEVEL.fullmatch(value) for value in column.values)
        return f"%{{{'LOGLEVEL' if known else 'WORD'}:{name}}}"
    if is_request(column):
        return REQUEST_PATTERN
    if column.kind == "component" and not all("[" in value for value in column.values):
        return rf"(?<{name}>[^\s\[\]:]+)(?:\[%{{INT:process.pid:int}}\])?"
    pattern = _PATTERNS.get(column.kind)
    if pattern:
        return pattern.format(name)
    delimiter = next((character for character in "|;" if character in column.before), None)
    if delimiter:
        return f"(?<{name}>[^{delimiter}]*?)"
    return rf"(?<{name}>\S+?)" if has_no_separator else f"%{{NOTSPACE:{name}}}"

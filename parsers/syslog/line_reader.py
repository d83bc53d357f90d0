"""A column of syslog lines → fields: scanned with the patterns, then checked for errors that no pattern finds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Parsed
from etl.columns.text_layout import boolean_values
from etl.columns.texts import Texts, materialize_array, take_rows
from etl.scanner.engines import find_invalid_utf8
from etl.scanner.scanner import Scanner
from parsers.common.failures import Failures, wrong_values
from parsers.common.text_types import make_reader
from parsers.common.view_values import replace_rows
from parsers.grok.compiler import compile_pattern
from parsers.syslog.line_patterns import CAPTURES, forms
from parsers.syslog.structured_data import StructuredData, read_structured_data
from parsers.syslog.times import time_reader

if TYPE_CHECKING:
    import numpy as np

    from parsers.syslog.parser import Syslog

    Array = np.ndarray[Any, Any]

FACILITIES = (
    *("kern", "user", "mail", "daemon", "auth", "syslog", "lpr", "news", "uucp", "cron", "authpriv", "ftp"),
    *("ntp", "security", "console", "solaris-cron"),
    *(f"local{number}" for number in range(8)),
)
SEVERITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")
SEVERITY_BITS = 3


def make_priority_columns(texts: pa.Array) -> dict[str, pa.Array]:
    """Return the columns of decimal priorities up to 191 (or null): priority, and facility and severity as codes and names."""
    import numpy as np

    from etl.columns.numbers import whole_numbers
    from etl.columns.texts import make_view_array

    priority = whole_numbers(texts)
    bits, values = priority.buffers()
    numbers = np.frombuffer(values, np.int64)
    valid = priority.is_valid().to_numpy(zero_copy_only=False) if priority.null_count else None
    columns = {"log.syslog.priority": priority}
    facility, severity = numbers >> SEVERITY_BITS, numbers & (1 << SEVERITY_BITS) - 1
    for part, codes, names in (("facility", facility, FACILITIES), ("severity", severity, SEVERITIES)):
        columns[f"log.syslog.{part}.code"] = pa.Array.from_buffers(pa.int64(), len(codes), [bits, pa.py_buffer(codes)])
        columns[f"log.syslog.{part}.name"] = make_view_array(_make_views(names)[codes], valid, None)
    return columns


@cache
def _make_views(names: tuple[str, ...]) -> Any:
    """Return the views (uint32[names, 4]) of names of at most 12 bytes, which are inline in their views."""
    import numpy as np

    raw = b"".join(len(name).to_bytes(4, "little") + name.encode().ljust(12, b"\0") for name in names)
    return np.frombuffer(raw, np.uint32).reshape(-1, 4)


FIELDS = {
    "version": "log.syslog.version",
    "host": "host.hostname",
    "app": "log.syslog.appname",
    "proc": "log.syslog.procid",
    "msgid": "log.syslog.msgid",
    "message": "message",
}
"""Captures that are fields as they are."""

_STRICT_LENGTHS = {"host": 255, "app": 48, "proc": 128, "msgid": 32}
_LENGTHS = {"host": 255}
"""Bytes; no name of the DNS is longer."""

_UNMATCHED = {
    True: "is not '<priority>version time host app process-id message-id structured-data message'",
    False: "begins neither with a priority in angle brackets nor with a time",
}
"""By whether lines can only be RFC 5424."""

_BROKEN = "begins as RFC 5424, and its header or structured data is malformed"


BOM = b"\xef\xbb\xbf"


class LineReader:
    """Reads columns according to the options; ``now`` is in microseconds since 1970."""

    def __init__(self, options: Syslog, now: int) -> None:
        self._options = options
        self._scan = _compile_scan(options)
        self._read_times = time_reader(options.timezone, now, options.year)
        self._declared = {f.name: make_reader(f.type, options.timezone) for f in options.params()}
        self._declared_names = options.parsed_fields().names

    def parse(self, texts: pa.Array) -> Parsed:
        """The fields of each line; a line that fails is all message."""
        pattern, captured = self._scan(texts)
        failures = Failures(_rows_or_none(pattern < 0), _UNMATCHED[self._options.format == "rfc5424"])
        self._check_form(pattern, captured, failures)
        columns = {field: captured[name] for name, field in FIELDS.items()} | make_priority_columns(
            self._priorities(pattern, captured["priority"])
        )
        columns["timestamp"], wrong = self._read_times(captured["time"], captured["zone"])
        if wrong.any():
            failures.add(wrong, wrong_values("timestamp", captured["time"], wrong, "a time that exists"))
        columns |= self._sequence(captured["sequence"]) | self._elements(captured["elements"], failures)
        parsed = failures.to_parsed({name: columns[name] for name in self._declared_names})
        return parsed if parsed.failed is None else _with_failed_lines(parsed, texts)

    def _priorities(self, pattern: Array, texts: pa.Array) -> pa.Array:
        """Priorities as texts; a line without one has that of the option."""
        if self._options.priority is None or texts.null_count == 0:
            return texts
        default = pc.if_else(pa.array(pattern >= 0), str(self._options.priority), None)
        return pc.coalesce(materialize_array(texts).cast(pa.string()), default)

    def _check_form(self, pattern: Array, captured: Mapping[str, pa.Array], failures: Failures) -> None:
        _, broken = _forms(self._options, True)
        if broken is not None and (wrong := pattern == broken).any():
            failures.add(wrong, pa.repeat(_BROKEN, len(pattern)))
        for name, max_length in (_STRICT_LENGTHS if self._options.strict else _LENGTHS).items():
            long = Texts.of(captured[name]).length > max_length
            if long.any():
                failures.add(long, pa.repeat(f"{FIELDS[name]} is longer than {max_length} bytes", len(pattern)))
        if self._options.strict:
            self._check_utf8(captured, failures)

    def _check_utf8(self, captured: Mapping[str, pa.Array], failures: Failures) -> None:
        """Structured data is UTF-8, and so is a message that begins with a byte order mark."""
        message = materialize_array(captured["message"])
        marked = pc.starts_with(message.view(pa.binary()), BOM)
        for texts in (captured["elements"], pc.if_else(marked, message, None) if marked.true_count else None):
            if texts is not None and (broken := find_invalid_utf8(materialize_array(texts))) is not None:
                failures.add(boolean_values(broken), pa.repeat("holds bytes that are not UTF-8", len(message)))

    def _sequence(self, texts: pa.Array) -> dict[str, pa.Array]:
        if "event.sequence" not in self._declared_names:
            return {}
        from etl.columns.numbers import whole_numbers

        return {"event.sequence": whole_numbers(texts)}

    def _elements(self, texts: pa.Array, failures: Failures) -> dict[str, pa.Array]:
        rest = self._options.rest
        if texts.null_count == len(texts):
            return {f.name: pa.nulls(len(texts), f.type) for f in self._options.elements()}
        found = read_structured_data(texts, list(self._declared), self._options.strict)
        if found.wrong.any():
            failures.add(found.wrong, _malformed_reasons(found))
        columns = {name: self._value(name, found, failures) for name in self._declared}
        return columns if rest is None else columns | {rest: found.rest()}

    def _value(self, name: str, found: StructuredData, failures: Failures) -> pa.Array:
        texts = found.values(name)
        values, wrong = self._declared[name](texts)
        if wrong is not None and wrong.any():
            failures.add(wrong, wrong_values(name, texts, wrong, self._options.declared[name]))
        return values


@lru_cache(maxsize=64)
def _scanner(trees: tuple[Any, ...]) -> Scanner:
    """Made once a process: a worker opens the step in every micro-batch."""
    return Scanner(trees)


def _forms(options: Syslog, hosts: bool) -> tuple[tuple[Any, ...], int | None]:
    return forms(options.format, options.strict, options.tag, hosts, options.priority is not None)


def _compile_scan(options: Syslog) -> Callable[[pa.Array], tuple[Array, dict[str, pa.Array]]]:
    """Texts → the pattern that matched each (-1: none), and all captures."""
    scanner = _scanner(_forms(options, True)[0])

    def scan(texts: pa.Array) -> tuple[Array, dict[str, pa.Array]]:
        found = scanner.scan(texts)
        return found.pattern, {name: _capture(found.captures, name, len(texts)) for name in CAPTURES}

    return scan if options.not_hosts is None else _without_hosts(scan, options)


def _without_hosts(
    scan: Callable[[pa.Array], tuple[Array, dict[str, pa.Array]]], options: Syslog
) -> Callable[[pa.Array], tuple[Array, dict[str, pa.Array]]]:
    """Lines whose host is none are scanned again, as lines without one."""
    import numpy as np

    tree = compile_pattern(options.not_hosts or "", None, frozenset(), False)
    if isinstance(tree, Exception):
        raise tree
    no_host, hostless = Scanner([tree]), _scanner(_forms(options, False)[0])

    def scan_again(texts: pa.Array) -> tuple[Array, dict[str, pa.Array]]:
        pattern, captured = scan(texts)
        rows = np.flatnonzero(pc.fill_null(no_host.matches(captured["host"]), False).to_numpy(zero_copy_only=False))
        if not len(rows):
            return pattern, captured
        again = hostless.scan(take_rows(texts, rows))
        pattern = np.array(pattern)
        pattern[rows] = again.pattern
        more = {name: _capture(again.captures, name, len(rows)) for name in captured}
        return pattern, {name: replace_rows(column, rows, more[name]) for name, column in captured.items()}

    return scan_again


def _capture(captures: Mapping[str, pa.Array], name: str, rows: int) -> pa.Array:
    return captures[name] if name in captures else pa.nulls(rows, pa.string_view())


def _rows_or_none(rows: Array) -> pa.BooleanArray | None:
    return pa.array(rows) if rows.any() else None


def _malformed_reasons(found: StructuredData) -> pa.StringArray:
    stops = pc.cast(pa.array(found.stops), pa.string())
    return pc.binary_join_element_wise("structured data is malformed at its byte ", stops, "")


def _with_failed_lines(parsed: Parsed, texts: pa.Array) -> Parsed:
    columns = dict(parsed.columns)
    columns["message"] = pc.if_else(parsed.failed, materialize_array(texts), materialize_array(columns["message"]))
    return Parsed(columns, parsed.failed, parsed.reasons)

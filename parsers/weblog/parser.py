"""The parser `weblog`: logs of Apache httpd, nginx, HAProxy and servers with the same formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import FieldName, Finding, Parsed, Parser, Schema
from etl.scanner.pattern_error import PatternError
from etl.scanner.scanner import Scanner
from parsers.common.failures import Failures, wrong_values
from parsers.common.field_checks import field_conflicts
from parsers.timestamp.formats import check_format
from parsers.timestamp.parser import Timestamp
from parsers.timestamp.patterns import TimePatternError
from parsers.weblog.field_readers import TYPES, field_kinds, field_readers
from parsers.weblog.formats import line_layouts
from parsers.weblog.line_layout import LineLayout
from parsers.weblog.strftime import is_strftime, time_format


class Weblog(Parser):
    """Reads access and error logs of web servers into fields of the Elastic Common Schema.

    A format is a name or a format string, as it stands in the server's configuration: Apache's
    ``LogFormat`` (``%h %l %u %t "%r" %>s %b``), nginx's ``log_format`` (``$remote_addr [$time_local] "$request"``) or
    HAProxy's ``log-format`` (``%ci:%cp [%tr] %ft %b/%s %ST %{+Q}r``; its syslog header is read by ``syslog`` before).
    Names: ``common``, ``combined``, ``vhost_common``, ``vhost_combined``, ``apache_error``, ``nginx_combined``,
    ``nginx_main`` (with X-Forwarded-For), ``nginx_ingress``, ``nginx_error``, ``haproxy_http``, ``haproxy_tcp``.
    Formats are tried in order.

    A request line gives ``http.request.method``, ``url.original`` and ``http.version``; one that is not a request is kept
    in ``http.request.line``. ``source.address`` is the text of the log, ``source.ip`` the same where it is an address.
    Times are ``timestamp``, durations ``event.duration`` in nanoseconds, request headers
    without a field in ECS ``http.request.headers.x_forwarded_for`` and the like, other values ``apache.access.…``,
    ``nginx.access.…`` and ``haproxy.…``. Of a list about several upstream servers numbers are those of the last.
    Of a field that a format names twice the first value counts.

    ``-`` is null, ``""`` an empty text. Quoted values end at a quote that no backslash precedes, and stay as they are
    written (``\\x16\\x03``, ``\\"``), unless ``unescape`` is set. A line that no format fits fails, and so
    does one whose time cannot be read.

    Runs on the scanner, over whole batches in linear time.

    ```yaml
    type: weblog
    formats: [combined, '%h %l %u %t "%r" %>s %b %D']
    ```
    """

    type: Literal["weblog"] = "weblog"
    takes_views: ClassVar[bool] = True

    formats: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=("combined", "common"),
        min_length=1,
        max_length=20,
        description="Names of formats or format strings, tried in order.",
        examples=[["nginx_combined"], ['%v %h %u %t "%r" %>s %b']],
    )
    time_formats: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=(),
        description="Formats of the times, in the letters of `timestamp` or of strftime; none means those of the format.",
        examples=[["yyyy/MM/dd HH:mm:ss"], ["%d/%b/%Y %T"]],
    )
    timezone: str = Field(
        default="UTC", min_length=1, description="IANA zone of times that name none.", examples=["Europe/Berlin"]
    )
    unescape: bool = Field(default=False, description="Whether escapes in quoted values are undone where that gives valid text.")
    timestamp: FieldName = Field(default="timestamp", description="The field that gets the time.")

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Formats that cannot be read, zones that do not exist, fields that contradict each other."""
        yield from super().check(incoming)
        for number, text in enumerate(self.time_formats):
            yield from _check_time(text, number)
        yield from (f for f in Timestamp(timezone=self.timezone).check(_TIME_FIELD) if f.path == ("timezone",))
        for number, text in enumerate(self.formats):
            try:
                made = list(line_layouts(text, self.timestamp, ()))
            except PatternError as error:
                yield Finding(error.code, error.message, ("formats", number), error.hint, at=error.at)
                continue
            if not any(one.fields for one in made):
                yield Finding("no-field", "the format gives no field", ("formats", number))
        yield from field_conflicts(self, "formats")

    def parsed_fields(self) -> Schema:
        """The fields of all formats."""
        return pa.schema(list(self._types().items()))

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """All formats over the whole column."""
        made = self._layouts()
        scanner = Scanner([one.tree() for one in made])
        read_all = field_readers(made, self.timezone, self.unescape)
        reason = f"is not a line of {', '.join(repr(text) for text in self.formats)}"

        def parse(text: pa.Array) -> Parsed:
            scan = scanner.scan(text)
            failures = Failures(scan.unmatched, reason)
            columns: dict[str, pa.Array] = {}
            for name, read in read_all.items():
                columns[name], wrong, expected = read(scan)
                if wrong is not None:
                    failures.add(wrong, wrong_values(name, scan.captures[name], wrong, expected))
            return failures.to_parsed(columns)

        return parse

    def _layouts(self) -> list[LineLayout]:
        """The fields of all formats that can be read; `check` reports the others."""
        made: list[LineLayout] = []
        for text in self.formats:
            try:
                made += line_layouts(text, self.timestamp, self._time_formats())
            except (PatternError, TimePatternError):
                continue
        return made

    def _time_formats(self) -> tuple[str, ...]:
        return tuple(time_format(text) if is_strftime(text) else text for text in self.time_formats)

    def _types(self) -> dict[str, pa.DataType]:
        return {name: TYPES.get(kind, pa.string()) for name, kind in field_kinds(self._layouts()).items()}


_TIME_FIELD = pa.schema([("timestamp", pa.string())])
"""A field for the checks of `timestamp`."""


def _check_time(text: str, number: int) -> Iterator[Finding]:
    try:
        check_format(time_format(text) if is_strftime(text) else text)
    except (PatternError, TimePatternError) as error:
        yield Finding("bad-time-format", f"{text!r}: {error}", ("time_formats", number), error.hint, at=error.at)

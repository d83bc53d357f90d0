"""The parser `syslog`: RFC 5424, RFC 3164 and what is sent in their names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Annotated, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from etl.api import TIMESTAMP, FieldName, Finding, Parsed, Parser, Schema, TypeName, parse_type, with_fields
from etl.scanner.pattern_error import PatternError
from parsers.common.field_checks import check_type, field_conflicts
from parsers.grok.compiler import compile_pattern
from parsers.timestamp.parser import Timestamp

ParamPath = Annotated[str, Field(pattern=r"^[A-Za-z_@][A-Za-z0-9_@\-]*(\.[A-Za-z0-9_@\-]+)+$")]
"""An element's id, a dot, and the name of one of its parameters."""


class Syslog(Parser):
    """Read syslog lines (RFC 5424, RFC 3164 and their variants in the wild) into ECS fields.

    Facility and severity are given as numbers and as names (``authpriv``, ``err``); values that a line lacks are null.
    ``format: auto`` takes a line for RFC 5424 where a version and a time (or ``-``) follow the priority, else for RFC 3164.

    Unless ``strict`` it reads of RFC 3164 also: no priority, days of one digit, a year on either side, fractions and
    zones of times, ISO times, no time after a priority, no host (where the first word is a tag such as
    ``sshd[12]:``), sequence numbers, marks and ``: `` of Cisco, AIX's ``Message forwarded from``, a frame's byte
    count before it, months in any case of letters. ``CEF:`` and ``LEEF:`` are not tags, they begin the message. A zone
    that is not an offset, UTC, GMT or of North America is passed over. A line with neither a priority nor a time fails,
    unless ``priority`` is set. Of RFC 5424 it reads long names, times without zone, blanks around ``=`` and missing
    structured data, and takes a byte order mark off the message. With ``strict`` a line must follow its RFC, and
    the message is kept byte by byte.

    Parameters of structured data become fields by their path, the element's id and the name: ``origin.ip``,
    ``exampleSDID@32473.iut`` (of a repeated one, the first). The others stay in ``rest`` as JSON: an object by element,
    ``{"meta":{"sequenceId":"7"}}``, in which a repeated parameter is an array; null when nothing is left.

    A date without a year gets ``year``, or else the latest year that leads no further than a day past now: in January,
    ``Dec 31`` was last year. A time that does not exist, malformed structured data and a parameter that does not fit its
    type make the line fail; its text is then in ``message`` whole.

    For those who come from syslog-ng: ``syslog-protocol`` is ``format: auto`` (with ``no-rfc3164-fallback``: ``rfc5424``),
    its lines without ``expect-hostname`` are ``not_hosts: "."``, ``bad_hostname()`` is ``not_hosts``, any text as a message
    of priority 13 is ``priority: 13``, and any first word as the program ``tag: word``. For ``no-parse`` leave this step
    out; for ``store-legacy-msghdr`` copy the line with an earlier step ``set``; for ``sanitize-utf8`` let the source read
    ``charset: latin-1`` and put ``{type: decode, encoding: latin1, invalid: escape}`` before it.

    ```yaml
    type: syslog
    timezone: Europe/Berlin
    fields:
      meta.sequenceId: bigint
      exampleSDID@32473.iut: string
    ```
    """

    takes_views: ClassVar[bool] = True

    type: Literal["syslog"] = "syslog"
    format: Literal["auto", "rfc5424", "rfc3164"] = Field(default="auto", description="Which of the two formats lines have.")
    strict: bool = Field(
        default=False, description="Whether lines must follow their RFC; the variants of real senders then fail."
    )
    timezone: str = Field(
        default="UTC", min_length=1, description="IANA zone of times that name none.", examples=["UTC", "Europe/Berlin"]
    )
    priority: int | None = Field(
        default=None,
        ge=0,
        le=191,
        description="Priority of lines without one; with it a line with neither a priority nor a time is a message.",
        examples=[13],
    )
    year: int | None = Field(
        default=None, ge=1, le=9999, description="Year of dates without one; none means the nearest in the past."
    )
    tag: Literal["colon", "word"] = Field(
        default="colon",
        description="Which first word of an RFC 3164 message names the program: one before a colon or [process id], or any.",
    )
    not_hosts: str | None = Field(
        default=None,
        description="Expression that finds words of RFC 3164 lines which are not hosts, although they stand in their place.",
        examples=["^(kernel|last)$", "."],
    )
    declared: dict[ParamPath, TypeName] = Field(
        alias="fields",
        default={},
        description="Parameters of structured data that become fields, and their Spark SQL types.",
        examples=[{"origin.ip": "string", "meta.sequenceId": "bigint"}],
    )
    rest: FieldName | None = Field(
        default="log.syslog.structured_data",
        description="Text field for the JSON of the structured data that is not declared; none drops it.",
    )

    def parsed_fields(self) -> Schema:
        """ECS fields, declared parameters, ``rest`` and the message; those that the format does not have are left out."""
        dated = self.format != "rfc3164"
        fields = [
            ("timestamp", TIMESTAMP),
            ("host.hostname", pa.string()),
            ("log.syslog.priority", pa.int64()),
            ("log.syslog.facility.code", pa.int64()),
            ("log.syslog.facility.name", pa.string()),
            ("log.syslog.severity.code", pa.int64()),
            ("log.syslog.severity.name", pa.string()),
            *([("log.syslog.version", pa.string())] if dated else []),
            ("log.syslog.appname", pa.string()),
            ("log.syslog.procid", pa.string()),
            *([("log.syslog.msgid", pa.string())] if dated else []),
            *([("event.sequence", pa.int64())] if self.format != "rfc5424" and not self.strict else []),
            *((field.name, field.type) for field in self.elements()),
            ("message", pa.string()),
        ]
        return pa.schema(list(dict(fields).items()))

    def params(self) -> Schema:
        """The declared parameters of structured data."""
        return pa.schema([(name, parse_type(text)) for name, text in self.declared.items()])

    def elements(self) -> Schema:
        """All fields that structured data gives."""
        rest = None if self.format == "rfc3164" else self.rest
        return with_fields(self.params(), {} if rest is None else {rest: pa.string()})

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """The input field, the zone, the expression, names that contradict each other, types that no text fills."""
        yield from super().check(incoming)
        zone = Timestamp(timezone=self.timezone).check(pa.schema([("timestamp", pa.string())]))
        yield from (finding for finding in zone if finding.path == ("timezone",))
        if self.not_hosts is not None:
            error = compile_pattern(self.not_hosts, None, frozenset(), False)
            if isinstance(error, PatternError):
                yield Finding(error.code, error.message, ("not_hosts",), error.hint, at=error.at)
        if self.priority is not None and (self.strict or self.format == "rfc5424"):
            yield Finding(
                "no-priority", "strict lines and those of RFC 5424 begin with their priority", ("priority",), "leave it out"
            )
        if self.keep_field and self.field == "message":
            hint = "name the line's field otherwise, or copy it with an earlier step set"
            yield Finding("keep-conflict", "the message takes the place of the line in 'message'", ("keep_field",), hint)
        yield from self._check_params()

    def _check_params(self) -> Iterable[Finding]:
        from parsers.common.text_types import make_reader

        if self.declared and self.format == "rfc3164":
            yield Finding("no-structured-data", "lines of RFC 3164 have no structured data", ("fields",), "leave out fields")
        for name, type_text in self.declared.items():
            yield from check_type(name, type_text, make_reader)
        fixed = set(self.model_copy(update={"declared": {}, "rest": None}).parsed_fields().names)
        taken = [(name, ("fields", name)) for name in self.declared] + ([(self.rest, ("rest",))] if self.rest else [])
        for name, path in taken:
            if name in fixed or (path == ("rest",) and name in self.declared):
                yield Finding("field-conflict", f"{name!r} is a field already", path)
                return
        yield from field_conflicts(self, "fields")

    def compile(self) -> Callable[[pa.StringArray], Parsed]:
        """A function of a column of lines; "now" is the time of this call."""
        return self.compile_at(time.time_ns() // 1000)

    def compile_at(self, now: int) -> Callable[[pa.Array], Parsed]:
        """The same with another "now" in microseconds since 1970, for dates without a year."""
        from parsers.syslog.line_reader import LineReader

        return LineReader(self, now).parse

"""Times in many formats → one timestamp in UTC."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Set
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from etl.api import TIMESTAMP, FieldName, Finding, Parsed, Parser, Schema, format_type, nearest, unknown_field, with_fields
from etl.columns.texts import materialize_array
from parsers.timestamp.column_reader import is_number, read_column, read_numbers
from parsers.timestamp.formats import (
    EPOCHS,
    TimeZoneContext,
    check_format,
    is_time_of_day,
    readers,
    time_of_day_reader,
    unambiguous_reader,
)
from parsers.timestamp.patterns import TimePatternError

if TYPE_CHECKING:
    from parsers.timestamp.formats import Read

SHOWN_CHARACTERS = 100
"""Of a text that is not a time, in the reason."""


class Timestamp(Parser):
    """Turn texts or numbers into timestamps in UTC.

    ``formats`` are tried in order; the first that fits and names a date that exists decides. A text that fits none
    (30 February, 25 o'clock, a leap second :60) fails, it is never wrapped into another date. Fractions of a second
    are read up to nanoseconds and cut to microseconds. A field that is a timestamp already passes as it is.

    A format is a name or a pattern in Spark's letters (not strptime's ``%Y``): ``yyyy-MM-dd HH:mm:ss,SSS``, ``MMM d``,
    ``[.SSS]`` for what may be missing, ``'T'`` for literal letters, ``XXX`` for ``Z`` or ``+01:00``; letters are
    ``y M d E H h a m s S X x Z z V``, a space stands for one or more. Names: ``iso8601``, ``rfc3339``, ``syslog``
    (``Dec 10 06:55:46``), ``httpdate`` (``17/May/2015:10:05:03 +0000``), ``rfc2822``, ``apache_error``
    (``Sun Dec 04 04:47:44 2005``), ``epoch`` (seconds, fractions allowed; also ``epoch_seconds``), ``epoch_millis``,
    ``epoch_micros``, ``epoch_nanos``.

    ``z`` and ``ZZZ`` also read names of zones: of the IANA database (``America/New_York``; ``VV`` reads only these) and
    abbreviations, which count as ``UTC GMT UT WET`` +0, ``WEST BST CET MET WAT`` +1, ``CEST MEST EET CAT SAST`` +2,
    ``EEST MSK TRT EAT`` +3, ``PKT`` +5, ``NPT`` +5:45, ``WIB`` +7, ``HKT SGT AWST`` +8, ``JST KST`` +9, ``ACST`` +9:30,
    ``AEST`` +10, ``ACDT`` +10:30, ``AEDT`` +11, ``NZST`` +12, ``NZDT`` +13, ``NDT`` -2:30, ``BRT`` -3, ``NST`` -3:30,
    ``EDT`` -4, ``EST CDT`` -5, ``CST MDT`` -6, ``MST PDT`` -7, ``PST AKDT`` -8, ``AKST`` -9, ``HST`` -10. Others have more
    than one meaning (``IST``) and fail.

    A date without a year gets ``year``, or else the latest year that leads no further than a day past now: in January,
    ``Dec 31`` was last year. A text without a zone is local time in ``timezone``: a time that happens twice when clocks
    go back is the first one, a time that is skipped when they go forward is moved on by the length of the gap.

    Times of day (``HH:mm:ss``) need ``date``: with ``latest`` each is on the last day on which it leads no further than an
    hour past now, which is right for a log that is followed and wrong for one of last week. Where the file's name has the
    date, prepend it: ``set: {time: "concat(regexp_extract(_path, '([0-9-]{10})', 1), ' ', time)"}``.

    ```yaml
    type: timestamp
    field: time
    target: timestamp
    formats: [syslog, "yyyy-MM-dd HH:mm:ss,SSS"]
    timezone: Europe/Berlin
    ```
    """

    takes_views: ClassVar[bool] = True

    type: Literal["timestamp"] = "timestamp"
    field: FieldName = Field(default="timestamp", description="The field to read.")
    target: FieldName | None = Field(default=None, description="The field that gets the timestamp; none means the field itself.")
    formats: tuple[Annotated[str, Field(min_length=1)], ...] = Field(
        default=("iso8601",),
        min_length=1,
        description="Names or patterns of formats, tried in order.",
        examples=[["syslog", "yyyy-MM-dd HH:mm:ss,SSS"]],
    )
    timezone: str = Field(
        default="UTC", min_length=1, description="IANA zone of texts that name none.", examples=["UTC", "Europe/Berlin"]
    )
    year: int | None = Field(
        default=None, ge=1, le=9999, description="Year of dates without one; none means the nearest in the past."
    )
    date: str | None = Field(
        default=None,
        pattern=r"^(?:latest|\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01]))$",
        description="Date of times of day (``HH:mm:ss``): a day, or ``latest``, the last on which they are not past now.",
        examples=["latest", "2026-11-20"],
        json_schema_extra={"patternErrorMessage": "is not a date: write latest, or a day as 2026-11-20"},
    )

    def parsed_fields(self) -> Schema:
        """The timestamp."""
        return pa.schema([(self._target, TIMESTAMP)])

    def fields(self, incoming: Schema) -> Schema:
        """The target as a timestamp, in context where it is the field itself."""
        if self._target == self.field:
            return with_fields(incoming, {self.field: TIMESTAMP})
        return super().fields(incoming)

    def check(self, incoming: Schema) -> Iterable[Finding]:
        """Bad formats and zones, a field that is missing or cannot be a time."""
        yield from self._check_field(incoming)
        for number, text in enumerate(self.formats):
            try:
                check_format(text)
            except TimePatternError as error:
                clock = is_time_of_day(text)
                if clock and self.date is not None:
                    continue
                hint = (
                    "a time of day needs the option date: latest, or a day; one with its date is yyyy-MM-dd HH:mm:ss"
                    if clock
                    else error.hint
                )
                yield Finding("bad-time-format", f"{text!r}: {error}", ("formats", number), hint, at=error.at)
        if not _zone_exists(self.timezone):
            yield Finding(
                "unknown-timezone", f"there is no time zone {self.timezone!r}", ("timezone",), _nearest_zone(self.timezone)
            )
        if self.on_error == "keep" and self._target == self.field:
            message = f"field {self.field!r} cannot hold a timestamp in one event and its unparsed text in another"
            yield Finding("keep-needs-target", message, ("on_error",), "name another field as target")

    def _check_field(self, incoming: Schema) -> Iterable[Finding]:
        if self.field not in incoming.names:
            yield unknown_field(self.field, incoming, ("field",))
            return
        type_ = incoming.field(self.field).type
        if pa.types.is_timestamp(type_):
            yield Finding("already-timestamp", f"field {self.field!r} is a timestamp already", ("field",), severity="warning")
        elif is_number(type_):
            if not any(text in EPOCHS for text in self.formats):
                hint = f"formats of numbers are {', '.join(EPOCHS)}"
                yield Finding(
                    "wrong-type", f"field {self.field!r} is {format_type(type_)}, and no format reads numbers", ("formats",), hint
                )
        elif type_ not in (pa.string(), pa.null()):
            yield Finding(
                "wrong-type", f"field {self.field!r} is {format_type(type_)}, and timestamp reads text or numbers", ("field",)
            )

    def compile(self) -> Callable[[pa.Array], Parsed]:
        """A function of a column of texts, numbers or timestamps; "now" is the time of this call."""
        return self.compile_at(time.time_ns() // 1000)

    def compile_at(self, now: int) -> Callable[[pa.Array], Parsed]:
        """The same with another "now" in microseconds since 1970, for dates without a year."""
        context = TimeZoneContext(self.timezone, now, self.year)
        clocks = {text for text in self.formats if self.date is not None and is_time_of_day(text)}
        reads = [read for text in self.formats for read in self._readers(text, context, clocks)]
        unambiguous = unambiguous_reader([text for text in self.formats if text not in clocks], context)
        units = [EPOCHS[text] for text in self.formats if text in EPOCHS]

        def parse(column: pa.Array) -> Parsed:
            if pa.types.is_timestamp(column.type):
                return self._make_parsed(column.cast(TIMESTAMP), column)
            if is_number(column.type):
                return self._make_parsed(read_numbers(column, units), column)
            return self._make_parsed(read_column(column, unambiguous, reads), column)

        return parse

    def _readers(self, text: str, context: TimeZoneContext, clocks: Set[str]) -> Iterable[Read]:
        return [time_of_day_reader(text, context, self.date)] if self.date and text in clocks else readers(text, context)

    @property
    def _target(self) -> str:
        return self.target or self.field

    def _make_parsed(self, instants: pa.Array, column: pa.Array) -> Parsed:
        if not instants.null_count:
            return Parsed({self._target: instants})
        failed = pc.is_null(instants)
        return Parsed({self._target: instants}, failed, self._reasons(column, failed))

    def _reasons(self, column: pa.Array, failed: pa.BooleanArray) -> pa.StringArray:
        """A text for each failed row, null for the others."""
        shown = pc.if_else(failed, materialize_array(column), None).cast(pa.string())
        shown = pc.binary_join_element_wise("'", pc.utf8_slice_codeunits(shown, 0, SHOWN_CHARACTERS), "'", "")
        reasons = pc.binary_join_element_wise(shown, f" is not a time in {', '.join(self.formats)}", "")
        return pc.if_else(pc.is_null(column), f"{self.field} is null", reasons)


def _zone_exists(name: str) -> bool:
    from zoneinfo import ZoneInfo

    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return False
    return True


def _nearest_zone(name: str) -> str:
    from zoneinfo import available_timezones

    return nearest(name, available_timezones()) or "names are those of the IANA database, such as Europe/Berlin"

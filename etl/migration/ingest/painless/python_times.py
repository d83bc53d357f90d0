"""Times of Java (``java.time``) that scripts of Painless use, as ``datetime``; to the microsecond."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from typing import Any
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TimeFormatter:
    """A pattern of ``DateTimeFormatter``."""

    def __init__(self, pattern: str) -> None:
        self._parts = [found[0] for found in _PARTS.finditer(pattern)]
        self._form = "".join(map(_directive, self._parts))

    def parse(self, value: str) -> datetime:
        return datetime.strptime(re.sub(r"(?<=\.\d{6})\d+", "", value), self._form)

    def format(self, value: datetime) -> str:
        micros = f"{value.microsecond:06d}"
        digits = (micros[: len(one)].ljust(len(one), "0") if one[0] == "S" else _directive(one) for one in self._parts)
        return value.strftime("".join(digits))


class Rfc1123Formatter(TimeFormatter):
    """``RFC_1123_DATE_TIME``."""

    def __init__(self) -> None:
        super().__init__("")

    def parse(self, value: str) -> datetime:
        return parsedate_to_datetime(value)

    def format(self, value: datetime) -> str:
        return value.astimezone(UTC).strftime("%a, %-d %b %Y %H:%M:%S GMT")


class IsoFormatter(TimeFormatter):
    """The formats of ISO 8601."""

    def __init__(self) -> None:
        super().__init__("")

    def parse(self, value: str) -> datetime:
        return iso_time(value)

    def format(self, value: datetime) -> str:
        return time_text(value)


class TimeUnit:
    """A unit of ``ChronoUnit``."""

    def __init__(self, microseconds: float) -> None:
        self.microseconds = microseconds

    def between(self, one: Any, other: Any) -> int:
        difference = (as_time(other) - as_time(one)) // timedelta(microseconds=1)
        return int(difference / self.microseconds) if self.microseconds >= 1 else round(difference / self.microseconds)


_DIRECTIVES = {
    "y": "%Y", "u": "%Y", "yy": "%y", "M": "%m", "MM": "%m", "MMM": "%b", "MMMM": "%B", "d": "%d", "dd": "%d", "H": "%H",
    "HH": "%H", "h": "%I", "hh": "%I", "m": "%M", "mm": "%M", "s": "%S", "ss": "%S", "a": "%p", "E": "%a", "EEE": "%a",
    "EEEE": "%A", "D": "%j", "DDD": "%j", **dict.fromkeys(("yyyy", "uuuu"), "%Y"),
    **dict.fromkeys(("Z", "ZZZ", "X", "XX", "XXX", "x", "xx", "xxx"), "%z"),
}  # fmt: skip


_PARTS = re.compile(r"'[^']*'|([A-Za-z])\1*|.", re.DOTALL)


def _directive(part: str) -> str:
    if part.startswith("'"):
        return part[1:-1].replace("%", "%%") or "'"
    if part[0] == "S":
        return "%f"
    if part.isalpha():
        if part not in _DIRECTIVES:
            raise ValueError(f"{part!r} is not a letter of a time pattern")
        return _DIRECTIVES[part]
    return "%%" if part == "%" else part


def time_text(value: datetime) -> str:
    """A time as Java writes it: ``2026-01-02T03:04:05.600Z``."""
    micros = f"{value.microsecond:06d}"
    digits = "" if not value.microsecond else f".{micros[:3] if micros.endswith('000') else micros}"
    offset = "" if value.tzinfo is None else "Z" if not value.utcoffset() else value.isoformat()[-6:]
    return f"{value:%Y-%m-%dT%H:%M:%S}{digits}{offset}"


def iso_time(value: Any) -> datetime:
    """A time of ISO 8601, or one that is a time already."""
    if isinstance(value, datetime):
        return value
    plain = re.sub(r"(?<=\.\d{6})\d+", "", re.sub(r"\[[^\]]*\]$", "", value))
    return datetime.fromisoformat(plain)


def as_time(value: Any) -> datetime:
    """A time with a zone: UTC, if it has none."""
    found = iso_time(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def from_milliseconds(value: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=value)


def zone(name: str) -> tzinfo:
    """A zone by its name or offset. Raises ValueError for an unknown one."""
    if found := re.fullmatch(r"(?:UTC|GMT)?([+-])(\d{1,2}):?(\d\d)?", name):
        sign = -1 if found[1] == "-" else 1
        return timezone(sign * timedelta(hours=int(found[2]), minutes=int(found[3] or 0)))
    if name in ("Z", "UTC", "GMT"):
        return UTC
    try:
        return ZoneInfo(name)
    except (KeyError, OSError) as error:
        raise ValueError(f"{name!r} is not a zone") from error


def _parsed(value: Any, form: TimeFormatter | None = None) -> datetime:
    return iso_time(value) if form is None or isinstance(value, datetime) else form.parse(value)


def _seconds(value: datetime) -> int:
    return (as_time(value) - _EPOCH) // timedelta(seconds=1)


def _milliseconds(value: datetime) -> int:
    return (as_time(value) - _EPOCH) // timedelta(milliseconds=1)


def _whole(value: timedelta, size: int) -> int:
    """A duration in units of ``size`` seconds, cut toward zero as Java does."""
    seconds = value // timedelta(seconds=1)
    return seconds // size if seconds >= 0 else -(-seconds // size)


def _zoned(value: Any, form: TimeFormatter | None = None) -> datetime:
    found = _parsed(value, form)
    if found.tzinfo is None:
        raise ValueError(f"{value!r} has no zone")
    return found


TIME_STATICS: Mapping[str, Callable[..., Any]] = {
    **dict.fromkeys(("ZonedDateTime.parse", "OffsetDateTime.parse", "Instant.parse"), _zoned),
    "LocalDateTime.parse": lambda value, form=None: _parsed(value, form).replace(tzinfo=None),
    "ZonedDateTime.of": lambda value, where: value.replace(tzinfo=where),
    "ZonedDateTime.ofInstant": lambda value, where: value.astimezone(where),
    "LocalDateTime.ofInstant": lambda value, where: value.astimezone(where).replace(tzinfo=None),
    "Instant.ofEpochMilli": from_milliseconds,
    "Instant.ofEpochSecond": lambda value, nanoseconds=0: _EPOCH + timedelta(seconds=value, microseconds=nanoseconds // 1000),
    **dict.fromkeys(("ZoneId.of", "ZoneOffset.of"), zone),
    "DateTimeFormatter.ofPattern": lambda pattern, *_: TimeFormatter(pattern),
    "Duration.between": lambda one, other: as_time(other) - as_time(one),
}
"""Static methods by class and name."""

_UNITS = {"NANOS": 0.001, "MICROS": 1, "MILLIS": 1e3, "SECONDS": 1e6, "MINUTES": 6e7, "HOURS": 3.6e9, "DAYS": 8.64e10}

CONSTANTS: Mapping[str, Any] = {
    **{f"ChronoUnit.{name}": TimeUnit(size) for name, size in _UNITS.items()},
    "DateTimeFormatter.RFC_1123_DATE_TIME": Rfc1123Formatter(),
    **{
        f"DateTimeFormatter.{name}": IsoFormatter()
        for name in ("ISO_INSTANT", "ISO_DATE_TIME", "ISO_OFFSET_DATE_TIME", "ISO_ZONED_DATE_TIME", "ISO_LOCAL_DATE_TIME")
    },
    "ZoneOffset.UTC": UTC,
    **{f"Locale.{name}": None for name in ("ROOT", "ENGLISH", "US")},
}
"""Constants by class and name."""

_FIELDS = {"Year": "year", "Month": "month", "DayOfMonth": "day", "Hour": "hour", "Minute": "minute", "Second": "second"}
_STEPS = {unit.title(): unit for unit in ("days", "hours", "minutes", "seconds", "weeks")}

TIME_METHODS: Sequence[tuple[type, Mapping[str, Callable[..., Any]]]] = (
    (
        datetime,
        {
            **dict.fromkeys(("toEpochMilli", "getMillis", "getTime"), _milliseconds),
            **dict.fromkeys(("toEpochSecond", "getEpochSecond"), _seconds),
            **{f"get{name}": lambda x, part=part: getattr(x, part) for name, part in _FIELDS.items()},
            "getMonthValue": lambda x: x.month,
            "getNano": lambda x: x.microsecond * 1000,
            **{f"with{name}": lambda x, value, part=part: x.replace(**{part: value}) for name, part in _FIELDS.items()},
            "withNano": lambda x, value: x.replace(microsecond=value // 1000),
            **{f"plus{name}": lambda x, n, unit=unit: x + timedelta(**{unit: n}) for name, unit in _STEPS.items()},
            **{f"minus{name}": lambda x, n, unit=unit: x - timedelta(**{unit: n}) for name, unit in _STEPS.items()},
            "plusMillis": lambda x, n: x + timedelta(milliseconds=n),
            "plusNanos": lambda x, n: x + timedelta(microseconds=n // 1000),
            "withZoneSameInstant": lambda x, where: as_time(x).astimezone(where),
            **dict.fromkeys(
                ("atZone", "atOffset"), lambda x, where: x.astimezone(where) if x.tzinfo else x.replace(tzinfo=where)
            ),
            "withZoneSameLocal": lambda x, where: x.replace(tzinfo=where),
            "toLocalDateTime": lambda x: x.replace(tzinfo=None),
            **dict.fromkeys(("toInstant", "toZonedDateTime", "toOffsetDateTime"), lambda x, *_: as_time(x)),
            "isBefore": lambda x, other: as_time(x) < as_time(other),
            "isAfter": lambda x, other: as_time(x) > as_time(other),
            "format": lambda x, form: form.format(x),
            "toString": time_text,
        },
    ),
    (TimeFormatter, {"format": lambda x, value: x.format(value), "parse": lambda x, value: x.parse(value)}),
    (TimeUnit, {"between": TimeUnit.between}),
    (
        timedelta,
        {
            "toMillis": lambda x: x // timedelta(milliseconds=1),
            "toNanos": lambda x: x // timedelta(microseconds=1) * 1000,
            **dict.fromkeys(("getSeconds", "toSeconds"), lambda x: x // timedelta(seconds=1)),
            "toMinutes": lambda x: _whole(x, 60),
            "toHours": lambda x: _whole(x, 3600),
            "toDays": lambda x: _whole(x, 86400),
        },
    ),
)
"""Methods by the kind of the value."""

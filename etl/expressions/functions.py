"""The functions that have an Arrow form: Spark's name → how a call becomes a bound node."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP, parse_type
from etl.expressions import addresses, arithmetic, java_regex, logic, texts, time_patterns
from etl.expressions import bound as b
from etl.expressions.bound import Bound
from etl.expressions.casts import cast, converted, floor_divide
from etl.expressions.java_regex import NoRe2FormError
from etl.expressions.widening import (
    ATOMIC,
    BOOLEAN,
    DATE,
    FLOAT,
    FLOATS,
    INT32,
    INT64,
    INTEGERS,
    NULL,
    STRING,
    common_type_of,
    is_number,
)


class MisuseError(ValueError):
    """A call that Spark refuses: ``code`` is that of the finding."""

    def __init__(self, message: str, code: str = "wrong-type") -> None:
        super().__init__(message)
        self.code = code


class Function(NamedTuple):
    """How many arguments a function takes (None: any number), and how they become a node."""

    least: int
    most: int | None
    build: Callable[..., Bound]


# ── Arguments ─────────────────────────────────────────────────────────────────────────────────────


def as_text(value: Bound) -> Bound:
    """Spark's implicit cast to string."""
    return cast(value, STRING)


def text_literal(value: Bound) -> str | None:
    """The text of a literal, else None."""
    return value.value if value.is_literal and isinstance(value.value, str) else None


def whole_literal(value: Bound) -> int | None:
    """The whole number of a literal that fits an int, else None."""
    return value.value if value.is_literal and value.type in INTEGERS and abs(value.value) < 2**31 else None


def no_form(what: str, type_: pa.DataType) -> Bound:
    return b.spark_only(f"{what} has no Arrow form", type_)


# ── Text ──────────────────────────────────────────────────────────────────────────────────────────


def _text(kernel: Callable[[Any], Any], type_: pa.DataType = STRING) -> Callable[[Bound], Bound]:
    return lambda value: b.apply(type_, kernel, as_text(value))


def _substring(text: Bound, position: Bound, count: Bound | None = None) -> Bound:
    at, length = whole_literal(position), None if count is None else whole_literal(count)
    if at is None or (count is not None and length is None) or at < -_MOST_FROM_END:
        return no_form("substring() with computed or far positions", STRING)
    return b.apply(STRING, partial(texts.substring, at, length), as_text(text))


_MOST_FROM_END = 1000


def _left(text: Bound, count: Bound) -> Bound:
    number = whole_literal(count)
    return (
        no_form("left() of a computed length", STRING)
        if number is None
        else b.apply(STRING, partial(texts.substring, 1, number), as_text(text))
    )


def _right(text: Bound, count: Bound) -> Bound:
    number = whole_literal(count)
    if number is None:
        return no_form("right() of a computed length", STRING)
    start, stop = (-number, None) if number > 0 else (0, 0)
    return b.apply(STRING, lambda x: pc.utf8_slice_codeunits(x, start, stop), as_text(text))


def _split_part(text: Bound, delimiter: Bound, index: Bound) -> Bound:
    separator, number = text_literal(delimiter), whole_literal(index)
    if separator is None or number is None:
        return no_form("split_part() with a computed delimiter or index", STRING)
    if number == 0:
        raise MisuseError("split_part() counts parts from 1, or from -1 at the end: 0 is no part")
    return b.apply(STRING, partial(texts.split_part, separator, number), as_text(text))


def _replace(text: Bound, old: Bound, new: Bound | None = None) -> Bound:
    searched, given = text_literal(old), "" if new is None else text_literal(new)
    if searched is None or given is None:
        return no_form("replace() with a computed text", STRING)
    return b.apply(STRING, partial(texts.replace, searched, given), as_text(text))


def _part_test(kernel: Callable[[Any, str], Any], name: str) -> Callable[[Bound, Bound], Bound]:
    def build(text: Bound, part: Bound) -> Bound:
        searched = text_literal(part)
        if searched is None:
            return no_form(f"{name}() with a computed text", BOOLEAN)
        return b.apply(BOOLEAN, lambda x: kernel(x, searched), as_text(text))

    return build


def concat(*parts: Bound) -> Bound:
    """``concat`` and ``||``: null when a part is null."""
    if any(not _is_scalar(part) for part in parts):
        return no_form("concat() of arrays or binaries", NULL)
    return b.apply(STRING, texts.concat, *map(as_text, parts)) if parts else b.literal("", STRING)


def _concat_ws(separator: Bound, *parts: Bound) -> Bound:
    if any(not _is_scalar(part) for part in parts):
        return no_form("concat_ws() of arrays", STRING)
    bounds = [as_text(part) for part in (separator, *parts)]
    runs = [part.run for part in bounds if part.run is not None]

    def run(rows: Any) -> Any:
        first, *others = [evaluate(rows) for evaluate in runs]
        if not others:
            return pc.if_else(pc.is_valid(first), "", pa.scalar(None, STRING))
        return texts.concat_ws(first, *others)

    return b.lazily(STRING, run, *bounds)


def _is_scalar(value: Bound) -> bool:
    return value.type in ATOMIC or value.type == NULL


# ── Regular expressions ───────────────────────────────────────────────────────────────────────────


def rlike(text: Bound, pattern: Bound) -> Bound:
    """``rlike``."""
    found = _re2(pattern, BOOLEAN)
    return (
        found
        if isinstance(found, Bound)
        else b.apply(BOOLEAN, lambda x: pc.match_substring_regex(x, found.pattern), as_text(text))
    )


def _regexp_extract(text: Bound, pattern: Bound, group: Bound | None = None) -> Bound:
    number = 1 if group is None else whole_literal(group)
    found = _re2(pattern, STRING)
    if isinstance(found, Bound) or number is None:
        return found if isinstance(found, Bound) else no_form("regexp_extract() of a computed group", STRING)
    if not 0 <= number <= found.groups:
        raise MisuseError(f"the pattern has {found.groups} groups, and group {number} is asked for", "bad-regex")
    if found.repeats_group:
        return no_form("regexp_extract() with a repeated group", STRING)
    return b.apply(STRING, partial(texts.extract, found, number), as_text(text))


def _regexp_replace(text: Bound, pattern: Bound, new: Bound, position: Bound | None = None) -> Bound:
    found, given = _re2(pattern, STRING), text_literal(new)
    if isinstance(found, Bound):
        return found
    if given is None or position is not None:
        return no_form("regexp_replace() with a computed replacement or a position", STRING)
    if found.nullable or found.tail or found.repeats_group:
        return no_form("regexp_replace() of a pattern that can match nothing, ends in '$' or repeats a group", STRING)
    try:
        rewrite = java_regex.replacement(given, found.groups)
    except NoRe2FormError as error:
        return no_form(str(error), STRING)
    except ValueError as error:
        raise MisuseError(f"replacement {given!r}: {error}", "bad-regex") from error
    return b.apply(STRING, lambda x: pc.replace_substring_regex(x, found.pattern, rewrite), as_text(text))


def _re2(pattern: Bound, type_: pa.DataType) -> java_regex.Re2 | Bound:
    text = text_literal(pattern)
    if text is None:
        return no_form("a computed regular expression", type_)
    try:
        found = java_regex.translate(text)
        pc.match_substring_regex(pa.array([""]), found.pattern)
    except NoRe2FormError as error:
        return b.spark_only(f"{error} in {text!r} has no RE2 form", type_)
    except pa.ArrowInvalid:
        return b.spark_only(f"RE2 cannot take {text!r}", type_)
    except ValueError as error:
        raise MisuseError(f"{text!r} is no regular expression: {error}", "bad-regex") from error
    return found


# ── Times ─────────────────────────────────────────────────────────────────────────────────────────


def _date_part(kernel: Callable[[Any], Any]) -> Callable[[Bound], Bound]:
    """A part of a day; texts are read as dates."""

    def build(value: Bound) -> Bound:
        day = value if value.type in (DATE, TIMESTAMP) else cast(value, DATE)
        return b.apply(INT32, lambda x: pc.cast(kernel(x), INT32), day)

    return build


def _time_part(kernel: Callable[[Any], Any]) -> Callable[[Bound], Bound]:
    return lambda value: b.apply(INT32, lambda x: pc.cast(kernel(x), INT32), cast(value, TIMESTAMP))


_UNITS = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month", "mon": "month", "mm": "month",
    "week": "week", "day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second",
    "millisecond": "millisecond", "microsecond": "microsecond",
}  # fmt: skip


def _date_trunc(unit: Bound, time: Bound) -> Bound:
    name = _UNITS.get((text_literal(unit) or "").lower())
    if name is None:
        return no_form("date_trunc() to this unit", TIMESTAMP)
    return b.apply(TIMESTAMP, lambda x: pc.floor_temporal(x, unit=name), cast(time, TIMESTAMP))


def _to_timestamp(text: Bound, pattern: Bound | None = None, *, safe: bool = False) -> Bound:
    """``to_timestamp`` and, where ``safe``, ``try_to_timestamp``."""
    if pattern is None:
        return cast(text, TIMESTAMP, safe=safe)
    layout = text_literal(pattern)
    read = time_patterns.reader(layout) if layout is not None and text.type == STRING else None
    if read is None:
        shown = "a computed pattern" if layout is None else f"the pattern {layout!r}"
        return no_form(f"to_timestamp() with {shown} (the step `timestamp` reads many formats on Arrow)", TIMESTAMP)
    return converted(text, TIMESTAMP, read, f"timestamp by {layout!r}", safe=safe)


def _to_date(text: Bound, pattern: Bound | None = None) -> Bound:
    return cast(text if pattern is None else _to_timestamp(text, pattern), DATE)


def _epoch(divisor: int) -> Callable[[Bound], Bound]:
    def build(time: Bound) -> Bound:
        if time.type not in (TIMESTAMP, NULL):
            return no_form("an epoch of something that is no timestamp", INT64)
        return b.apply(
            INT64, lambda x: floor_divide(pc.cast(x, INT64), divisor) if divisor > 1 else pc.cast(x, INT64), cast(time, TIMESTAMP)
        )

    return build


def _unix_timestamp(time: Bound) -> Bound:
    """Whole seconds, toward zero, other than ``unix_seconds``."""
    if time.type not in (TIMESTAMP, NULL):
        return no_form("unix_timestamp() of something that is no timestamp", INT64)
    return b.apply(INT64, lambda x: pc.divide(pc.cast(x, INT64), 1_000_000), cast(time, TIMESTAMP))


# ── Numbers and choices ───────────────────────────────────────────────────────────────────────────


def _number(build: Callable[[Bound], Bound]) -> Callable[[Bound], Bound]:
    def checked(value: Bound) -> Bound:
        if value.type in (*INTEGERS, *FLOATS):
            return build(value)
        if value.type in (BOOLEAN, DATE, TIMESTAMP):
            raise MisuseError(f"a number is needed, and this is a {arithmetic.type_name(value.type)}")
        return no_form("this number", NULL if not is_number(value.type) else value.type)

    return checked


def _whole(kernel: Callable[[Any], Any], value: Bound) -> Bound:
    if value.type == FLOAT:
        return no_form("floor() or ceil() of a float, which Spark casts first,", INT64)
    return arithmetic.whole(kernel, value)


def _round(value: Bound, digits: Bound | None = None) -> Bound:
    number = 0 if digits is None else whole_literal(digits)
    if number is None or number < 0 or (number > 0 and value.type not in INTEGERS):
        return no_form("round() to digits of a fraction", value.type)
    return _number(arithmetic.rounded)(value)


def coalesce(*parts: Bound) -> Bound:
    type_ = common_type_of([part.type for part in parts])
    if type_ is None:
        raise MisuseError(f"coalesce() of {_listed(parts)}: they have no type in common")
    return _usable(parts, type_) or logic.coalesce(parts, type_)


def choose(conditions: Sequence[Bound], values: Sequence[Bound], default: Bound) -> Bound:
    """``case`` and ``if``."""
    type_ = common_type_of([value.type for value in (*values, default)])
    if type_ is None:
        raise MisuseError(f"the values {_listed((*values, default))} have no type in common")
    return _usable((*values, default), type_) or logic.case(conditions, values, default, type_)


def _usable(parts: Sequence[Bound], type_: pa.DataType) -> Bound | None:
    if type_ in ATOMIC or type_ == NULL or all(part.type == type_ for part in parts):
        return None
    return no_form(f"a choice between {_listed(parts)}", type_)


def _listed(parts: Sequence[Bound]) -> str:
    return ", ".join(dict.fromkeys(arithmetic.type_name(part.type) for part in parts))


def compare(operator: str, left: Bound, right: Bound) -> Bound:
    """``= <> < <= > >= <=>``."""
    type_ = common_type_of([left.type, right.type])
    if type_ is None:
        raise MisuseError(f"{_listed((left, right))} cannot be compared by {operator!r}")
    if type_ == NULL and not (left.unknown or right.unknown):
        left, right, type_ = cast(left, BOOLEAN), cast(right, BOOLEAN), BOOLEAN
    if type_ not in ATOMIC and not pa.types.is_decimal(type_):
        return no_form(f"comparing {arithmetic.type_name(type_)}", BOOLEAN)
    return logic.same(left, right, type_) if operator == "<=>" else arithmetic.compare(operator, left, right, type_)


def _nullif(value: Bound, other: Bound) -> Bound:
    return logic.case([compare("=", value, other)], [b.literal(None, value.type)], value, value.type)


def _nvl2(value: Bound, given: Bound, missing: Bound) -> Bound:
    return choose([logic.negated(logic.is_null(value))], [given], missing)


def if_(condition: Bound, taken: Bound, other: Bound | None = None) -> Bound:
    return choose([condition], [taken], other or b.literal(None, NULL))


def _ip_in(address: Bound, *networks: Bound) -> Bound:
    names = [text_literal(network) for network in networks]
    if None in names:
        return no_form("ip_in() with a computed network", BOOLEAN)
    try:
        inside = addresses.contains(addresses.parse_networks([name for name in names if name is not None]))
    except ValueError as error:
        raise MisuseError(str(error), "bad-network") from error
    return b.apply(BOOLEAN, inside, as_text(address))


_CASTS = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp", "string")

_DAY_OF_WEEK = partial(pc.day_of_week, count_from_zero=False, week_start=7)

FUNCTIONS: dict[str, Function] = {
    **{name: Function(1, 1, partial(cast, target=parse_type(name))) for name in _CASTS},
    **{name: Function(1, 1, _text(texts.lower)) for name in ("lower", "lcase")},
    **{name: Function(1, 1, _text(texts.upper)) for name in ("upper", "ucase")},
    **{name: Function(1, 1, _text(texts.length, INT32)) for name in ("length", "len", "char_length", "character_length")},
    "trim": Function(1, 1, _text(lambda x: pc.utf8_trim(x, " "))),
    "btrim": Function(1, 1, _text(lambda x: pc.utf8_trim(x, " "))),
    "ltrim": Function(1, 1, _text(lambda x: pc.utf8_ltrim(x, " "))),
    "rtrim": Function(1, 1, _text(lambda x: pc.utf8_rtrim(x, " "))),
    "substring": Function(2, 3, _substring),
    "substr": Function(2, 3, _substring),
    "left": Function(2, 2, _left),
    "right": Function(2, 2, _right),
    "split_part": Function(3, 3, _split_part),
    "replace": Function(2, 3, _replace),
    "startswith": Function(2, 2, _part_test(pc.starts_with, "startswith")),
    "endswith": Function(2, 2, _part_test(pc.ends_with, "endswith")),
    "contains": Function(2, 2, _part_test(texts.contains, "contains")),
    "concat": Function(0, None, concat),
    "concat_ws": Function(1, None, _concat_ws),
    **{name: Function(2, 2, rlike) for name in ("rlike", "regexp_like", "regexp")},
    "regexp_extract": Function(2, 3, _regexp_extract),
    "regexp_replace": Function(3, 4, _regexp_replace),
    "year": Function(1, 1, _date_part(pc.year)),
    "quarter": Function(1, 1, _date_part(pc.quarter)),
    "month": Function(1, 1, _date_part(pc.month)),
    "day": Function(1, 1, _date_part(pc.day)),
    "dayofmonth": Function(1, 1, _date_part(pc.day)),
    "dayofyear": Function(1, 1, _date_part(pc.day_of_year)),
    "dayofweek": Function(1, 1, _date_part(_DAY_OF_WEEK)),
    "weekday": Function(1, 1, _date_part(pc.day_of_week)),
    "weekofyear": Function(1, 1, _date_part(pc.iso_week)),
    "hour": Function(1, 1, _time_part(pc.hour)),
    "minute": Function(1, 1, _time_part(pc.minute)),
    "second": Function(1, 1, _time_part(pc.second)),
    "date_trunc": Function(2, 2, _date_trunc),
    "to_timestamp": Function(1, 2, _to_timestamp),
    "try_to_timestamp": Function(1, 2, partial(_to_timestamp, safe=True)),
    "to_date": Function(1, 2, _to_date),
    "unix_timestamp": Function(1, 1, _unix_timestamp),
    "to_unix_timestamp": Function(1, 1, _unix_timestamp),
    "unix_seconds": Function(1, 1, _epoch(1_000_000)),
    "unix_millis": Function(1, 1, _epoch(1_000)),
    "unix_micros": Function(1, 1, _epoch(1)),
    "abs": Function(1, 1, _number(arithmetic.absolute)),
    "floor": Function(1, 1, _number(partial(_whole, pc.floor))),
    "ceil": Function(1, 1, _number(partial(_whole, pc.ceil))),
    "ceiling": Function(1, 1, _number(partial(_whole, pc.ceil))),
    "round": Function(1, 2, _round),
    "coalesce": Function(1, None, coalesce),
    "nvl": Function(2, 2, coalesce),
    "ifnull": Function(2, 2, coalesce),
    "nvl2": Function(3, 3, _nvl2),
    "nullif": Function(2, 2, _nullif),
    "isnull": Function(1, 1, logic.is_null),
    "isnotnull": Function(1, 1, lambda value: logic.negated(logic.is_null(value))),
    "isnan": Function(1, 1, lambda value: logic.is_nan(value) if value.type in FLOATS else no_form("isnan() of this", BOOLEAN)),
    "ip_in": Function(2, None, _ip_in),
}

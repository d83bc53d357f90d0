"""The functions with an Arrow form: Spark's name → the function that binds a call."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import pyarrow.compute as pc

from etl.api import parse_type
from etl.expressions import arithmetic, logic
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls import (
    arrays,
    bit_calls,
    conditional_calls,
    hash_calls,
    math_calls,
    number_calls,
    random_calls,
    regex_calls,
    search_calls,
    text_calls,
    time_calls,
)
from etl.expressions.calls.arguments import no_arrow_form
from etl.expressions.casts import cast
from etl.expressions.values import texts
from etl.expressions.widening import BOOLEAN, FLOATS, INT32


class Function(NamedTuple):
    """Minimum and maximum number of arguments (None: any number), and the function that makes a node of them."""

    min_arguments: int
    max_arguments: int | None
    build: Callable[..., BoundNode]


_CASTS = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp", "string")

_DAY_OF_WEEK = partial(pc.day_of_week, count_from_zero=False, week_start=7)

FUNCTIONS: dict[str, Function] = {
    **{name: Function(1, 1, partial(cast, target=parse_type(name))) for name in _CASTS},
    **{name: Function(1, 1, text_calls.text_function(texts.lower)) for name in ("lower", "lcase")},
    **{name: Function(1, 1, text_calls.text_function(texts.upper)) for name in ("upper", "ucase")},
    **{
        name: Function(1, 1, text_calls.text_function(texts.length, INT32))
        for name in ("length", "len", "char_length", "character_length")
    },
    "trim": Function(1, 1, text_calls.text_function(lambda x: pc.utf8_trim(x, " "))),
    "btrim": Function(1, 1, text_calls.text_function(lambda x: pc.utf8_trim(x, " "))),
    "ltrim": Function(1, 1, text_calls.text_function(lambda x: pc.utf8_ltrim(x, " "))),
    "rtrim": Function(1, 1, text_calls.text_function(lambda x: pc.utf8_rtrim(x, " "))),
    "substring": Function(2, 3, text_calls.substring),
    "substr": Function(2, 3, text_calls.substring),
    "left": Function(2, 2, text_calls.left),
    "right": Function(2, 2, text_calls.right),
    "split_part": Function(3, 3, text_calls.split_part),
    "conv": Function(3, 3, number_calls.conv),
    "replace": Function(2, 3, text_calls.replace),
    "startswith": Function(2, 2, text_calls.part_test(pc.starts_with, "startswith")),
    "endswith": Function(2, 2, text_calls.part_test(pc.ends_with, "endswith")),
    "contains": Function(2, 2, text_calls.contains),
    "concat": Function(0, None, text_calls.concat),
    "concat_ws": Function(1, None, text_calls.concat_ws),
    **{name: Function(2, 2, regex_calls.rlike) for name in ("rlike", "regexp_like", "regexp")},
    "regexp_extract": Function(2, 3, regex_calls.regexp_extract),
    "regexp_substr": Function(2, 2, regex_calls.regexp_substr),
    "regexp_instr": Function(2, 2, regex_calls.regexp_instr),
    "regexp_count": Function(2, 2, regex_calls.regexp_count),
    "regexp_replace": Function(3, 4, regex_calls.regexp_replace),
    "year": Function(1, 1, time_calls.date_part(pc.year)),
    "quarter": Function(1, 1, time_calls.date_part(pc.quarter)),
    "month": Function(1, 1, time_calls.date_part(pc.month)),
    "day": Function(1, 1, time_calls.date_part(pc.day)),
    "dayofmonth": Function(1, 1, time_calls.date_part(pc.day)),
    "dayofyear": Function(1, 1, time_calls.date_part(pc.day_of_year)),
    "dayofweek": Function(1, 1, time_calls.date_part(_DAY_OF_WEEK)),
    "weekday": Function(1, 1, time_calls.date_part(pc.day_of_week)),
    "weekofyear": Function(1, 1, time_calls.date_part(pc.iso_week)),
    "hour": Function(1, 1, time_calls.time_part(pc.hour)),
    "minute": Function(1, 1, time_calls.time_part(pc.minute)),
    "second": Function(1, 1, time_calls.time_part(pc.second)),
    "date_trunc": Function(2, 2, time_calls.date_trunc),
    "to_timestamp": Function(1, 2, time_calls.to_timestamp),
    "try_to_timestamp": Function(1, 2, partial(time_calls.to_timestamp, safe=True)),
    "date_format": Function(2, 2, time_calls.date_format),
    "to_date": Function(1, 2, time_calls.to_date),
    "unix_timestamp": Function(1, 1, time_calls.unix_timestamp),
    "to_unix_timestamp": Function(1, 1, time_calls.unix_timestamp),
    "unix_seconds": Function(1, 1, time_calls.epoch(1_000_000)),
    "unix_millis": Function(1, 1, time_calls.epoch(1_000)),
    "unix_micros": Function(1, 1, time_calls.epoch(1)),
    "timestamp_seconds": Function(1, 1, time_calls.timestamp_seconds),
    "timestamp_millis": Function(1, 1, time_calls.timestamp_of(1_000)),
    "timestamp_micros": Function(1, 1, time_calls.timestamp_of(1)),
    "abs": Function(1, 1, number_calls.number(arithmetic.absolute)),
    "floor": Function(1, 1, number_calls.number(partial(number_calls.whole, pc.floor))),
    "ceil": Function(1, 1, number_calls.number(partial(number_calls.whole, pc.ceil))),
    "ceiling": Function(1, 1, number_calls.number(partial(number_calls.whole, pc.ceil))),
    "round": Function(1, 2, number_calls.round_),
    "mod": Function(2, 2, math_calls.mod),
    "least": Function(2, None, math_calls.least),
    "greatest": Function(2, None, math_calls.greatest),
    **{name: Function(0, 0, random_calls.rand) for name in ("rand", "random")},
    "uuid": Function(0, 0, random_calls.uuid),
    "pi": Function(0, 0, math_calls.constant(math.pi)),
    "e": Function(0, 0, math_calls.constant(math.e)),
    "sqrt": Function(1, 1, math_calls.of_doubles(pc.sqrt)),
    "sign": Function(1, 1, math_calls.of_doubles(pc.sign)),
    "signum": Function(1, 1, math_calls.of_doubles(pc.sign)),
    "rint": Function(1, 1, math_calls.rint),
    "radians": Function(1, 1, math_calls.scaled(math_calls.RADIANS_PER_DEGREE)),
    "degrees": Function(1, 1, math_calls.scaled(math_calls.DEGREES_PER_RADIAN)),
    "sin": Function(1, 1, math_calls.of_doubles(pc.sin)),
    "cos": Function(1, 1, math_calls.of_doubles(pc.cos)),
    "tan": Function(1, 1, math_calls.of_doubles(pc.tan)),
    "asin": Function(1, 1, math_calls.of_doubles(pc.asin)),
    "acos": Function(1, 1, math_calls.of_doubles(pc.acos)),
    "atan": Function(1, 1, math_calls.of_doubles(pc.atan)),
    "atan2": Function(2, 2, math_calls.atan2),
    "exp": Function(1, 1, math_calls.of_doubles(pc.exp)),
    "ln": Function(1, 1, math_calls.ln),
    "log": Function(1, 1, math_calls.ln),
    **{name: Function(2, 2, math_calls.power) for name in ("power", "pow")},
    "coalesce": Function(1, None, conditional_calls.coalesce),
    "nvl": Function(2, 2, conditional_calls.coalesce),
    "ifnull": Function(2, 2, conditional_calls.coalesce),
    "nvl2": Function(3, 3, conditional_calls.nvl2),
    "nullif": Function(2, 2, conditional_calls.nullif),
    "isnull": Function(1, 1, logic.is_null),
    "isnotnull": Function(1, 1, lambda value: logic.negate(logic.is_null(value))),
    "isnan": Function(
        1, 1, lambda value: logic.is_nan(value) if value.type in FLOATS else no_arrow_form("isnan() of this", BOOLEAN)
    ),
    "array": Function(1, None, arrays.array),
    "array_append": Function(2, 2, arrays.array_append),
    "array_compact": Function(1, 1, arrays.array_compact),
    "array_contains": Function(2, 2, arrays.array_contains),
    "array_distinct": Function(1, 1, arrays.array_distinct),
    "array_union": Function(2, 2, arrays.array_union),
    "get": Function(2, 2, arrays.get),
    "array_join": Function(2, 2, arrays.array_join),
    "split": Function(2, 2, arrays.split),
    **{name: Function(1, 1, arrays.size) for name in ("size", "cardinality", "array_size")},
    "instr": Function(2, 2, search_calls.instr),
    **{name: Function(2, 3, search_calls.locate) for name in ("locate", "position")},
    "hex": Function(1, 1, hash_calls.hex_),
    "unhex": Function(1, 1, hash_calls.unhex),
    "md5": Function(1, 1, hash_calls.md5),
    **{name: Function(1, 1, hash_calls.sha1) for name in ("sha1", "sha")},
    "sha2": Function(2, 2, hash_calls.sha2),
    "crc32": Function(1, 1, hash_calls.crc32),
    "bit_count": Function(1, 1, bit_calls.bit_count),
    "shiftleft": Function(2, 2, bit_calls.shift(bit_calls.shift_left)),
    "shiftright": Function(2, 2, bit_calls.shift(bit_calls.shift_right)),
    "shiftrightunsigned": Function(2, 2, bit_calls.shift(bit_calls.shift_unsigned)),
    **{name: Function(2, 2, time_calls.add_days(1)) for name in ("date_add", "dateadd")},
    "date_sub": Function(2, 2, time_calls.add_days(-1)),
    **{name: Function(2, 2, time_calls.days_between) for name in ("datediff", "date_diff")},
}

VOLATILE = frozenset(("rand", "random", "uuid"))
"""Those whose values differ between equal events."""

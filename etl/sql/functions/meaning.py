"""Nodes of a script's expression → Spark SQL with Flink's meaning: operators and casts become functions where they differ.

Parts of a node are translated before it. What Spark says exactly as Flink does stays as it is, so that a converted file
reads well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from etl.expressions.library.catalogue import find, script_function
from etl.expressions.signatures.spark_names import FUNCTIONS as SPARK_FUNCTIONS
from etl.rsql.script_names import library_name
from etl.sql.functions.own_functions import own_function, refuse_foreign
from etl.sql.functions.script_dialect import is_rsql
from etl.sql.statements import ScriptError, start

_FRACTIONS = frozenset(("double",))
_WHOLE = frozenset(("tinyint", "smallint", "int", "bigint"))
_SAME_CAST = {
    **{
        name: frozenset(("smallint", "int", "bigint", "double", "string")[at:]) for at, name in enumerate(("tinyint", "smallint"))
    },
    "int": frozenset(("bigint", "double", "string")),
    "bigint": frozenset(("string", "double")),
    "date": frozenset(("timestamp", "string")),
    "timestamp": frozenset(("date",)),
    "string": frozenset(),
}
"""Type → the types to which Spark casts its values exactly as Flink does."""


def translate(node: Any, written: Any) -> Any:
    """A node whose parts are translated, with Flink's meaning; ``written`` is the node of the script. Raises ScriptError."""
    rewrite = _REWRITES.get(type(node).__name__)
    found = rewrite(node, written) if rewrite else node
    if found is not node and found.meta.get("start") is None and written.meta.get("start") is not None:
        found.meta["start"] = written.meta["start"]
    return found


def sql_type(node: Any) -> str | None:
    """Spark's name of a translated node's type, None if it is not known here."""
    from sqlglot import exp

    if isinstance(node, exp.Paren):
        return sql_type(node.this)
    if isinstance(node, exp.Literal):
        if node.is_string:
            return "string"
        return "double" if "e" in node.this.lower() else "decimal" if "." in node.this else _whole_type(int(node.this))
    known = node.meta.get("sql_type")
    return str(known) if known else None


def _whole_type(number: int) -> str:
    return "int" if number < 2**31 else "bigint"


def typed(node: Any, type_: str | None, precision: int | None = None) -> Any:
    """The node with its type noted; ``precision`` is the digits of a time's fraction."""
    if type_:
        node.meta["sql_type"] = type_
    if precision is not None:
        node.meta["precision"] = precision
    return node


def call(name: str, *arguments: Any) -> Any:
    """A call of a function; texts and numbers of Python become literals."""
    from sqlglot import exp

    given = [
        exp.Literal.string(one) if isinstance(one, str) else exp.Literal.number(one) if isinstance(one, int) else one
        for one in arguments
    ]
    return exp.Anonymous(this=name, expressions=given)


# ── Operators ─────────────────────────────────────────────────────────────────────────────────────


def _arithmetic(name: str) -> Callable[[Any, Any], Any]:
    def rewrite(node: Any, written: Any) -> Any:
        from sqlglot import exp

        left, right = node.this, node.expression
        for time, interval, sign in ((left, right, 1), (right, left, 1)):
            if isinstance(interval, exp.Interval) and not isinstance(time, exp.Interval):
                if name == "multiply":
                    break
                return _shift(time, interval, -1 if name == "subtract" else sign)
        types = {sql_type(left), sql_type(right)}
        if name == "divide" and is_rsql():
            return node
        if types & _FRACTIONS and not types & {"string", "boolean"} and name != "mod":
            return typed(node, "double")
        return typed(call(f"flink_{name}", _inside(left), _inside(right)), _result_type(name, sql_type(left), sql_type(right)))

    return rewrite


def _inside(node: Any) -> Any:
    """The node without brackets, for an argument."""
    from sqlglot import exp

    return node.this if isinstance(node, exp.Paren) else node


def _result_type(name: str, left: str | None, right: str | None) -> str | None:
    order = ("tinyint", "smallint", "int", "bigint")
    if left in order and right in order:
        return right if name == "mod" else max(str(left), str(right), key=order.index)
    return None


def _negative(node: Any, written: Any) -> Any:
    from sqlglot import exp

    if isinstance(node.this, exp.Literal):
        return typed(node, sql_type(node.this)) if not _is_beyond(node.this) else call("flink_negate", node.this)
    return node if sql_type(node.this) in _FRACTIONS else call("flink_negate", _inside(node.this))


def _is_beyond(literal: Any) -> bool:
    """Whether ``- 2147483648`` is a BIGINT for Flink and an INT for Spark."""
    return str(literal.this) == str(2**31)


def _like(node: Any, written: Any) -> Any:
    """Without ESCAPE a backslash means itself."""
    from sqlglot import exp

    if isinstance(node.parent, exp.Escape) or isinstance(written.parent, exp.Escape):
        return node
    return _match("flink_like", node)


def _match(name: str, node: Any, *more: Any) -> Any:
    from sqlglot import exp

    pattern = node.expression
    if name == "flink_like" and isinstance(pattern, exp.Literal) and (not more or len(more[0].name) == 1):
        if not more and "\\" in pattern.this:
            pattern.replace(exp.Literal.string(pattern.this.replace("\\", "\\\\")))
        return node
    made = call(name, node.this, pattern, *more)
    return exp.Not(this=made) if node.args.get("negate") else made


def _escape(node: Any, written: Any) -> Any:
    from sqlglot import exp

    inner = node.this
    if isinstance(inner, exp.SimilarTo):
        return _match("flink_similar", inner, node.expression)
    return node if isinstance(inner.expression, exp.Literal) else _match("flink_like", inner, node.expression)


def _between(node: Any, written: Any) -> Any:
    from sqlglot import exp

    if not node.args.get("symmetric"):
        return node
    value, low, high = (node.args[name] for name in ("this", "low", "high"))
    one, other = (exp.Between(this=value.copy(), low=a.copy(), high=b.copy()) for a, b in ((low, high), (high, low)))
    return exp.Paren(this=exp.Or(this=one, expression=other))


def _not_same(node: Any) -> Any:
    """``IS DISTINCT FROM``."""
    from sqlglot import exp

    return exp.Not(this=exp.Paren(this=exp.NullSafeEQ(this=node.this, expression=node.expression)))


def _is(node: Any, written: Any) -> Any:
    kind = node.expression
    if type(kind).__name__ != "JSON":
        return node
    wanted = str(kind.args.get("this") or "value").lower()
    return call("flink_is_json", node.this, wanted) if wanted not in ("value", "false") else call("flink_is_json", node.this)


# ── Casts and literals ────────────────────────────────────────────────────────────────────────────


def _cast(node: Any, written: Any) -> Any:
    from sqlglot import exp

    if isinstance(written, exp.Cast) and not isinstance(written, exp.TryCast):
        return _time_literal(node, written)
    name = type_name(written.args["to"])
    plain, _, length = name.partition("(")
    source, value = sql_type(node.this), _inside(node.this)
    if isinstance(value, exp.Null):
        return (
            typed(exp.Cast(this=value, to=exp.DataType.build("string")), "string")
            if plain in ("char", "varchar")
            else _typed_null(name, value)
        )
    precision = node.this.meta.get("precision")
    if plain == "timestamp":
        precision = int(length.rstrip(")")) if length else 6
    if name == source and name in ("string", "double", *_WHOLE):
        return value
    if not written.args.get("safe") and name in _SAME_CAST.get(source or "", frozenset()):
        made: Any = exp.Cast(this=value, to=exp.DataType.build(name, dialect="spark"))
    else:
        function = "flink_try_cast" if written.args.get("safe") else "flink_cast"
        more = () if precision is None or plain not in ("string", "varchar", "char") else (precision,)
        made = call(function, value, name, *more)
    known = "string" if plain in ("char", "varchar") else plain
    return typed(made, known, precision if plain in ("timestamp", "timestamp_ltz") else None)


def _typed_null(name: str, value: Any) -> Any:
    from sqlglot import exp

    if name.partition("(")[0] in ("time",):
        return call("flink_cast", value, name)
    plain = "timestamp" if name.startswith("timestamp") else "binary" if name == "bytes" else name
    return typed(exp.Cast(this=value, to=exp.DataType.build(plain, dialect="spark")), plain.partition("(")[0])


def type_name(type_: Any) -> str:
    """The name of a type as `flink_cast` takes it."""
    from sqlglot import exp

    text = str(type_.sql(dialect="spark")).lower().replace(" ", "") if isinstance(type_, exp.DataType) else str(type_)
    if type_.this == exp.DType.STRUCT:
        members = (f"{one.name}:{type_name(one.args['kind'])}" for one in type_.expressions)
        return f"struct<{','.join(members)}>"
    if type_.this == exp.DType.TIME:
        return "time"
    return text.replace("timestamp_ntz", "timestamp").replace("timestampltz", "timestamp_ltz")


_DAY = r"\d{4}-\d{1,2}-\d{1,2}"
_CLOCK = r"\d{1,2}:\d{1,2}:\d{1,2}(?:\.(\d{1,9}))?"


def _time_literal(node: Any, written: Any) -> Any:
    """``DATE '…'``, ``TIMESTAMP '…'``, ``TIME '…'``: checked at once. Raises ScriptError."""
    from datetime import date, datetime, time

    from sqlglot import exp

    kind, text = written.args["to"].this, written.this.name
    form = {exp.DType.DATE: _DAY, exp.DType.TIME: _CLOCK}.get(kind, f"{_DAY} {_CLOCK}")
    found = re.fullmatch(form, text)
    try:
        if found is None:
            raise ValueError
        plain = text.partition(".")[0]
        if kind == exp.DType.DATE:
            date(*map(int, plain.split("-")))
        elif kind == exp.DType.TIME:
            time(*map(int, plain.split(":")))  # type: ignore[arg-type]
        else:
            datetime(*map(int, re.split("[- :]", plain)))  # type: ignore[arg-type]
    except ValueError:
        name = {exp.DType.DATE: "date", exp.DType.TIME: "time"}.get(kind, "timestamp")
        raise ScriptError(
            "wrong-type", f"{text!r} is not a {name}", start(written), "write TIMESTAMP '2024-01-31 12:00:00'"
        ) from None
    if kind == exp.DType.TIME:
        return typed(call("flink_cast", text, "time"), "time")
    digits = len(found[1] or "") if kind != exp.DType.DATE else None
    name = "date" if kind == exp.DType.DATE else "timestamp"
    return typed(exp.Cast(this=exp.Literal.string(text), to=exp.DataType.build(name)), name, digits)


# ── Intervals ─────────────────────────────────────────────────────────────────────────────────────

_UNITS = {"DAY": 86_400_000, "HOUR": 3_600_000, "MINUTE": 60_000, "SECOND": 1000, "WEEK": 604_800_000}
_MONTHS = {"YEAR": 12, "QUARTER": 3, "MONTH": 1}
_ORDER = ("DAY", "HOUR", "MINUTE", "SECOND")


def interval_parts(node: Any) -> tuple[int, int]:
    """Months and milliseconds of an interval. Raises ScriptError."""
    unit = node.args.get("unit")
    names = [str(unit.this.name), str(unit.expression.name)] if type(unit).__name__ == "IntervalSpan" else [str(unit or "")]
    names = [name.upper().rstrip("S") if name.upper() != "S" else name for name in names]
    text = node.this.name if node.this is not None else ""
    sign, text = (-1, text[1:]) if text.startswith("-") else (1, text)
    try:
        if names[0] in _MONTHS:
            numbers = [int(one) for one in text.split("-")]
            return sign * sum(number * _MONTHS[name] for number, name in zip(numbers, names, strict=True)), 0
        units = _ORDER[_ORDER.index(names[0]) : _ORDER.index(names[-1]) + 1] if len(names) > 1 else names
        amounts = [float(one) for one in re.split("[ :]", text)]
        return 0, sign * round(sum(amount * _UNITS[name] for amount, name in zip(amounts, units, strict=True)))
    except (ValueError, KeyError):
        raise ScriptError(
            "bad-interval", f"{node.sql(dialect='spark')} is no interval", start(node), "write INTERVAL '10' SECOND"
        ) from None


def _shift(time: Any, interval: Any, sign: int) -> Any:
    """A time and an interval; a timestamp and days to seconds stay as Spark writes them."""
    from sqlglot import exp

    months, millis = interval_parts(interval)
    type_ = sql_type(time)
    if type_ == "timestamp" and not months and not isinstance(interval.args.get("unit"), exp.IntervalSpan):
        operator = exp.Sub if sign < 0 else exp.Add
        return typed(operator(this=time, expression=interval), "timestamp", time.meta.get("precision"))
    if months:
        return typed(
            call("flink_timestampadd", "month", _number(sign * months), _inside(time)), type_, time.meta.get("precision")
        )
    unit, size = next((name, size) for name, size in _SIZES if millis % size == 0)
    made = call("flink_timestampadd", unit, _number(sign * millis // size), _inside(time))
    return typed(made, type_, time.meta.get("precision"))


_SIZES = (("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1000), ("millisecond", 1))


def _number(value: int) -> Any:
    from sqlglot import exp

    return exp.Neg(this=exp.Literal.number(-value)) if value < 0 else exp.Literal.number(value)


# ── Functions with a grammar of their own ─────────────────────────────────────────────────────────


def _trim(node: Any, written: Any) -> Any:
    characters = node.args.get("expression")
    if characters is None:
        return node
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "btrim")
    return call(f"flink_{name}", node.this, characters)


def _substring(node: Any, written: Any) -> Any:
    return _substring_call(*(node.args[name] for name in ("this", "start", "length") if node.args.get(name) is not None))


def _substring_call(*arguments: Any) -> Any:
    """Spark's function where the position is at least 1 and the length no negative number."""
    numbers = [one.this if type(one).__name__ == "Literal" and not one.is_string else None for one in arguments[1:]]
    is_plain = numbers and None not in numbers and str(numbers[0]) != "0" and len(arguments) <= 3
    return typed(call("substring" if is_plain else "flink_substring", *arguments), "string")


def _position(node: Any, written: Any) -> Any:
    return call("flink_locate", node.args["substr"], node.this)


def _overlay(node: Any, written: Any) -> Any:
    names = ("this", "expression", "from_", "for_")
    return call("flink_overlay", *(node.args[name] for name in names if node.args.get(name) is not None))


def _extract(node: Any, written: Any) -> Any:
    return typed(call("flink_extract", written.this.name.lower(), node.expression), "bigint")


def _rounded(name: str) -> Callable[[Any, Any], Any]:
    def rewrite(node: Any, written: Any) -> Any:
        unit = node.args.get("to")
        if unit is None:
            return typed(call(f"flink_{name}", _inside(node.this)), sql_type(node.this))
        return typed(call(f"flink_{name}", node.this, unit.name.lower()), sql_type(node.this), node.this.meta.get("precision"))

    return rewrite


def _overlaps(node: Any, written: Any) -> Any:
    ends = []
    for pair in (written.this, written.expression):
        parts = node.this.expressions if pair is written.this else node.expression.expressions
        first, last = parts
        ends += [first, _shift(first.copy(), last, 1) if type(last).__name__ == "Interval" else last]
    return call("flink_overlaps", *ends)


def _bracket(node: Any, written: Any) -> Any:
    """``ARRAY[…]``, ``MAP[…]``, and elements, which are counted from 1."""
    if getattr(written.this, "name", "").upper() == "MAP" and type(written.this).__name__ == "Column":
        return call("flink_map", *node.expressions)
    index = node.expressions[0]
    if len(node.expressions) != 1:
        return node
    if (type(index).__name__ == "Literal" and not index.is_string and int(index.this) < 1) or type(index).__name__ == "Neg":
        raise ScriptError("wrong-arguments", "elements of an array are counted from 1", start(written))
    return call("flink_element_at", node.this, index)


def _array(node: Any, written: Any) -> Any:
    return call("flink_array", *node.expressions)


def _row(node: Any, written: Any) -> Any:
    return call("flink_row", *node.expressions)


def _bytes(node: Any, written: Any) -> Any:
    return typed(call("unhex", node.this), "binary")


def _unicode_text(node: Any, written: Any) -> Any:
    from sqlglot import exp

    text = re.sub(r"\\(\\|[0-9A-Fa-f]{4}|\+[0-9A-Fa-f]{6})", lambda found: _character(found[1]), str(node.this))
    return exp.Literal.string(text)


def _character(code: str) -> str:
    return code if code == "\\" else chr(int(code.lstrip("+"), 16))


def _current(name: str) -> Callable[[Any, Any], Any]:
    return lambda node, written: typed(call(name), "date" if name == "current_date" else "timestamp")


def _function(node: Any, written: Any) -> Any:
    name = str(node.this).lower()
    if own_function(name) is not None:
        return node
    rewrite = _CALLS.get(name)
    if rewrite:
        return rewrite(node, written)
    if (found := _function_name(name, len(node.expressions))) != name:
        node.set("this", found)
    elif name not in SPARK_FUNCTIONS and find(name) is None:
        refuse_foreign(str(node.this), start(written))
    type_ = _RESULTS.get(str(node.this).lower())
    return typed(node, type_, 3 if type_ == "timestamp" else None)


def _function_name(name: str, count: int) -> str:
    """The function of expressions for a name in a script; RocketMQ Streams has several names for one function."""
    found = script_function(name)
    if found != name or found in SPARK_FUNCTIONS:
        return found
    return library_name(found, count) or found


def _unit_call(name: str) -> Callable[[Any, Any], Any]:
    """``TIMESTAMPADD(DAY, 1, x)``: the unit is a word."""

    def rewrite(node: Any, written: Any) -> Any:
        if len(node.expressions) != 3:
            raise ScriptError("wrong-arguments", f"{name.upper()} takes 3 arguments, not {len(node.expressions)}", start(written))
        unit = written.expressions[0].name.lower()
        third = node.expressions[2]
        made = call(f"flink_{name}", unit, *node.expressions[1:])
        return typed(made, sql_type(third) if name == "timestampadd" else "int", third.meta.get("precision"))

    return rewrite


def _time_part(unit: str) -> Callable[[Any, Any], Any]:
    return lambda node, written: typed(call("flink_extract", unit, *node.expressions), "bigint")


def _random_integer(node: Any, written: Any) -> Any:
    """``RAND_INTEGER(n)`` or ``RAND_INTEGER(seed, n)``."""
    from sqlglot import exp

    *seed, limit = node.expressions
    whole = call("floor", exp.Mul(this=call("rand", *seed), expression=limit))
    return typed(exp.Cast(this=whole, to=exp.DataType.build("int")), "int")


def _date_format(node: Any, written: Any) -> Any:
    """Also rsqldb's ``DATE_FORMAT(text, pattern, pattern of the result)``."""
    time, *patterns = node.expressions
    if len(patterns) == 2:
        time = call("flink_to_timestamp", time, patterns[0])
    return typed(call("flink_date_format", time, *patterns[-1:]), "string")


def _unix_timestamp(node: Any, written: Any) -> Any:
    return typed(call("flink_unix_timestamp" if node.expressions else "unix_timestamp", *node.expressions), "bigint")


_CALLS: Mapping[str, Callable[[Any, Any], Any]] = {
    "timestampadd": _unit_call("timestampadd"),
    "timestampdiff": _unit_call("timestampdiff"),
    "substr": lambda node, written: _substring_call(*node.expressions),
    "row": _row,
    "date_format": _date_format,
    "first_value": lambda node, written: call("first", *node.expressions),
    "last_value": lambda node, written: call("last", *node.expressions),
    "rand_integer": _random_integer,
    "unix_timestamp": _unix_timestamp,
    **{
        name: _time_part(unit)
        for name, unit in (
            ("year", "year"), ("quarter", "quarter"), ("month", "month"), ("week", "week"), ("dayofyear", "doy"),
            ("dayofmonth", "day"), ("dayofweek", "dow"), ("hour", "hour"), ("minute", "minute"), ("second", "second"),
        )
    },
    "localtimestamp": _current("current_timestamp"),
    "now": _current("current_timestamp"),
    "proctime": _current("current_timestamp"),
    "current_row_timestamp": _current("current_timestamp"),
}  # fmt: skip
"""Functions whose call is written otherwise."""

_RESULTS = {
    "flink_to_timestamp": "timestamp", "flink_to_timestamp_ltz": "timestamp", "flink_to_date": "date",
    "flink_date_format": "string", "upper": "string", "lower": "string", "concat": "string", "flink_char_length": "int",
    "flink_unix_timestamp": "bigint", "flink_power": "double", "flink_sqrt": "double",
}  # fmt: skip

_REWRITES: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": _arithmetic("add"),
    "Sub": _arithmetic("subtract"),
    "Mul": _arithmetic("multiply"),
    "Div": _arithmetic("divide"),
    "Mod": _arithmetic("mod"),
    "Neg": _negative,
    "Like": _like,
    "SimilarTo": lambda node, written: node if type(written.parent).__name__ == "Escape" else _match("flink_similar", node),
    "Escape": _escape,
    "NullSafeNEQ": lambda node, written: _not_same(node),
    "Between": _between,
    "Is": _is,
    "Cast": _cast,
    "TryCast": _cast,
    "Trim": _trim,
    "Substring": _substring,
    "StrPosition": _position,
    "Overlay": _overlay,
    "Extract": _extract,
    "Floor": _rounded("floor"),
    "Ceil": _rounded("ceil"),
    "Overlaps": _overlaps,
    "Bracket": _bracket,
    "Array": _array,
    "Tuple": _row,
    "HexString": _bytes,
    "UnicodeString": _unicode_text,
    "CurrentTimestamp": _current("current_timestamp"),
    "CurrentDate": _current("current_date"),
    "Anonymous": _function,
}

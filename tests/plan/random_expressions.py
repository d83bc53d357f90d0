"""Random expressions over the fields of a schema, with functions of Spark that Arrow may not have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import pyarrow as pa

from etl.api import Schema

_TIMESTAMP = pa.timestamp("us", "UTC")
_OFF = 0.02

_LITERALS: Mapping[str, Sequence[str]] = {
    "text": ("'abc'", "''", "'10.0.0.1'", "'2026-01-02'", "'7'", "null"),
    "int": ("0", "1", "-7", "3000000000", "null", "year(current_date())"),
    "double": ("1.5D", "0.5", "1e3", "null"),
    "bool": ("true", "false", "null"),
    "time": ("timestamp'2026-01-02 03:04:05'", "date'2026-01-02'", "current_timestamp()"),
    "list": ("array('a', 'b')", "array(1, 2)", "split('a b', ' ')"),
}
_FORMS: Mapping[str, Sequence[str]] = {
    "text": (
        *("lower({text})", "upper({text})", "trim({text})", "concat({text}, {text})", "coalesce({text}, {text})"),
        *("substring({text}, 1, 3)", "cast({int} as string)", "replace({text}, 'a', 'b')", "split_part({text}, '-', 1)"),
        *("regexp_extract({text}, '([a-z]+)', 1)", "if({bool}, {text}, {text})", "{text} || {text}", "md5({text})"),
        *("date_format({time}, 'yyyy-MM')", "get_json_object({text}, '$.a')", "concat_ws('-', {list})", "initcap({text})"),
        *("case when {bool} then {text} else {text} end", "nullif({text}, {text})", "format_string('%s', {text})"),
        *("lpad({text}, 5, '0')", "reverse({text})", "translate({text}, 'ab', 'cd')", "element_at({list}, 1)", "{list}[0]"),
        *("cast({any} as string)", "nvl({text}, {text})", "hex({int})",),
        *("sha2({text}, 256)", "community_id({text}, {text}, {int}, {int}, {text})"),
    ),
    "int": (
        *("{int} + {int}", "{int} * {int}", "{int} % 3", "{int} div 2", "length({text})", "abs({int})", "-{int}"),
        *("cast({text} as int)", "try_cast({text} as bigint)", "year({time})", "hour({time})",),
        *("size({list})", "coalesce({int}, 0)"),
        *("if({bool}, {int}, {int})", "unix_timestamp({time})", "instr({text}, 'a')", "greatest({int}, {int})", "crc32({text})"),
        *("locate('a', {text})", "levenshtein({text}, {text})", "datediff({time}, {time})", "ascii({text})", "hash({any})"),
        *("cast({double} as int)", "round({double})", "floor({double})", "shiftleft({int}, 2)", "bit_count({int})", "{int} & 7"),
    ),
    "double": (
        *("{double} / {int}", "{double} + {int}", "cast({text} as double)", "sqrt({double})", "round({double}, 2)"),
        *("try_divide({int}, {int})", "log({double})", "pow({double}, 2)", "randn()", "cast({int} as decimal(12,2))"),
    ),
    "bool": (
        *("{text} = {text}", "{int} > {int}", "{double} <= {int}", "{time} < {time}", "{bool} and {bool}", "{bool} or {bool}"),
        *("not {bool}", "{any} is null", "{any} is not null", "{text} like '%a%'", "{text} rlike '^[a-z]+'", "{int} in (1, 2)"),
        *("{text} in ('a', 'b')", "startswith({text}, 'a')", "contains({text}, 'b')", "{int} between 1 and 9", "isnull({any})"),
        *("array_contains({list}, {text})", "ip_in({text}, '10.0.0.0/8')",),
        *("{text} ilike 'A%'", "exists({list}, x -> x = {text})"),
        *("{text} <=> {text}", "{any} = {any}", "cast({text} as boolean)", "isnotnull({any})", "{text} = {int}"),
    ),
    "time": (
        *("date_trunc('hour', {time})", "to_timestamp({text})", "cast({text} as timestamp)", "date_add({time}, 1)"),
        *("{time} + interval 1 hour", "to_date({text})", "try_to_timestamp({text})", "timestamp_millis({int})",),
        *("last_day({time})"),
        *("from_utc_timestamp({time}, 'Europe/Berlin')", "make_date(2026, 1, {int})", "coalesce({time}, {time})"),
    ),
    "list": (
        *("split({text}, ',')", "array({text}, {text})", "array_distinct({list})", "filter({list}, x -> x is not null)"),
        *("transform({list}, x -> upper(x))", "slice({list}, 1, 2)", "array_union({list}, {list})", "sort_array({list})"),
        *("map_keys(map('a', 1))", "flatten(array({list}))", "sequence(1, 3)", "reverse({list})"),
    ),
}  # fmt: skip
_OTHERS = (
    "map('a', {text})",
    "named_struct('a', {int})",
    "struct({text}, {int})",
    "to_json(named_struct('a', {text}))",
    "from_json({text}, 'a int')",
)


def condition(chance: Random, fields: Schema, depth: int = 2) -> str:
    """A condition."""
    return expression(chance, fields, "bool", depth)


def expression(chance: Random, fields: Schema, kind: str | None = None, depth: int = 2) -> str:
    """An expression of a kind, of any kind by default; sometimes of a wrong kind."""
    if kind == "any" or kind is None:
        kind = chance.choice(tuple(_FORMS))
        if chance.random() < 0.04 and depth:
            return _filled(chance, fields, chance.choice(_OTHERS), depth)
    if chance.random() < _OFF:
        kind = chance.choice(tuple(_FORMS))
    if depth <= 0 or chance.random() < 0.25:
        return literal(chance, fields, kind)
    return _filled(chance, fields, chance.choice(_FORMS[kind]), depth)


def literal(chance: Random, fields: Schema, kind: str) -> str:
    """A field of the kind, or a constant."""
    names = [one.name for one in fields if _kind(one.type) in (kind, None)]
    if chance.random() < _OFF:
        names = [*fields.names, "unheard_of"]
    if names and chance.random() < 0.75:
        return ".".join(f"`{part}`" if chance.random() < 0.1 else part for part in chance.choice(names).split("."))
    return chance.choice(_LITERALS[kind])


def _filled(chance: Random, fields: Schema, form: str, depth: int) -> str:
    kinds = (*_FORMS, "any")
    while "{" in form and (found := next((one for one in kinds if f"{{{one}}}" in form), None)):
        part = expression(chance, fields, found, depth - 1)
        form = form.replace(f"{{{found}}}", f"({part})" if " " in part else part, 1)
    return form


def _kind(type_: pa.DataType) -> str | None:
    """The kind of a field; None for any."""
    if pa.types.is_null(type_):
        return None
    tests = (
        ("text", pa.types.is_string), ("int", pa.types.is_integer), ("double", pa.types.is_floating),
        ("double", pa.types.is_decimal),
        ("bool", pa.types.is_boolean), ("time", pa.types.is_timestamp), ("time", pa.types.is_date), ("list", pa.types.is_list),
    )  # fmt: skip
    return next((kind for kind, test in tests if test(type_)), "other")

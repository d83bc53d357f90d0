"""Flink's connector `datagen` → the template and the steps with which the source `generate` gives the columns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from etl.sql.expressions import quoted
from etl.sql.relation import StepText
from etl.sql.statements import CreateTable, Option, ScriptError
from etl.sql.table_options.options import Options

_BOUNDS = {
    "tinyint": (-(2**7), 2**7 - 1),
    "smallint": (-(2**15), 2**15 - 1),
    "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**62), 2**62),
}
_LENGTH = 100
"""Characters of a text, as in Flink."""
_LONGEST = 64
"""Digits that one placeholder can have."""

_KNOWN = frozenset({"kind", "min", "max", "start", "end", "length", "var-len", "null-rate", "max-past"})


def generated_columns(table: CreateTable, options: Options, fields: Mapping[str, str]) -> tuple[dict[str, Any], list[StepText]]:
    """The options of the source, and steps that number columns from their start. Raises ScriptError."""
    given: dict[str, dict[str, Option]] = {}
    for option in table.options:
        if found := re.fullmatch(r"fields\.(.+)\.([a-z-]+)", option.name):
            if found[1] not in fields or found[2] not in _KNOWN:
                what = f"no option {found[2]!r}" if found[1] in fields else f"no column {found[1]!r} to generate"
                raise ScriptError("unknown-option", f"datagen has {what}", option.at, f"the columns are {', '.join(fields)}")
            given.setdefault(found[1], {})[found[2]] = option
    members, numbered, counts = [], {}, []
    for name, type_ in fields.items():
        one = given.get(name, {})
        members.append(f'"{name}": {_value(type_, one)}')
        if "kind" in one and one["kind"].value == "sequence":
            first, last = _whole(one, "start", 0), _whole(one, "end", 2**31)
            numbered[name] = f"{quoted(name)} + {first}"
            counts.append(last - first + 1)
    more: dict[str, Any] = {"templates": "{{" + ", ".join(members) + "}}"}
    if counts and ("count",) not in options.values:
        more["count"] = min(counts)
    return more, [StepText({"type": "set", "fields": numbered}, table.at)] if numbered else []


def _value(type_: str, given: Mapping[str, Option]) -> str:
    """The placeholder of a column in a template of JSON."""
    plain = type_.partition("(")[0]
    if "kind" in given and given["kind"].value == "sequence":
        return "{i}"
    if plain in _BOUNDS:
        low, high = _BOUNDS[plain]
        return f"{{int:{_whole(given, 'min', low)}:{_whole(given, 'max', high)}}}"
    if plain == "decimal":  # whole numbers have no digits that do not fit
        return f"{{int:{_whole(given, 'min', 0)}:{_whole(given, 'max', 9)}}}"
    if plain in ("double", "float"):
        return f"{{float:{given['min'].value if 'min' in given else 0}:{given['max'].value if 'max' in given else 1}}}"
    if plain == "boolean":
        return "{choice:true|false}"
    if plain in ("timestamp", "date"):
        return '"{now}"'
    whole, rest = divmod(_whole(given, "length", _LENGTH), _LONGEST)
    return f'"{f"{{hex:{_LONGEST}}}" * whole}{f"{{hex:{rest}}}" if rest > 0 else ""}"'


def _whole(given: Mapping[str, Option], name: str, default: int) -> int:
    if name not in given:
        return default
    try:
        return int(given[name].value)
    except ValueError:
        raise ScriptError("invalid-value", f"{given[name].value!r} is not a whole number", given[name].value_at) from None

"""The types with which signatures are probed and looked up, and the rules for result types."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

CONSTANT_TEXT, CONSTANT_INT = "'text'", "1"

MAX_PROBED = 8
"""Maximum number of arguments of a call that are probed."""

BY_VALUE = "by value"
"""Instead of a type that depends on the value of a constant."""

_BY_VALUE = frozenset(
    (
        "from_json", "from_csv", "from_xml", "struct", "named_struct", "arrays_zip", "date_part", "datepart", "extract",
        "variant_get", "try_variant_get", "to_number", "try_to_number", "schema_of_json",
    )
)  # fmt: skip
"""Functions whose result type depends on names and constants."""

_ATOMS = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "decimal(5,0)", "string", "binary",
    "date", "timestamp", "timestamp_ntz",
)  # fmt: skip

CODES = (
    *_ATOMS, CONSTANT_TEXT, CONSTANT_INT,
    "array<string>", "array<int>", "array<bigint>", "array<double>", "array<float>", "array<boolean>", "array<timestamp>",
    "array<date>", "array<binary>", "array<tinyint>", "array<smallint>", "array<decimal(10,2)>", "array<timestamp_ntz>",
    "array<array<string>>", "array<map<string,string>>", "array<struct<a:int,b:string>>",
    "map<string,string>", "map<string,int>", "map<int,string>", "map<string,array<string>>",
    "struct<a:int,b:string>", "struct<a:string>",
    "interval day to second", "interval year to month", "variant",
)  # fmt: skip
"""The types that are probed, in the order of the bits of a mask."""

BITS = {code: 1 << at for at, code in enumerate(CODES)}
"""The bit of each type in a mask."""

COMBINED_IN_PAIRS = (
    "boolean", "tinyint", "int", "bigint", "float", "double", "decimal(10,2)", "string", "binary", "date", "timestamp",
    "timestamp_ntz", CONSTANT_TEXT, CONSTANT_INT, "array<string>", "array<int>", "array<double>", "map<string,string>",
    "map<string,int>", "struct<a:int,b:string>", "struct<a:string>", "interval day to second", "interval year to month",
    "variant",
)  # fmt: skip
"""Types probed in every combination of two arguments."""

COMBINED_IN_THREES = (
    CONSTANT_TEXT,
    CONSTANT_INT,
    "double",
    "timestamp",
    "binary",
    "array<string>",
    "map<string,string>",
    "interval day to second",
)
"""Types probed in every combination of three arguments."""

ARRAY_ELEMENTS = tuple(code for code in _ATOMS if f"array<{code}>" in CODES)
"""Types of array elements: those whose arrays are among `CODES`, too."""

OPERATORS = {
    **{f"operator {sign}": f"({{}} {sign} {{}})" for sign in (
        "=", "<>", "<", "<=", ">", ">=", "<=>", "+", "-", "*", "/", "%", "div", "||", "&", "|", "^", "and", "or",
        "like", "ilike", "rlike",
    )},
    "operator in": "({} in ({}))",
    "operator []": "({}[{}])",
    "operator ~": "(~ {})",
    "operator negative": "(- {})",
    "operator not": "(not {})",
    "operator is true": "({} is true)",
    "operator between": "({} between {} and {})",
}  # fmt: skip
"""Operators by their name in the file, with a placeholder for each operand."""

CAST_TARGETS = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(10,2)", "string", "binary", "date",
    "timestamp", "timestamp_ntz", "array<string>", "array<int>", "map<string,string>", "struct<a:int,b:string>",
)  # fmt: skip


class Argument(NamedTuple):
    """An argument of a call: its type, and the kind of constant it is."""

    type: pa.DataType
    code: str | None = None
    """`CONSTANT_TEXT` or `CONSTANT_INT` for a literal of that type."""
    constant: bool = False


@dataclass(frozen=True)
class ProbeResults:
    """Spark's answers for one number of arguments: accepted combinations of types → result type."""

    count: int
    results: Mapping[tuple[str, ...], str]

    def as_json(self, name: str = "") -> dict[str, Any]:
        """``at``: a mask of types for each argument; ``pairs``: of two arguments, the mask of the second by the first."""
        found: dict[str, Any] = {"at": [_mask({codes[at] for codes in self.results}) for at in range(self.count)]}
        if self.count == 2:
            rows = {one: _mask({b for a, b in self.results if a == one and b in COMBINED_IN_PAIRS}) for one in COMBINED_IN_PAIRS}
            if len({mask for mask in rows.values() if mask != "0"}) > 1:  # else the arguments are independent
                found["pairs"] = rows
        rule = result_rule(self.results) if name not in _BY_VALUE else None
        return found | ({"gives": rule} if rule else {})


def _mask(codes: set[str]) -> str:
    return format(sum(1 << CODES.index(code) for code in codes), "x")


def result_rule(results: Mapping[tuple[str, ...], str]) -> Any:
    """The rule for the result type: a type, ``=0``, ``element 0``, ``array 0``, or a type for each type of one argument."""
    plain = {tuple(_plain(code) for code in codes): type_ for codes, type_ in results.items()}
    types = set(plain.values())
    if BY_VALUE in types or "unknown" in types:
        return None
    if len(types) == 1:
        return types.pop()
    count = len(next(iter(plain)))
    for at in range(count):
        for name, expected in (("=", _same), ("element ", _element), ("array ", _array)):
            if all(type_ == expected(codes[at]) for codes, type_ in plain.items()):
                return f"{name}{at}"
    for at in range(count):
        by = {codes[at]: type_ for codes, type_ in plain.items()}
        if all(by[codes[at]] == type_ for codes, type_ in plain.items()):
            return {"by": at, "types": by}
    return None


def _plain(code: str) -> str:
    return {CONSTANT_TEXT: "string", CONSTANT_INT: "int"}.get(code, code)


def _same(type_: str) -> str:
    return type_


def _element(type_: str) -> str | None:
    return type_[6:-1] if type_.startswith("array<") else None


def _array(type_: str) -> str:
    return f"array<{type_}>"

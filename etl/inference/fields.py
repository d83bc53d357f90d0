"""The fields that a match gives, with types and the share of events that lack them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from etl.api import format_type
from etl.inference.match import NAME, Match, new_fields, parse_rest, rest_fields

DEEPEST = 30
"""Objects inside each other whose members are fields; what is deeper is a text."""

MAX_FIELDS = 200
"""Fields that are listed; a format whose keys are data has any number of them."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:?\d\d)?")


@dataclass(frozen=True)
class FoundField:
    """A field of a sample: its Spark SQL type and the share of events where it is null."""

    name: str
    type: str
    nulls: float


def find_fields(match: Match) -> list[FoundField]:
    """Columns in their order, then what the rest holds."""
    counts: dict[str, tuple[str, int]] = {}
    rests = rest_fields(match.candidate)
    inside: dict[str, list[Any]] = {}
    for batch in match.batches:
        for name in new_fields(match.candidate, batch.schema):
            column = batch.column(name)
            if name in rests:
                _look_inside(column.to_pylist(), inside)
            else:
                known = counts.get(name, ("", 0))[1]
                counts[name] = format_type(column.type), known + len(column) - column.null_count
    rows = sum(batch.num_rows for batch in match.batches) or 1
    columns = [FoundField(name, type_, 1 - known / rows) for name, (type_, known) in counts.items() if known]
    rest = [FoundField(name, type_of(values), 1 - len(values) / rows) for name, values in inside.items() if values]
    return [*columns, *rest][:MAX_FIELDS]


def _look_inside(texts: Iterable[str | None], found: dict[str, list[Any]]) -> None:
    for text in texts:
        for name, value in _leaves(parse_rest(text), ""):
            if len(found) < 2 * MAX_FIELDS or name in found:
                found.setdefault(name, []).append(value)
    for name in [name for name in found if any(other.startswith(f"{name}.") for other in found)]:
        del found[name]  # a value in one event and an object in another: its members stay


def _leaves(value: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Members by dotted name; null members, and those whose names cannot be fields, stay in the rest."""
    for key, item in value.items():
        name = f"{prefix}{key}"
        if isinstance(item, dict) and item and name.count(".") < DEEPEST:
            yield from _leaves(item, f"{name}.")
        elif item is not None and item != {} and NAME.fullmatch(name):
            yield name, item


def type_of(values: Iterable[Any]) -> str:
    """The Spark SQL type that holds all these JSON values."""
    names = {_type(value) for value in values}
    if len(names) == 1:
        return names.pop()
    return "double" if names == {"bigint", "double"} else "string"


def _type(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if -(2**63) <= value < 2**63 else "double"
    if isinstance(value, float):
        return "double"
    if isinstance(value, list):
        return f"array<{type_of(value)}>" if value and not any(isinstance(item, (dict, list)) for item in value) else "string"
    return "timestamp" if isinstance(value, str) and _TIME.fullmatch(value) else "string"


def fields_block(fields: Iterable[FoundField], indent: str = "", comments: bool = True) -> Iterator[str]:
    """``fields:`` to paste, a line each."""
    yield f"{indent}fields:"
    lines = [(f"{indent}  {field.name}: {_quote(field.type)}", field.nulls) for field in fields]
    width = max((len(text) for text, _ in lines), default=0)
    for text, nulls in lines:
        yield f"{text:<{width}}  # {percent(nulls)} null" if comments else text


def _quote(type_: str) -> str:
    return f'"{type_}"' if "," in type_ or ":" in type_ else type_


def percent(share: float) -> str:
    """``98 %``; what is not all is not called 100, what is not nothing not 0."""
    if 0 < share < 0.005 or 0.995 <= share < 1:
        return "<1 %" if share < 0.5 else ">99 %"
    return f"{share:.0%}".replace("%", " %")

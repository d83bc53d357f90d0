"""A condition in front of a schema: fields found, types looked at, each predicate in the form that can decide it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pyarrow as pa

from etl.api import HIDDEN, Schema
from etl.rules.conditions.column_types import TEXTS, is_list
from etl.rules.conditions.predicates import (
    ANY_FIELD,
    Network,
    Number,
    Pattern,
    Predicate,
    Present,
    SameField,
    Sql,
    Text,
    TimePart,
)
from etl.rules.conditions.spark_sql import sql_condition
from etl.rules.conditions.tree import FALSE, Condition, Leaf, either, replaced
from etl.rules.search.literal_search import forms_of, is_literal

_PARTS = {"week": "weekofyear"}


def bind(condition: Condition, schema: Schema) -> Condition:
    """The condition over the fields that are there; what asks for a value of a field that is not there is false."""

    def replace(leaf: Leaf) -> Condition:
        predicate = leaf.predicate
        if isinstance(predicate, Text | Pattern) and predicate.field == ANY_FIELD:
            return either(_bound(_moved(predicate, name), schema) for name in text_fields(schema))
        return _bound(predicate, schema)

    return replaced(condition, replace)


def text_fields(schema: Schema) -> list[str]:
    """The fields a keyword is looked for in."""
    return [field.name for field in schema if field.name not in HIDDEN and _is_text(field.type)]


def _is_text(type_: pa.DataType) -> bool:
    return type_ in TEXTS or (is_list(type_) and type_.value_type in TEXTS)


def _moved(predicate: Text | Pattern, field: str) -> Predicate:
    if isinstance(predicate, Text):
        return Text(field, predicate.kind, predicate.text, predicate.cased)
    return Pattern(field, predicate.pattern, predicate.literals)


def _bound(predicate: Predicate, schema: Schema) -> Condition:
    return _BIND[type(predicate)](predicate, schema)


def _text(predicate: Text, schema: Schema) -> Condition:
    if predicate.field not in schema.names:
        return FALSE
    if not predicate.text and predicate.kind != "equals":
        return _present(Present(predicate.field), schema)
    if not is_literal(predicate.text, predicate.cased):
        return Leaf(_as_pattern(predicate))
    return Leaf(predicate)


def _as_pattern(predicate: Text) -> Pattern:
    """A text with very many forms as a regular expression that has them all."""
    inner = "".join(re.escape(char) if len(forms_of(char)) == 1 else f"[{''.join(forms_of(char))}]" for char in predicate.text)
    start = r"\A" if predicate.kind in ("equals", "startswith") else ""
    end = r"\z" if predicate.kind in ("equals", "endswith") else ""
    return Pattern(predicate.field, f"{start}{inner}{end}")


def _where_present(predicate: Pattern | Network, schema: Schema) -> Condition:
    return Leaf(predicate) if predicate.field in schema.names else FALSE


def _number(predicate: Number, schema: Schema) -> Condition:
    if predicate.field not in schema.names:
        return FALSE
    type_ = schema.field(predicate.field).type
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        return Leaf(predicate)
    if predicate.order == "=":
        return Leaf(Text(predicate.field, "equals", _written(predicate.value)))
    if type_ not in TEXTS:
        return FALSE
    return Leaf(
        Sql(f"try_cast({_quoted(predicate.field)} as double) {predicate.order} {float(predicate.value)!r}D", (predicate.field,))
    )


def _written(value: int | float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(value)


def _present(predicate: Present, schema: Schema) -> Condition:
    return Leaf(predicate) if predicate.field in schema.names else FALSE


def _same(predicate: SameField, schema: Schema) -> Condition:
    names = {predicate.field, predicate.other}
    single = names <= set(schema.names) and not any(is_list(schema.field(name).type) for name in names)
    return Leaf(predicate) if single else FALSE


def _time(predicate: TimePart, schema: Schema) -> Condition:
    if predicate.field not in schema.names:
        return FALSE
    part = _PARTS.get(predicate.unit, predicate.unit)
    field = _quoted(predicate.field)
    time = field if pa.types.is_timestamp(schema.field(predicate.field).type) else f"try_cast({field} as timestamp)"
    return Leaf(Sql(f"{part}({time}) = {predicate.number}", (predicate.field,)))


def _sql(predicate: Sql, schema: Schema) -> Condition:
    """Taken apart; raises BindError."""
    return sql_condition(predicate.where, schema)


def _quoted(name: str) -> str:
    return f"`{name}`"


_BIND: Mapping[type, Callable[..., Condition]] = {
    Text: _text,
    Pattern: _where_present,
    Network: _where_present,
    Number: _number,
    Present: _present,
    SameField: _same,
    TimePart: _time,
    Sql: _sql,
}

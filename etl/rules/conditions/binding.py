"""Binding a condition to the fields of a stream: each predicate in the form that can be evaluated on its column."""

from __future__ import annotations

import pyarrow as pa

from etl.api import HIDDEN, Schema
from etl.rules.conditions.column_types import TEXT_TYPES, is_list_type
from etl.rules.conditions.tree import Condition, Leaf, any_of, replace_leaves
from etl.rules.predicates.predicate import ANY_FIELD


def bind(condition: Condition, schema: Schema) -> Condition:
    """The condition over existing fields; a predicate on a missing field is false. Raises BindError."""

    def replace(leaf: Leaf) -> Condition:
        predicate = leaf.predicate
        if ANY_FIELD in predicate.field_names:
            return any_of(predicate.renamed({ANY_FIELD: name}).bind(schema) for name in text_fields(schema))
        return predicate.bind(schema)

    return replace_leaves(condition, replace)


def text_fields(schema: Schema) -> list[str]:
    """The fields in which keywords are searched for: texts, and lists of texts."""
    return [field.name for field in schema if field.name not in HIDDEN and _holds_texts(field.type)]


def _holds_texts(type_: pa.DataType) -> bool:
    return type_ in TEXT_TYPES or (is_list_type(type_) and type_.value_type in TEXT_TYPES)

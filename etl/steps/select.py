"""Events with exactly the named fields, each the value of an expression."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

import pyarrow as pa
from pydantic import Field

from etl.api import HIDDEN, Expression, FieldName, Schema, with_key_renamed
from etl.steps.set import Set
from etl.steps.spark_values import fields_without_values


class Select(Set):
    """Give events exactly these fields, each the value of an expression, as the list of SQL's SELECT does.

    Fields come in the order in which they are named; all others are dropped. A field that is passed on under its own or another
    name is not copied. All expressions read the event as it was before this step. An event for which an expression cannot be
    computed goes to the dead letters with the code ``expression-failed``, also where an expression needs Spark; but an
    error in one that makes a map there, such as ``str_to_map`` with a key twice, ends the run.

    ```yaml
    type: select
    fields:
      user_name: lower(user_name)
      address: source.ip
      megabytes: bytes / 1e6
    ```
    """

    type: Literal["select"] = "select"  # type: ignore[assignment]
    values: Mapping[FieldName, Expression] = Field(
        alias="fields", min_length=1, description="Names of the fields, and the Spark SQL expressions that give their values."
    )

    def fields(self, incoming: Schema) -> Schema:
        given = fields_without_values(incoming)
        hidden = [field for field in given if field.name in HIDDEN]
        found = pa.schema([*(pa.field(name, type_) for name, type_ in self._types(incoming).items()), *hidden])
        renamed_fields = {old: new for new, text in self.values.items() if (old := _passed_on(text, given))}
        return with_key_renamed(found, given, renamed_fields)

    def _with_values(self, batch: pa.RecordBatch, values: Mapping[str, pa.Array], known: frozenset[str]) -> pa.RecordBatch:
        others = [name for name in batch.schema.names if name in HIDDEN or name not in known]
        arrays = dict(values) | {name: batch.column(name) for name in others}
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


_CAST = re.compile(r"\s*cast\((.*) as (tinyint|smallint|int|bigint|string)\)\s*", re.IGNORECASE)


def _passed_on(text: str, incoming: Schema) -> str | None:
    """The field that an expression passes on, also as a type in which different values stay different: a whole number that does
    not fit is an error of the event."""
    if cast := _CAST.fullmatch(text):
        name = _plain_name(cast[1], incoming)
        type_ = incoming.field(name).type if name else None
        is_same = type_ is not None and (pa.types.is_integer(type_) or (cast[2].lower() == "string" and _has_one_text(type_)))
        return name if is_same else None
    return _plain_name(text, incoming)


def _has_one_text(type_: pa.DataType) -> bool:
    """Whether different values of a type have different texts."""
    return any(test(type_) for test in (pa.types.is_temporal, pa.types.is_boolean, pa.types.is_string))


def _plain_name(text: str, incoming: Schema) -> str | None:
    name = text.strip().replace("`", "")
    return name if name in incoming.names else None

"""The keys of a join, and the fields of its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import pyarrow as pa
from pydantic import BeforeValidator, Field, WithJsonSchema

from etl.api import FieldName, Schema, wider

if TYPE_CHECKING:
    from etl.steps.joining.join import Join


def _pairs(given: object) -> object:
    """Turn a name or a list of names, which are those of both sides, into pairs."""
    names = [given] if isinstance(given, str) else given
    is_list = isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)
    return {name: name for name in names} if is_list else given  # type: ignore[attr-defined]


_NAME = {"type": "string", "minLength": 1}

KeyPairs = Annotated[
    dict[FieldName, FieldName],
    BeforeValidator(_pairs),
    Field(min_length=1),
    WithJsonSchema(
        {
            "anyOf": [
                _NAME,
                {"type": "array", "items": _NAME, "minItems": 1, "uniqueItems": True},
                {"type": "object", "additionalProperties": _NAME, "minProperties": 1},
            ]
        }
    ),
]
"""Fields that both sides have, or field of the left side → field of the right one."""


@dataclass(frozen=True)
class JoinedFields:
    """The fields of joined events: those of the left event, and those of the right one that are not a key of the same name."""

    on: Mapping[str, str]
    prefix: str
    left: Schema
    right: Schema

    @property
    def right_names(self) -> dict[str, str]:
        """Field of the right side → its name in a result."""
        same = {name for name, other in self.on.items() if name == other}
        return {n: self.prefix + n if n in self.left.names else n for n in self.right.names if n not in same}

    @property
    def schema(self) -> Schema:
        """All fields with their types; a key of both sides has the wider one."""
        types = {f.name: self._left_type(f) for f in self.left}
        types |= {new: self.right.field(name).type for name, new in self.right_names.items()}
        return pa.schema(list(types.items()))

    def _left_type(self, field: pa.Field) -> pa.DataType:
        if self.on.get(field.name) != field.name or field.name not in self.right.names:
            return field.type
        return wider(field.type, self.right.field(field.name).type) or field.type


def joined_key(step: Join, pair: JoinedFields, keys: tuple[tuple[str, ...], tuple[str, ...]] | None) -> tuple[str, ...] | None:
    """The key of the results of a join of two changelogs whose keys are ``keys``; None without them.

    It is the key of the left rows if each of them has at most one match, that of the right ones likewise, or else both together.
    """
    if keys is None:
        return None
    left, right = keys
    if step.kind in ("semi", "anti") or (step.kind in ("inner", "left") and set(right) <= set(step.on.values())):
        return left
    of_right = tuple(pair.right_names.get(name, name) for name in right)
    if step.kind in ("inner", "right") and set(left) <= set(step.on):
        return of_right
    return tuple(dict.fromkeys((*left, *of_right)))

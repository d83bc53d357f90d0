"""Events as record batches: flat columns inside the engine, nested structs at its borders.

The field ``source.ip`` is a column of that name in flight, and a member of the struct ``source`` where events leave.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

if TYPE_CHECKING:
    import numpy as np

OFFSET = "_offset"
"""Hidden column (int64, not null) of every batch: the event's offset inside its partition."""

IDENTITY = "_identity"
"""Hidden column (string, not null) before sinks that need it: a unique text for each event, the same when the event is
written again."""

CHANGE = "_change"
"""Hidden column (int8) of a stream whose results change: the kind of change (`etl.contract.changelogs.KINDS`)."""

HIDDEN = ("_source", "_partition", OFFSET, IDENTITY, CHANGE)
"""The event's identity, and the kind of change. Sources and segments carry `_offset`; source and partition are constants of the
split."""

Schema: TypeAlias = pa.Schema
"""Flat columns, dotted names, in order."""


_FEW = 4
"""Maximum number of fields that are added to a schema one by one, without reading its other fields in Python."""


def prefixes(names: Iterable[str]) -> set[str]:
    """The structs that fields are members of."""
    dotted = (name.split(".") for name in names if "." in name)
    return {".".join(parts[:count]) for parts in dotted for count in range(1, len(parts))}


def visible(schema: Schema) -> Schema:
    """The schema without hidden columns."""
    return pa.schema([f for f in schema if f.name not in HIDDEN])


def with_columns(batch: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
    """The batch with columns replaced in place or added at the end, without copying the others."""
    arrays = dict(zip(batch.schema.names, batch.columns, strict=True)) | dict(columns)
    return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def with_fields(schema: Schema, fields: Mapping[str, pa.DataType]) -> Schema:
    """The schema with fields replaced in place or added at the end; what `with_columns` does to a batch."""
    if len(fields) > _FEW:
        known = {f.name: f for f in schema}
        return pa.schema([*({**known, **{name: pa.field(name, type_) for name, type_ in fields.items()}}).values()])
    for name, type_ in fields.items():
        at = schema.get_field_index(name)
        schema = schema.append(pa.field(name, type_)) if at < 0 else schema.set(at, pa.field(name, type_))
    return schema


def without(schema: Schema, names: Iterable[str]) -> Schema:
    """The schema without these fields."""
    gone = set(names)
    return pa.schema([f for f in schema if f.name not in gone])


def nested_schema(schema: Schema) -> pa.Schema:
    """Dotted fields gathered into structs, each struct where its first member stood."""
    return pa.schema([pa.field(name, _nested_type(node)) for name, node in _tree(schema.names, list(schema.types)).items()])


def nest(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Flat batch → batch of `nested_schema`; buffers are shared, not copied."""
    tree = _tree(batch.schema.names, batch.columns)
    return pa.RecordBatch.from_arrays([_nested_array(node) for node in tree.values()], names=list(tree))


def flat_schema(schema: pa.Schema) -> Schema:
    """Struct members lifted to dotted fields; lists and maps stay whole."""
    return pa.schema([leaf for field in schema for leaf in _leaves(field.name, field.type)])


def flatten(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Nested batch → batch of `flat_schema`. A null struct becomes null members."""
    columns: list[pa.Array] = []
    names: list[str] = []
    todo = list(zip(reversed(batch.schema.names), reversed(batch.columns), strict=True))
    while todo:
        name, array = todo.pop()
        if pa.types.is_struct(array.type):
            members = [f"{name}.{member.name}" for member in array.type]
            todo.extend(zip(reversed(members), reversed(array.flatten()), strict=True))
        else:
            names.append(name)
            columns.append(array)
    return pa.RecordBatch.from_arrays(columns, names=names)


def _tree(names: Iterable[str], leaves: Iterable[object]) -> dict[str, object]:
    tree: dict[str, object] = {}
    for name, leaf in zip(names, leaves, strict=True):
        *parents, last = name.split(".")
        node = tree
        for parent in parents:
            child = node.setdefault(parent, {})
            if not isinstance(child, dict):
                raise ValueError(f"field {name!r} needs {parent!r} to be a struct, and it is a value")
            node = child
        if isinstance(node.get(last), dict):
            raise ValueError(f"field {name!r} is a value, and other fields need it to be a struct")
        node[last] = leaf
    return tree


def _nested_type(node: object) -> pa.DataType:
    if isinstance(node, dict):
        return pa.struct([pa.field(name, _nested_type(child)) for name, child in node.items()])
    return node


def _nested_array(node: object) -> pa.Array:
    if isinstance(node, dict):
        return pa.StructArray.from_arrays([_nested_array(child) for child in node.values()], names=list(node))
    return node


def _leaves(name: str, type_: pa.DataType) -> Iterable[pa.Field]:
    if not pa.types.is_struct(type_):
        yield pa.field(name, type_)
        return
    for member in type_:
        yield from _leaves(f"{name}.{member.name}", member.type)


@dataclass
class RepeatCounter:
    """Numbers the events with the same offset, which a step made of one event; they follow each other, perhaps over batches."""

    _last: int | None = None
    _number: int = 0

    def numbers(self, offsets: pa.Array) -> np.ndarray[Any, Any] | None:
        """For each event of the next batch the number of earlier ones with its offset; None if all offsets differ."""
        import numpy as np

        values = offsets.to_numpy()
        if not len(values):
            return None
        same = np.append(values[0] == self._last, values[1:] == values[:-1])
        rows = np.arange(len(values))
        began = np.maximum.accumulate(np.where(same, -1 - self._number, rows))  # first row with this offset
        numbers = rows - began
        self._last, self._number = int(values[-1]), int(numbers[-1])
        return numbers if same.any() else None

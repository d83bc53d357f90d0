"""What a table's columns are made of: types that a format has, and the changes that fit a table to events."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa
from pyarrow import types as kinds

from etl.api import TIMESTAMP, Schema, format_type, nested_schema, visible

LakeFormat = Literal["delta", "iceberg"]
"""A table format."""

_NAIVE = pa.timestamp("us")

_SIGNED_TYPES = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20, 0)}
"""The narrowest signed type with all values of an unsigned one, which neither format has."""

_DELTA_NAME_CHARACTERS = frozenset(" ,;{}()\n\t=")
"""Characters that a column of Delta Lake has only with column mapping."""

Path = tuple[str, ...]
"""Names that lead to a column; ``element``, ``key`` and ``value`` are those of a list or map."""


class UnsupportedTypeError(ValueError):
    """A format has no such type."""


def column_type(type_: pa.DataType, lake_format: LakeFormat) -> pa.DataType:
    """The type of the column that stores values of a type. Raises UnsupportedTypeError."""
    if kinds.is_dictionary(type_):
        return column_type(type_.value_type, lake_format)
    if kinds.is_string(type_) or kinds.is_large_string(type_) or kinds.is_string_view(type_):
        return pa.string()
    if is_bytes(type_):
        return pa.binary()
    if kinds.is_integer(type_):
        signed = _SIGNED_TYPES.get(type_, type_)
        return pa.int32() if lake_format == "iceberg" and signed in (pa.int8(), pa.int16()) else signed
    if kinds.is_floating(type_):
        return pa.float64() if kinds.is_float64(type_) else pa.float32()
    if kinds.is_timestamp(type_):
        return _NAIVE if type_.tz is None else TIMESTAMP
    if kinds.is_boolean(type_) or kinds.is_decimal128(type_):
        return type_
    if kinds.is_date(type_):
        return pa.date32()
    if kinds.is_list(type_) or kinds.is_large_list(type_):
        return pa.list_(pa.field("element", column_type(type_.value_type, lake_format)))
    if kinds.is_map(type_):
        return pa.map_(column_type(type_.key_type, lake_format), column_type(type_.item_type, lake_format))
    if kinds.is_struct(type_) and type_.num_fields:
        return pa.struct([pa.field(member.name, column_type(member.type, lake_format)) for member in type_])
    raise UnsupportedTypeError(format_type(type_))


def is_bytes(type_: pa.DataType) -> bool:
    """Whether a field has bytes."""
    return bool(kinds.is_binary(type_) or kinds.is_large_binary(type_) or kinds.is_fixed_size_binary(type_))


def event_columns(schema: Schema, lake_format: LakeFormat) -> pa.Schema:
    """The columns that store events with these flat fields. Raises UnsupportedTypeError."""
    return pa.schema([pa.field(one.name, column_type(one.type, lake_format)) for one in nested_schema(visible(schema))])


def bad_names(schema: Schema, lake_format: LakeFormat) -> Iterator[tuple[str, str]]:
    """Yield fields whose names cannot be those of columns, and the reason. Readers compare names without case."""
    spellings: dict[str, str] = {}
    for name in visible(schema).names:
        for prefix in itertools.accumulate(name.split("."), "{}.{}".format):
            other = spellings.setdefault(prefix.lower(), prefix)
            if other != prefix:
                which = "" if prefix == name else f"is in {prefix!r}, which "
                yield name, f"{which}differs from {other!r} in case only, and readers of tables compare names without case"
                break
        if lake_format == "delta" and (found := sorted(_DELTA_NAME_CHARACTERS & set(name))):
            yield name, f"has {found[0]!r} in its name, which Delta Lake does not accept"
        if not all(name.split(".")):
            yield name, "has an empty part in its name"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one column: its type before (None: the column is new) and after."""

    path: Path
    before: pa.DataType | None
    after: pa.DataType

    def __str__(self) -> str:
        name = ".".join(self.path)
        if self.before is None:
            return f"{name} ({format_type(self.after)})"
        return f"{name} ({format_type(self.before)} to {format_type(self.after)})"


@dataclass(slots=True)
class Evolution:
    """How a table has to change to store events, and what cannot be stored."""

    added: list[Change] = field(default_factory=list)
    widened: list[Change] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.added or self.widened)


def plan_evolution(table: pa.Schema, events: pa.Schema, lake_format: LakeFormat) -> Evolution:
    """Compare a table's columns with those that events need (`event_columns`)."""
    found = Evolution()
    _compare_members(found, (), list(table), list(events), lake_format)
    return found


def _compare_members(
    found: Evolution, path: Path, table: Sequence[pa.Field], events: Sequence[pa.Field], lake_format: LakeFormat
) -> None:
    known = {column.name: column for column in table}
    spellings = {name.lower(): name for name in known}
    for event_field in events:
        here = (*path, event_field.name)
        if event_field.name in known:
            _compare(found, here, known.pop(event_field.name).type, event_field.type, lake_format)
        elif (other := spellings.get(event_field.name.lower())) is not None:
            found.problems.append(f"the table has a column {other!r}, which differs from {'.'.join(here)!r} in case only")
        else:
            found.added.append(Change(here, None, event_field.type))
    for column in known.values():
        if not column.nullable:
            found.problems.append(
                f"events have no field for the column {'.'.join((*path, column.name))!r}, which must not be null"
            )


def _compare(found: Evolution, path: Path, table: pa.DataType, events: pa.DataType, lake_format: LakeFormat) -> None:
    if kinds.is_struct(table) and kinds.is_struct(events):
        _compare_members(found, path, list(table), list(events), lake_format)
    elif kinds.is_list(table) and kinds.is_list(events):
        _compare(found, (*path, "element"), table.value_type, events.value_type, lake_format)
    elif kinds.is_map(table) and kinds.is_map(events):
        _compare(found, (*path, "key"), table.key_type, events.key_type, lake_format)
        _compare(found, (*path, "value"), table.item_type, events.item_type, lake_format)
    elif table == events or is_wider(table, events):
        return
    elif lake_format == "iceberg" and _is_promotion(table, events):
        found.widened.append(Change(path, table, events))
    elif not (can_narrow(table, events) and not {"element", "key", "value"} & set(path)):
        name = ".".join(path)
        found.problems.append(
            f"the column {name!r} is {format_type(table)}, and the field is {format_type(events)}: "
            f"cast it in a step, such as {{type: set, fields: {{{name}: 'cast(`{name}` as {format_type(table)})'}}}}"
        )


def is_wider(table: pa.DataType, events: pa.DataType) -> bool:
    """Whether a column has each value that events of a type have."""
    if kinds.is_integer(table) and kinds.is_integer(events):
        return table.bit_width >= events.bit_width
    if kinds.is_float64(table):
        return kinds.is_floating(events) or (kinds.is_integer(events) and events.bit_width <= 32)
    if kinds.is_decimal(table) and kinds.is_decimal(events):
        return table.scale == events.scale and table.precision >= events.precision
    return False


def can_narrow(table: pa.DataType, events: pa.DataType) -> bool:
    """Whether values of a type are stored in a column if they fit: the others become dead letters."""
    return kinds.is_integer(events) and (kinds.is_integer(table) or kinds.is_float64(table))


def _is_promotion(table: pa.DataType, events: pa.DataType) -> bool:
    """Whether Iceberg lets a column become wider so (specification, "Schema Evolution")."""
    if (table, events) in ((pa.int32(), pa.int64()), (pa.float32(), pa.float64())):
        return True
    return kinds.is_decimal(table) and kinds.is_decimal(events) and is_wider(events, table)

"""``TYPEOF``: Flink's names of types, as far as values here have them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from etl.columns.python_values import scalar_to_python
from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.library.function import MONTHS, TIME, flink_function
from etl.expressions.library.kernels import constant
from etl.expressions.rows import ActiveRows, broadcast
from etl.expressions.widening import STRING

_NAMES = {
    pa.null(): "NULL", pa.bool_(): "BOOLEAN", pa.int8(): "TINYINT", pa.int16(): "SMALLINT", pa.int32(): "INT",
    pa.int64(): "BIGINT", pa.float32(): "FLOAT", pa.float64(): "DOUBLE", pa.string(): "STRING", pa.binary(): "BYTES",
    pa.date32(): "DATE", TIME: "TIME(0)", MONTHS: "INTERVAL MONTH", pa.duration("ms"): "INTERVAL SECOND(3)",
}  # fmt: skip


def _typeof(value: BoundNode, *more: BoundNode) -> BoundNode:
    """A constant that is not null is NOT NULL; nothing says so of fields."""
    known, found = _constant(value)
    precision = next((one.value for one in more if one.is_literal and not isinstance(one.value, bool)), 6)
    name = _name(value.type, precision, [found] if known and found is not None else [], value.is_literal)
    return b.literal(f"{name} NOT NULL" if known and found is not None else name, STRING)


def _constant(value: BoundNode) -> tuple[bool, Any]:
    """Whether a node reads no field, and then its value."""
    if value.is_literal or not value.constant or value.run is None:
        return constant(value)
    rows = ActiveRows({}, 1)
    found = broadcast(value.run(rows), 1)[0]
    return (False, None) if rows.failures else (True, scalar_to_python(found))


def _name(type_: pa.DataType, precision: int, values: list[Any], is_literal: bool = True) -> str:
    """The name of a type; ``values`` are all of its values where these are constants."""
    if type_ == STRING and values and is_literal:
        sizes = {len(one) for one in values if one is not None}
        return f"CHAR({sizes.pop()})" if len(sizes) == 1 else f"VARCHAR({max(sizes, default=0)})"
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision}, {type_.scale})"
    if pa.types.is_timestamp(type_):
        return f"TIMESTAMP({precision})"
    if pa.types.is_map(type_):
        pairs = [pair for one in values for pair in one or ()]
        keys, items = (
            _member(part, precision, [pair[at] for pair in pairs]) for at, part in enumerate((type_.key_type, type_.item_type))
        )
        return f"MAP<{keys}, {items}>"
    if pa.types.is_list(type_):
        return f"ARRAY<{_member(type_.value_type, precision, [item for one in values for item in one or ()])}>"
    if pa.types.is_struct(type_):
        members = (
            f"`{field.name}` {_member(field.type, precision, [one[field.name] for one in values if one is not None])}"
            for field in type_
        )
        return f"ROW<{', '.join(members)}>"
    return _NAMES.get(type_, str(type_).upper())


def _member(type_: pa.DataType, precision: int, values: list[Any]) -> str:
    name = _name(type_, precision, values)
    return f"{name} NOT NULL" if values and None not in values else name


FUNCTIONS = (
    flink_function(
        "typeof",
        "value: any, precision: any?, more: any?",
        "string",
        _typeof,
        "Flink's name of the type of a value; of fields it does not say whether they may be null. The precision is that of a "
        "timestamp.",
        "flink_typeof(1)",
        "INT NOT NULL",
        null="never",
    ),
)
"""Functions of types."""

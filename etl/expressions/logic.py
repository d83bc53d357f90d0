"""Three-valued logic, and the expressions whose branches Spark evaluates only for the rows that take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.arithmetic import compare
from etl.expressions.bound_node import BoundNode
from etl.expressions.casts import cast
from etl.expressions.rows import ActiveRows
from etl.expressions.widening import BOOLEAN, FLOATS, INTEGERS, NULL, STRING, common_type_of, is_decimal


def both(*parts: BoundNode) -> BoundNode:
    """``and``: a part is evaluated for rows in which no earlier part is false."""
    return _connect(parts, pc.and_kleene, undecided=lambda value: pc.fill_null(value, True))


def either(*parts: BoundNode) -> BoundNode:
    """``or``: a part is evaluated for rows in which no earlier part is true."""
    return _connect(parts, pc.or_kleene, undecided=lambda value: pc.invert(pc.fill_null(value, False)))


def _connect(parts: Sequence[BoundNode], kernel: Any, undecided: Any) -> BoundNode:
    runs = [part.run for part in parts if part.run is not None]
    fails = [part.fails for part in parts]

    def run(rows: ActiveRows) -> Any:
        value = runs[0](rows)
        for evaluate, narrow in zip(runs[1:], fails[1:], strict=True):
            value = kernel(value, evaluate(rows.narrow(undecided(value)) if narrow else rows))
        return value

    return b.lazily(BOOLEAN, run, *parts)


def negate(value: BoundNode) -> BoundNode:
    """``not``."""
    return b.apply(BOOLEAN, pc.invert, value)


def is_null(value: BoundNode) -> BoundNode:
    return b.apply(BOOLEAN, pc.is_null, value)


def same(left: BoundNode, right: BoundNode, type_: pa.DataType) -> BoundNode:
    """``<=>``: equal, or both null; never null itself."""
    if not is_decimal(type_):
        left, right = cast(left, type_), cast(right, type_)
    values = compare("=", _slot("left", left), _slot("right", right), type_)
    if values.run is None:
        return values
    equal = values.run

    def run(rows: ActiveRows) -> Any:
        assert left.run is not None
        assert right.run is not None
        x, y = left.run(rows), right.run(rows)
        pair = ActiveRows({"left": x, "right": y}, rows.length)
        return pc.if_else(pc.or_(pc.is_null(x), pc.is_null(y)), pc.and_(pc.is_null(x), pc.is_null(y)), equal(pair))

    return b.lazily(BOOLEAN, run, left, right)


def _slot(name: str, side: BoundNode) -> BoundNode:
    """A node that reads an operand already computed."""
    return replace(side, run=lambda rows: rows.columns[name], fails=False) if side.run else side


def one_of(value: BoundNode, items: Sequence[BoundNode]) -> BoundNode | None:
    """``in``; None if Spark refuses these types together."""
    type_ = common_type_of([value.type, *(item.type for item in items)])
    if type_ is None:
        return None
    if type_ in (*INTEGERS, STRING) and all(item.type in (*INTEGERS, NULL) or item.type == STRING == type_ for item in items):
        literals = [item.value for item in items if item.is_literal]
        if len(literals) == len(items):
            return b.apply(BOOLEAN, _membership(literals, type_), cast(value, type_))
    return either(*(compare("=", value, item, type_) for item in items))


def _membership(items: list[Any], type_: pa.DataType) -> Any:
    known = cache(lambda: pa.array([item for item in items if item is not None], type_))

    def contained(x: Any) -> Any:
        missing = pa.scalar(None if None in items else False, BOOLEAN)
        found = pc.is_in(x, value_set=known())
        return pc.if_else(pc.is_valid(x), pc.if_else(found, True, missing), pa.scalar(None, BOOLEAN))

    return contained


def case(conditions: Sequence[BoundNode], values: Sequence[BoundNode], default: BoundNode, type_: pa.DataType) -> BoundNode:
    """``case when``: the value of the first condition that is true."""
    results = [cast(value, type_) for value in (*values, default)]
    careful = any(part.fails for part in (*conditions, *results))

    def run(rows: ActiveRows) -> Any:
        masks: list[Any] = []
        chosen: list[Any] = []
        left = rows
        for condition, result in zip(conditions, results[:-1], strict=True):
            assert condition.run is not None
            assert result.run is not None
            mask = condition.run(left)
            masks.append(rows.to_mask(mask))
            chosen.append(result.run(left.narrow(mask) if careful else rows))
            left = left.narrow(pc.invert(masks[-1])) if careful else rows
        assert results[-1].run is not None
        chosen.append(results[-1].run(left))
        return pc.case_when(pc.make_struct(*masks, field_names=[str(n) for n in range(len(masks))]), *chosen)

    return b.lazily(type_, run, *conditions, *results)


def coalesce(parts: Sequence[BoundNode], type_: pa.DataType) -> BoundNode:
    """The first value that is not null; later ones are not evaluated."""
    parts = [cast(part, type_) for part in parts]

    careful = any(part.fails for part in parts[1:])

    def run(rows: ActiveRows) -> Any:
        values: list[Any] = []
        left = rows
        for part in parts:
            assert part.run is not None
            values.append(part.run(left))
            if careful:
                left = left.narrow(pc.is_null(values[-1]))
        return pc.coalesce(*values)

    return b.lazily(type_, run, *parts)


def is_nan(value: BoundNode) -> BoundNode:
    """``isnan``, which is false for null."""
    return b.apply(
        BOOLEAN, lambda x: pc.fill_null(pc.is_nan(x), False) if x.type in FLOATS else pc.and_(pc.is_valid(x), False), value
    )

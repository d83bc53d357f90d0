"""Binds operators and functions of bits: ``& | ^ ~``, ``shiftleft``, ``shiftright``, ``shiftrightunsigned``, ``bit_count``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.expressions import bound_node as b
from etl.expressions.bound_node import BoundNode
from etl.expressions.calls.arguments import no_arrow_form
from etl.expressions.casts import cast
from etl.expressions.rows import broadcast
from etl.expressions.widening import BOOLEAN, INT32, INT64, INTEGERS, NULL, common_type_of

Kernel = Callable[..., Any]

_KERNELS = {"&": pc.bit_wise_and, "|": pc.bit_wise_or, "^": pc.bit_wise_xor}


def combine(operator: str, left: BoundNode, right: BoundNode) -> BoundNode | None:
    """``left & right`` and the like of whole numbers; None for other types."""
    type_ = common_type_of([left.type, right.type])
    if type_ not in INTEGERS:
        return None
    return b.or_unknown(b.apply(type_, _KERNELS[operator], cast(left, type_), cast(right, type_)), left, right)


def invert(value: BoundNode) -> BoundNode | None:
    """``~value`` of a whole number; None for other types."""
    return b.apply(value.type, pc.bit_wise_not, value) if value.type in INTEGERS else None


def shift(kernel: Kernel) -> Callable[[BoundNode, BoundNode], BoundNode]:
    """A shift of an int or a bigint; as in Java only the low five or six bits of the distance count."""

    def build(value: BoundNode, distance: BoundNode) -> BoundNode:
        if value.type not in (*INTEGERS, NULL) or value.unknown or distance.type not in (*INTEGERS, NULL) or distance.unknown:
            return no_arrow_form("a shift of these", NULL)
        type_ = INT64 if value.type == INT64 else INT32
        return b.apply(type_, partial(_shift, kernel), cast(value, type_), cast(distance, INT32))

    return build


def _shift(kernel: Kernel, values: Any, distances: Any) -> Any:
    """Arrow's kernels shift by no more than the bits after the sign."""
    length = max(1 if isinstance(side, pa.Scalar) else len(side) for side in (values, distances))
    numbers, far = (broadcast(side, length) for side in (values, distances))
    low_bits = _integers(far).astype(_integers(numbers).dtype) & (numbers.type.bit_width - 1)
    valid = pc.and_(numbers.is_valid(), far.is_valid())
    shifted = pc.if_else(valid, pa.array(kernel(_integers(numbers), low_bits), numbers.type), pa.scalar(None, numbers.type))
    return shifted[0] if isinstance(values, pa.Scalar) and isinstance(distances, pa.Scalar) else shifted


def _integers(values: Any) -> Any:
    """The numbers as an array of numpy, 0 for null."""
    return pc.fill_null(values, 0).to_numpy(zero_copy_only=False)


def shift_left(values: Any, distances: Any) -> Any:
    return values << distances


def shift_right(values: Any, distances: Any) -> Any:
    """Shift right with copies of the sign from the left."""
    return values >> distances


def shift_unsigned(values: Any, distances: Any) -> Any:
    """Shift right with zeros from the left."""
    unsigned = f"u{values.dtype}"
    return (values.view(unsigned) >> distances.astype(unsigned)).view(values.dtype)


def bit_count(value: BoundNode) -> BoundNode:
    """The number of bits that are set; a negative number of any type counts as one of 64 bits."""
    if value.type not in (*INTEGERS, BOOLEAN):
        return no_arrow_form("bit_count() of this", INT32)
    return b.apply(INT32, _count_bits, cast(value, INT64))


def _count_bits(values: Any) -> Any:
    import numpy as np

    if isinstance(values, pa.Scalar):
        return _count_bits(broadcast(values, 1))[0]
    of_byte = np.array([number.bit_count() for number in range(256)], np.uint8)
    counts = of_byte[np.ascontiguousarray(_integers(values)).view(np.uint8)].reshape(-1, 8).sum(axis=1, dtype=np.int32)
    return pc.if_else(pc.is_valid(values), pa.array(counts, INT32), pa.scalar(None, INT32))

"""JSON texts of numbers and truth values → values, a whole column at once."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def scalars(raw: pa.StringArray, type_: pa.DataType) -> pa.Array | None:
    """The values of texts that are JSON numbers, ``true`` or ``false``; None where one of them is no plain value of the type.

    Such a column is left to Python, which knows that ``5.0`` is a whole number, and says what is wrong with the others.
    """
    if type_ == pa.bool_():
        known = pc.is_in(raw, pa.array(["true", "false", None]))
        return pc.equal(raw, "true") if pc.all(known, min_count=0).as_py() else None
    if not (pa.types.is_integer(type_) or type_ == pa.float64()):
        return None
    try:
        values = pc.cast(raw, type_)
    except pa.ArrowInvalid:
        return None
    odd = type_ == pa.float64() and pc.any(pc.invert(pc.is_finite(values)), min_count=0).as_py()
    return None if odd else values

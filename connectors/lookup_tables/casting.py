"""Texts of a table → the types of its columns."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def as_type(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """A column of texts as another type; null where a text is none of it. Fast where all are."""
    if type_ in (pa.string(), pa.null()):
        return texts
    trimmed = pc.utf8_trim_whitespace(texts)
    blank = pc.equal(trimmed, "")
    trimmed = pc.if_else(blank, None, trimmed)
    try:
        return trimmed.cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.array([_one(text, type_) for text in trimmed.to_pylist()], type_)  # only which one is wrong is not said


def _one(text: str | None, type_: pa.DataType) -> object:
    try:
        return None if text is None else pa.scalar(text).cast(type_).as_py()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None

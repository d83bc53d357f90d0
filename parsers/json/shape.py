"""Texts of JSON objects, prepared: what stands around an object is cut off, and what Arrow's reader takes wrongly is found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts, owned_array

if TYPE_CHECKING:
    from parsers.timestamp.instants import Bools

SPACE = "\ufeff \t\r\n"
"""Around an object; a byte order mark stands at the beginning of some files."""

_NUMBERS = r"[:\[,]\s*-?(NaN|Inf)"
"""What Arrow's reader takes for numbers, and JSON does not have."""


def shaped(texts: pa.Array, by_arrow: bool) -> tuple[pa.Array, Bools]:
    """Texts without what may stand around an object, and which are odd: no objects, or (``by_arrow``) not for Arrow's reader."""
    odd = ~_shape(texts)
    if odd.any():
        texts = pc.utf8_trim(owned_array(texts), SPACE)
        odd = ~_shape(texts)
    if by_arrow:
        odd |= misread(texts)
    return texts, odd


def misread(texts: pa.StringArray) -> Any:
    """Which texts Arrow's reader may cut short or take for numbers."""
    import numpy as np

    from parsers.json.span_kernel import MAYBE_NUMBER, NUL, suspicious

    found = Texts.of(texts)
    marks = np.empty(len(texts), np.uint8)
    suspicious(found.address, found.length, marks)
    odd = marks == NUL
    rows = np.flatnonzero(marks == MAYBE_NUMBER)
    if len(rows):
        odd[rows] |= pc.match_substring_regex(texts.take(pa.array(rows)), _NUMBERS).to_numpy(zero_copy_only=False)
    return odd


def _shape(texts: pa.Array) -> Bools:
    import numpy as np

    from parsers.json.span_kernel import braced

    found = Texts.of(texts)
    good = np.empty(len(texts), bool)
    braced(found.address, found.length, good)
    return good

"""Texts of JSON objects without the white space around, and the texts that Arrow's reader would misread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts, materialize_array

if TYPE_CHECKING:
    from parsers.timestamp.instants import Bools

SPACE = "\ufeff \t\r\n"
"""Characters around an object; some files begin with a byte order mark."""

_NUMBERS = r"[:\[,]\s*-?(NaN|Inf)"
"""Texts that Arrow's reader takes for numbers, and that are not JSON."""


def trim_objects(texts: pa.Array, by_arrow: bool) -> tuple[pa.Array, Bools]:
    """Texts without characters around an object, and which of them are odd: no objects, or (``by_arrow``) misread by Arrow."""
    odd = ~_has_braces(texts)
    if odd.any():
        texts = pc.utf8_trim(materialize_array(texts), SPACE)
        odd = ~_has_braces(texts)
    if by_arrow:
        odd |= find_misread(texts)
    return texts, odd


def find_misread(texts: pa.StringArray) -> Any:
    """The texts (bool[n]) that Arrow's reader would cut short, or in which it would find numbers that are none."""
    import numpy as np

    from parsers.json.value_kernel import MAYBE_NUMBER, NUL, mark_misread

    found = Texts.of(texts)
    marks = np.empty(len(texts), np.uint8)
    mark_misread(found.address, found.length, marks)
    odd = marks == NUL
    rows = np.flatnonzero(marks == MAYBE_NUMBER)
    if len(rows):
        odd[rows] |= pc.match_substring_regex(texts.take(pa.array(rows)), _NUMBERS).to_numpy(zero_copy_only=False)
    return odd


def _has_braces(texts: pa.Array) -> Bools:
    import numpy as np

    from parsers.json.value_kernel import has_braces

    found = Texts.of(texts)
    good = np.empty(len(texts), bool)
    has_braces(found.address, found.length, good)
    return good

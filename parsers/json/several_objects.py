"""Texts with several JSON objects → the first of each, and the others."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import Texts
from parsers.common.view_values import replace_rows
from parsers.json.object_texts import SPACE

_BETWEEN = re.compile(r"[ \t\r\n]*,?[ \t\r\n]*")
_SCAN: Any = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=str).scan_once  # type: ignore[attr-defined]


def split_objects(texts: pa.StringArray) -> tuple[pa.StringArray, pa.ListArray]:
    """The first object of each text, and the texts of the others; null where there are none.

    A kernel finds the texts with more than one value; Python splits these.
    """
    import numpy as np

    from parsers.json.value_kernel import first_ends

    found = Texts.of(texts)
    ends = np.empty(len(texts), np.int64)
    first_ends(found.address, found.length, ends)
    in_array = pc.fill_null(pc.starts_with(pc.utf8_ltrim(texts, SPACE), "["), False).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero((ends < found.length) | in_array)
    others: list[list[str] | None] = [None] * len(texts)
    firsts = []
    for row, text in zip(rows.tolist(), texts.take(pa.array(rows)).to_pylist(), strict=True):
        objects = split_text(text) or [text]
        firsts.append(objects[0])
        others[row] = objects[1:] or None
    more = pa.array(others, pa.list_(pa.string()))
    return replace_rows(texts, rows, pa.array(firsts, pa.string())) if firsts else texts, more


def split_text(text: str) -> list[str] | None:
    """The objects of a text, side by side or in one array, with commas between them or not; None when it is anything else."""
    text = text.strip(SPACE)
    listed = text.startswith("[")
    at, end = int(listed), len(text) - listed
    if listed and not text.endswith("]"):
        return None
    objects = []
    at = _BETWEEN.match(text, at).end()  # type: ignore[union-attr]
    while at < end:
        try:
            _, object_end = _SCAN(text, at)
        except (StopIteration, ValueError, RecursionError):
            return None
        if text[at] != "{" or object_end > end:
            return None
        objects.append(text[at:object_end])
        at = _BETWEEN.match(text, object_end).end()  # type: ignore[union-attr]
    return objects or None

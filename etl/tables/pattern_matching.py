"""Tests texts of a table's field against one pattern; the caller has selected the texts that contain one of its literals."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.columns.texts import materialize_array, take_rows
from etl.rules.search.backtracking import search_texts

log = logging.getLogger("sluice.tables")


def find_matching_rows(engine: str, pattern: str, texts: pa.Array, rows: Any) -> Any:
    """Return those of ``rows`` (int64[m]) whose text matches the pattern."""
    return rows[_ENGINES[engine](pattern, materialize_array(texts if len(rows) == len(texts) else take_rows(texts, rows)))]


def _match_re2(pattern: str, texts: pa.Array) -> Any:
    """Match with RE2, in time linear in the length of the texts; it compiles the pattern at each call (20 to 50 µs)."""
    return pc.fill_null(pc.match_substring_regex(texts, pattern), False).to_numpy(zero_copy_only=False)


def _match_regex(pattern: str, texts: pa.Array) -> Any:
    """Match patterns with look-around or back-references: by backtracking, with a Python call for each text."""
    values = (text.as_py() for text in texts.cast(pa.large_binary()))
    decoded = (None if value is None else value.decode("utf-8", "replace") for value in values)
    return np.fromiter(search_texts(pattern, decoded, log), np.bool_, len(texts))


_ENGINES: dict[str, Callable[[str, pa.Array], Any]] = {"re2": _match_re2, "regex": _match_regex}

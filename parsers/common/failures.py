"""Rows of a column that fail, each with its first reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Parsed
from etl.columns.text_layout import boolean_values
from etl.columns.texts import materialize_array
from parsers.common.view_values import null_where

if TYPE_CHECKING:
    import numpy as np

    Bools = np.ndarray[Any, Any]

SHOWN_CHARACTERS = 100
"""Characters of a wrong value that its reason shows."""


class Failures:
    """Collects the rows of one column that fail; a row keeps its first reason."""

    def __init__(self, unmatched: pa.BooleanArray | None, reason: str) -> None:
        """``unmatched`` are the rows that fail from the start, all for ``reason``."""
        self._failed = None if unmatched is None else boolean_values(unmatched)
        self._reasons: Any = reason
        self._blank = False

    def add(self, wrong: Bools, reasons: pa.StringArray) -> None:
        """Rows (bool[n]) that fail, and a reason for each row of the column."""
        if not wrong.any():
            return
        self._reasons = reasons if self._failed is None else pc.if_else(pa.array(self._failed), self._reasons, reasons)
        self._failed = wrong if self._failed is None else self._failed | wrong
        self._blank = True

    def to_parsed(self, columns: Mapping[str, pa.Array]) -> Parsed:
        """The columns, null in the rows that failed."""
        if self._failed is None:
            return Parsed(columns)
        if self._blank:
            columns = {name: null_where(column, self._failed) for name, column in columns.items()}
        return Parsed(columns, pa.array(self._failed), self._reasons)


def wrong_values(field: str, texts: pa.Array, wrong: Bools, expected: str) -> pa.StringArray:
    """``field 'port' is 'http', not int`` for the wrong rows, null for the others."""
    shown = null_where(texts, ~wrong) if texts.type == pa.string_view() else pc.if_else(pa.array(wrong), texts, None)
    shown = pc.utf8_slice_codeunits(materialize_array(shown).cast(pa.string()), 0, SHOWN_CHARACTERS)
    return pc.binary_join_element_wise(f"field {field!r} is '", shown, f"', not {expected}", "")

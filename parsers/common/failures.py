"""Rows of a column that cannot be read, each with the first reason that was found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Parsed
from etl.columns.texts import owned_array
from parsers.common.view_values import null_where, truth

if TYPE_CHECKING:
    import numpy as np

    Bools = np.ndarray[Any, Any]

SHOWN_CHARACTERS = 100
"""Of a wrong value, in the reason."""


class Failures:
    """Collects what is wrong with the rows of one column; a row keeps its first reason."""

    def __init__(self, unmatched: pa.BooleanArray | None, reason: str) -> None:
        """``unmatched`` are rows that have failed already, all for one reason."""
        self._failed = None if unmatched is None else truth(unmatched)
        self._reasons: Any = reason
        self._blank = False

    def add(self, wrong: Bools, reasons: pa.StringArray) -> None:
        """Rows (bool[n]) that failed, with a reason for each of the column's rows."""
        if not wrong.any():
            return
        self._reasons = reasons if self._failed is None else pc.if_else(pa.array(self._failed), self._reasons, reasons)
        self._failed = wrong if self._failed is None else self._failed | wrong
        self._blank = True

    def parsed(self, columns: Mapping[str, pa.Array]) -> Parsed:
        """The columns, null in the rows that failed."""
        if self._failed is None:
            return Parsed(columns)
        if self._blank:
            columns = {name: null_where(column, self._failed) for name, column in columns.items()}
        return Parsed(columns, pa.array(self._failed), self._reasons)


def wrong_values(field: str, texts: pa.Array, wrong: Bools, expected: str) -> pa.StringArray:
    """``field 'port' is 'http', not int`` for the wrong rows, null for the others."""
    shown = null_where(texts, ~wrong) if texts.type == pa.string_view() else pc.if_else(pa.array(wrong), texts, None)
    shown = pc.utf8_slice_codeunits(owned_array(shown).cast(pa.string()), 0, SHOWN_CHARACTERS)
    return pc.binary_join_element_wise(f"field {field!r} is '", shown, f"', not {expected}", "")

"""The columns of a batch as predicates read them: texts, and the row of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.rules.conditions.column_types import TEXT_TYPES, is_list_type


@dataclass
class Column:
    """A column of a batch."""

    array: pa.Array

    @cached_property
    def values(self) -> pa.Array:
        """Its values as texts, numbers and booleans as in JSON; of lists the items."""
        array = self.array.flatten() if is_list_type(self.array.type) else self.array
        return array if array.type in TEXT_TYPES else array.cast(pa.string())

    @cached_property
    def rows(self) -> Any:
        """int64[n]: the row of each value."""
        if is_list_type(self.array.type):
            sizes = pc.fill_null(pc.list_value_length(self.array), 0)  # `flatten` leaves out the items of null rows
            return np.repeat(np.arange(len(self.array)), sizes.to_numpy(zero_copy_only=False))
        return np.arange(len(self.array))

    def values_in(self, rows: Any) -> Any:
        """The indexes of the values of some rows (int64[m])."""
        return np.flatnonzero(np.isin(self.rows, rows)) if is_list_type(self.array.type) else rows

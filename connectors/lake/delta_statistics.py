"""Statistics of a data file for the log of Delta Lake, by which readers skip files (protocol, "Per-file Statistics")."""

from __future__ import annotations

import json
import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

MAX_COLUMNS = 32
"""Columns with statistics, as other writers of Delta Lake do (``delta.dataSkippingNumIndexedCols``)."""

MAX_TEXT = 32
"""Characters of a text in statistics."""

_LAST_CHARACTER = "\U0010ffff"
"""Stands after a shortened greatest text, so that it is not smaller than the text."""


def file_statistics(metadata: Any) -> str:
    """The statistics of a Parquet file as JSON: rows, and of the first columns smallest and greatest value and nulls.

    Floats have only their nulls: Parquet leaves NaN out, and in Spark NaN is greater than all numbers.
    """
    minimums: dict[str, Any] = {}
    maximums: dict[str, Any] = {}
    nulls: dict[str, Any] = {}
    columns = [number for number in range(metadata.num_columns) if _is_single(metadata.schema.column(number))]
    for number in columns[:MAX_COLUMNS]:
        path = metadata.schema.column(number).path.split(".")
        groups = [metadata.row_group(group).column(number).statistics for group in range(metadata.num_row_groups)]
        if any(group is None or not group.has_null_count for group in groups):
            continue
        _put(nulls, path, sum(group.null_count for group in groups))
        filled = [group for group in groups if group.has_min_max]
        empty = [group for group in groups if not group.num_values]
        if not filled or len(filled) + len([one for one in empty if one not in filled]) < len(groups):
            continue
        low = _lower_bound(min(group.min for group in filled))
        high = _upper_bound(max(group.max for group in filled))
        if low is not None and high is not None:
            _put(minimums, path, low)
            _put(maximums, path, high)
    found = {"numRecords": metadata.num_rows, "minValues": minimums, "maxValues": maximums, "nullCount": nulls}
    return json.dumps(found, ensure_ascii=False, separators=(",", ":"))


def _is_single(column: Any) -> bool:
    """Whether a row has one value of the column: it is in no list and no map."""
    return column.max_repetition_level == 0


def _put(tree: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = value


def _lower_bound(value: Any) -> Any:
    return value[:MAX_TEXT] if isinstance(value, str) else _plain(value)


def _upper_bound(value: Any) -> Any:
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else value[:MAX_TEXT] + _LAST_CHARACTER
    return _plain(value)


def _plain(value: Any) -> Any:
    """A value in JSON; None if it has no statistics."""
    if isinstance(value, bool | bytes | float) or (isinstance(value, Decimal) and not math.isfinite(value)):
        return None
    if isinstance(value, datetime):
        return value.isoformat(timespec="microseconds").replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return float(value) if float(value) == value else None
    return value if isinstance(value, int) else None

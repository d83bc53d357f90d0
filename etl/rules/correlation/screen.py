"""Telling groups in which a correlation may be met from those in which it cannot be, for many groups at once.

What is told is never less than what is so: a place that is no suspect gives no alert.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import ceil, floor
from typing import Any

import numpy as np

from etl.rules.correlation.columns import Columns
from etl.rules.correlation.model import ORDER, Correlation, Kind, Threshold
from etl.rules.correlation.reader import MOST_EVENTS
from etl.rules.correlation.windows import settled_events

_ROUNDED = 1 + 1e-9
"""What a sum in another order may be larger."""

_DISTINCT: Mapping[str, tuple[Kind, ...]] = {"value": ("value_count",), "rule": ("temporal", ORDER)}
"""Columns, and the kinds that need several values of them."""


def suspects(columns: Columns, watermark: int) -> Any:
    """Places that may give an alert now, or remember too much, bool[places]."""
    rising = columns.each(lambda one: one.rising)
    found = np.where(rising, _dense(columns), _ended(columns, watermark))
    for name, kinds in _DISTINCT.items():
        asked = rising & columns.each(partial(_is, kinds=kinds))
        found &= ~asked | _various(columns, found & asked, name)
    asked = rising & columns.each(partial(_is, kinds=("value_sum",)))
    found &= ~asked | _large(columns, found & asked)
    return found | (columns.sizes > MOST_EVENTS)


def _is(one: Correlation, kinds: Sequence[Kind]) -> bool:
    return one.kind in kinds


def kept(columns: Columns, watermark: int) -> Any:
    """Rows that still count where no alert is given, bool[n]: as `correlation_windows` forgets."""
    place, rising = columns.place, columns.each(lambda one: one.rising)[columns.place]
    young = ~rising | (columns.micros > watermark - _spans(columns)[place])
    old = young & (columns.micros < watermark)
    number = np.arange(len(place)) - columns.starts[place] - np.bincount(place[~young], minlength=len(columns.sizes))[place]
    past = np.bincount(place[old], minlength=len(columns.sizes))
    return young & (~old | (number >= (past - columns.each(settled_events))[place]))


def ends(columns: Columns, rows: Any) -> Iterator[tuple[bool, int]]:
    """Of these rows (bool[n]) the end of the first window that closes, and when no window holds any of the others."""
    times = columns.micros + _spans(columns)[columns.place]
    rising = columns.each(lambda one: one.rising)[columns.place]
    if (closing := rows & ~rising).any():
        yield False, int(times[closing].min())
    if (others := rows & rising).any():
        yield True, int(times[others].max())


def _spans(columns: Columns) -> Any:
    return columns.each(lambda one: one.span_micros)


def _dense(columns: Columns) -> Any:
    """Places with a window that has enough events."""
    at = np.arange(len(columns.place))
    back = at - columns.each(_needed)[columns.place] + 1
    inside = back >= columns.starts[columns.place]
    near = columns.micros[np.maximum(back, 0)] > columns.micros - _spans(columns)[columns.place]
    return np.bincount(columns.place[inside & near], minlength=len(columns.sizes)) > 0


def _ended(columns: Columns, watermark: int) -> Any:
    """Places whose first window has closed."""
    return columns.micros[columns.starts[:-1]] + _spans(columns) <= watermark


def _various(columns: Columns, places: Any, name: str) -> Any:
    """Of some places those with enough distinct values, in whatever time."""
    rows = places[columns.place]
    if not rows.any():
        return places
    codes = columns.codes(name)
    width = codes.max() + 1
    pairs = np.unique(columns.place[rows] * width + codes[rows])
    return np.bincount(pairs // width, minlength=len(columns.sizes)) >= columns.each(_needed_values)


def _large(columns: Columns, places: Any) -> Any:
    """Of some places those whose positive values make enough, in whatever time."""
    rows = places[columns.place]
    if not rows.any():
        return places
    texts = columns.rows(rows).column("value").to_numpy()
    totals = np.bincount(columns.place[rows], np.maximum(texts.astype(float), 0), len(columns.sizes))
    return totals * _ROUNDED >= columns.each(_number)


def _needed(one: Correlation) -> int:
    """Events that a window needs at least to meet a condition that rises."""
    if one.kind == ORDER:
        return len(one.rules)
    return _least(one) if one.kind != "value_sum" else 1


def _needed_values(one: Correlation) -> int:
    return len(set(one.rules)) if one.kind == ORDER else _least(one)


def _least(one: Correlation) -> int:
    if not isinstance(one.condition, Threshold):
        return 1
    number = one.condition.number
    return max(1, floor(number) + 1 if one.condition.operator == "gt" else ceil(number))


def _number(one: Correlation) -> float:
    return one.condition.number if isinstance(one.condition, Threshold) else 0.0

"""Screening many groups at once for those that may give an alert.

Invariant: every group that gives an alert is selected; a selected group may give none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import ceil, floor
from typing import Any

import numpy as np

from etl.rules.correlation.columns import EventColumns
from etl.rules.correlation.model import ORDER, Correlation, Kind, Threshold
from etl.rules.correlation.reader import MAX_EVENTS
from etl.rules.correlation.windows import relevant_settled_events

_ROUNDED = 1 + 1e-9
"""Factor for rounding errors of a sum in another order."""

_DISTINCT: Mapping[str, tuple[Kind, ...]] = {"value": ("value_count",), "rule": ("temporal", ORDER)}
"""EventColumns, and the kinds of correlations that need several distinct values of them."""


def may_alert(columns: EventColumns, watermark: int) -> Any:
    """bool[slots]: which slots may give an alert now, or hold too many events."""
    monotonic = columns.per_member(lambda one: one.is_monotonic)
    found = np.where(monotonic, _dense(columns), _has_ended(columns, watermark))
    for name, kinds in _DISTINCT.items():
        checked = monotonic & columns.per_member(partial(_has_kind, kinds=kinds))
        found &= ~checked | _various(columns, found & checked, name)
    checked = monotonic & columns.per_member(partial(_has_kind, kinds=("value_sum",)))
    found &= ~checked | _large(columns, found & checked)
    return found | (columns.sizes > MAX_EVENTS)


def _has_kind(one: Correlation, kinds: Sequence[Kind]) -> bool:
    return one.kind in kinds


def rows_to_keep(columns: EventColumns, watermark: int) -> Any:
    """bool[n]: which rows still matter in slots without an alert, as in `windows`."""
    slot, monotonic = columns.slot, columns.per_member(lambda one: one.is_monotonic)[columns.slot]
    young = ~monotonic | (columns.micros > watermark - _spans(columns)[slot])
    old = young & (columns.micros < watermark)
    number = np.arange(len(slot)) - columns.starts[slot] - np.bincount(slot[~young], minlength=len(columns.sizes))[slot]
    past = np.bincount(slot[old], minlength=len(columns.sizes))
    return young & (~old | (number >= (past - columns.per_member(relevant_settled_events))[slot]))


def deadlines(columns: EventColumns, rows: Any) -> Iterator[tuple[bool, int]]:
    """For these rows (bool[n]), the end of the first window that closes, and the time at which no window contains the others.

    Yields whether the conditions are monotonic, and the watermark.
    """
    times = columns.micros + _spans(columns)[columns.slot]
    monotonic = columns.per_member(lambda one: one.is_monotonic)[columns.slot]
    if (closing := rows & ~monotonic).any():
        yield False, int(times[closing].min())
    if (others := rows & monotonic).any():
        yield True, int(times[others].max())


def _spans(columns: EventColumns) -> Any:
    return columns.per_member(lambda one: one.span_micros)


def _dense(columns: EventColumns) -> Any:
    """Slots with a window of enough events."""
    at = np.arange(len(columns.slot))
    back = at - columns.per_member(_min_events)[columns.slot] + 1
    inside = back >= columns.starts[columns.slot]
    near = columns.micros[np.maximum(back, 0)] > columns.micros - _spans(columns)[columns.slot]
    return np.bincount(columns.slot[inside & near], minlength=len(columns.sizes)) > 0


def _has_ended(columns: EventColumns, watermark: int) -> Any:
    """Slots whose first window has closed."""
    return columns.micros[columns.starts[:-1]] + _spans(columns) <= watermark


def _various(columns: EventColumns, slots: Any, name: str) -> Any:
    """Those of some slots with enough distinct values, at any times."""
    rows = slots[columns.slot]
    if not rows.any():
        return slots
    codes = columns.codes(name)
    width = codes.max() + 1
    pairs = np.unique(columns.slot[rows] * width + codes[rows])
    return np.bincount(pairs // width, minlength=len(columns.sizes)) >= columns.per_member(_needed_values)


def _large(columns: EventColumns, slots: Any) -> Any:
    """Those of some slots whose positive values have a sufficient sum, at any times."""
    rows = slots[columns.slot]
    if not rows.any():
        return slots
    texts = columns.rows(rows).column("value").to_numpy()
    totals = np.bincount(columns.slot[rows], np.maximum(texts.astype(float), 0), len(columns.sizes))
    return totals * _ROUNDED >= columns.per_member(_number)


def _min_events(one: Correlation) -> int:
    """The minimum number of events with which a window can meet a monotonic condition."""
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

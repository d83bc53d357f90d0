"""Functions over the frames of sorted rows: ranks, values of other rows, sums, extremes, and any aggregate."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import OFFSET
from etl.state.aggregates import Accumulator, finish, group, lift
from etl.state.aggregates.accumulator import Numbers
from etl.state.aggregates.lists import order_keys
from etl.state.over.sorted_rows import SortedRows

EXPANDED_ROWS = 1 << 20
"""Maximum number of rows of several frames that an aggregate merges at once; one frame may have more."""

_FRAME = "\0frame"


def rank(name: str, rows: SortedRows) -> pa.Array:
    """``row_number``, ``rank``, ``dense_rank``, ``percent_rank`` or ``cume_dist`` of sorted rows."""
    size = rows.end - rows.first
    if name == "row_number":
        return pa.array(rows.positions - rows.first + 1)
    if name == "rank":
        return pa.array(rows.peer - rows.first + 1)
    if name == "dense_rank":
        number = np.cumsum(rows.peer == rows.positions)
        return pa.array(number - number[rows.first] + 1)
    if name == "percent_rank":
        return pa.array((rows.peer - rows.first) / np.maximum(size - 1, 1))
    return pa.array((rows.peer_end - rows.first) / size)


def ntile(groups: int, rows: SortedRows) -> pa.Array:
    """The number of the group of each row; the first groups have a row more where they are not equal."""
    at, size = rows.positions - rows.first, rows.end - rows.first
    small, larger = size // groups, size % groups
    border = larger * (small + 1)
    return pa.array(np.where(at < border, at // (small + 1), larger + (at - border) // np.maximum(small, 1)) + 1)


def neighbour(values: pa.Array, distance: int, default: pa.Array | None, rows: SortedRows) -> pa.Array:
    """The value of the row so far after each, the default where there is none."""
    at = rows.positions + distance
    inside = (at >= rows.first) & (at < rows.end)
    found = values.take(pa.array(np.where(inside, at, 0), mask=~inside))
    return found if default is None else pc.if_else(pa.array(inside), found, default)


def nth(values: pa.Array, number: int, low: Numbers, high: Numbers) -> pa.Array:
    """The value of the row with this number in each frame."""
    at = low + number - 1
    return values.take(pa.array(np.where(at < high, at, 0), mask=at >= high))


def count(valid: Numbers, low: Numbers, high: Numbers) -> Numbers:
    """int64[rows]: how many rows of each frame are valid."""
    before = np.concatenate(([0], np.cumsum(valid)))
    return before[high] - before[low]


def first_or_last(values: pa.Array, last: bool, low: Numbers, high: Numbers) -> pa.Array:
    """The first or the last value of each frame that is not null."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    size = len(valid)
    if last:
        latest = np.maximum.accumulate(np.where(valid, np.arange(size), -1))
        found = np.where(high > 0, latest[np.maximum(high, 1) - 1], -1) if size else low
        missing = found < low
    else:
        next_ = np.append(np.minimum.accumulate(np.where(valid, np.arange(size), size)[::-1])[::-1], size)
        found = next_[low]
        missing = found >= high
    missing |= low >= high
    return values.take(pa.array(np.where(missing, 0, found), mask=missing))


def extreme(values: pa.Array, greatest: bool, low: Numbers, high: Numbers) -> pa.Array:
    """The smallest or the greatest value of each frame; takes memory for the logarithm of the longest frame."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    keys = np.where(valid, ~order_keys(values) if greatest else order_keys(values), np.iinfo(np.int64).max)
    length = high - low
    best = np.arange(len(keys))
    found = np.zeros(len(keys), np.int64)
    width = 1
    while len(keys):
        chosen = (length >= width) & (length < 2 * width)
        found[chosen] = _better(keys, best[low[chosen]], best[high[chosen] - width])
        if not (length >= 2 * width).any():
            break
        best = _better(keys, best[:-width], best[width:])
        width *= 2
    missing = count(valid, low, high) == 0
    return values.take(pa.array(np.where(missing, 0, found), mask=missing))


def _better(keys: Numbers, one: Numbers, other: Numbers) -> Numbers:
    found: Numbers = np.where(keys[other] < keys[one], other, one)
    return found


def total(values: pa.Array, rows: SortedRows, low: Numbers, high: Numbers) -> tuple[Numbers, Numbers]:
    """The sum of each frame, and the number of its values; those of whole numbers are computed modulo 2^64."""
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    counts = count(valid, low, high)
    if not pa.types.is_floating(values.type):
        numbers = values.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
        before = np.concatenate(([0], np.cumsum(numbers)))
        return before[high] - before[low], counts
    numbers = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    sums = _float_sums(np.where(np.isfinite(numbers), numbers, 0.0), rows, low, high)
    infinite = [count(numbers == sign, low, high) > 0 for sign in (np.inf, -np.inf)]
    sums = np.where(infinite[0], np.inf, np.where(infinite[1], -np.inf, sums))
    return np.where((count(np.isnan(numbers), low, high) > 0) | (infinite[0] & infinite[1]), np.nan, sums), counts


def _float_sums(numbers: Numbers, rows: SortedRows, low: Numbers, high: Numbers) -> Numbers:
    """Sums of finite numbers: frames from the first row of a key on are added in their order."""
    running = np.cumsum(numbers)
    if len(numbers) and (rows.first != 0).any():
        running = np.concatenate([np.cumsum(part) for part in np.split(numbers, np.flatnonzero(np.diff(rows.first)) + 1)])
    until = np.where(high > low, running[np.maximum(high, 1) - 1], 0.0)
    return until - np.where(low > rows.first, running[np.maximum(low, 1) - 1], 0.0)


def aggregate(events: pa.RecordBatch, accumulator: Accumulator, type_: pa.DataType, low: Numbers, high: Numbers) -> pa.Array:
    """Any aggregate of the frames of sorted rows; equal frames are computed once. Each frame costs as much as it has rows."""
    frames, numbers = np.unique(np.stack([low, high]), axis=1, return_inverse=True)
    numbers = numbers.reshape(-1)
    events = events.append_column(OFFSET, pa.array(np.arange(events.num_rows)))
    lifted = pa.table(lift(events, {"x": accumulator}))
    found: list[tuple[Numbers, pa.Array]] = []
    for chosen in _chunks(frames[1] - frames[0]):
        lows, lengths = frames[0][chosen], frames[1][chosen] - frames[0][chosen]
        ids = np.repeat(chosen, lengths)
        within = np.arange(len(ids)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        rows = lifted.take(pa.array(np.repeat(lows, lengths) + within)).append_column(_FRAME, pa.array(ids))
        merged = group(rows, [_FRAME], {"x": accumulator})
        found.append((merged.column(_FRAME).to_numpy(), finish(merged, {"x": accumulator})["x"]))
    at = np.full(frames.shape[1], -1)
    ids = np.concatenate([one for one, _ in found]) if found else np.zeros(0, np.int64)
    at[ids] = np.arange(len(ids))
    results = pa.concat_arrays([one.cast(type_) for _, one in found]) if found else pa.nulls(0, type_)
    return results.take(pa.array(at[numbers], mask=at[numbers] < 0))


def _chunks(lengths: Numbers) -> Iterator[Numbers]:
    """The numbers of frames that are merged together."""
    chunk = np.cumsum(lengths) // EXPANDED_ROWS
    for part in np.split(np.arange(len(lengths)), np.flatnonzero(np.diff(chunk)) + 1):
        if lengths[part].any():
            yield part


Function = Callable[[pa.RecordBatch, SortedRows, Numbers, Numbers], pa.Array]
"""A function of sorted events, and of the frames of each."""

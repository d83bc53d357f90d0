"""Groups of rows with equal keys, whose partial results are merged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import FAILED, Rejects
from etl.state.aggregates.accumulator import Accumulator, FailedRowsError, FinishesOrFails, Grouping, LiftsGroups, Numbers
from etl.state.aggregates.group_keys import canonical, gather, scatter
from etl.state.aggregates.rates import PerSecond
from etl.state.key_hash import key_hashes, new_seed

EVENT_FAILED = "aggregate-failed"
"""The code of events for which an aggregate cannot be computed."""

_ROW, _FIRST, _ALL = "\0row", "\0first", "\0all"

_SEED = new_seed()
"""Of hashes that are compared within this process."""


def column_names(accumulators: Mapping[str, Accumulator]) -> list[str]:
    """The names of the columns of partial results."""
    return [f"{name}\0{number}" for name, one in accumulators.items() for number in range(len(one.types))]


def lift(
    batch: pa.RecordBatch, accumulators: Mapping[str, Accumulator], groups: Mapping[str, pa.Array] | None = None
) -> dict[str, pa.Array]:
    """One partial result per event, by column name. Of events that are equal in the columns ``groups``, which are merged in any
    case, one may have that of all of them. Raises FailedRowsError."""
    columns: list[pa.Array] = []
    grouping: Grouping | None = None
    for one in accumulators.values():
        if groups and isinstance(one, LiftsGroups):
            grouping = grouping or group_rows(pa.table(dict(groups)), list(groups))
            columns += one.lift_groups(batch, grouping)
        else:
            columns += one.lift(batch)
    return dict(zip(column_names(accumulators), columns, strict=True))


def lift_or_reject(
    batch: pa.RecordBatch, accumulators: Mapping[str, Accumulator], groups: Mapping[str, pa.Array]
) -> tuple[pa.Table, list[Rejects]]:
    """The columns ``groups`` and one partial result per event, without the events for which an aggregate fails."""
    rejects: list[Rejects] = []
    while True:
        try:
            return pa.table({**groups, **lift(batch, accumulators, groups)}), rejects
        except FailedRowsError as error:
            passes, rejected = split_failed_rows(batch, error)
            rejects.append(rejected)
            batch = batch.filter(passes)
            groups = {name: column.filter(passes) for name, column in groups.items()}


def split_failed_rows(batch: pa.RecordBatch, error: FailedRowsError) -> tuple[pa.BooleanArray, Rejects]:
    """Which events pass, and those for which an aggregate cannot be computed."""
    rows = sorted(error.reasons)
    reasons = pa.array([error.reasons[row] for row in rows], pa.string())
    passes = np.ones(batch.num_rows, bool)
    passes[rows] = False
    return pa.array(passes), Rejects(batch.take(pa.array(rows, pa.int64())), EVENT_FAILED, reasons)


def finish(groups: pa.Table, accumulators: Mapping[str, Accumulator]) -> dict[str, pa.Array]:
    """The results of the partial results of `group`, by the name of the aggregate; rates as those of a second."""
    return {name: one.finish(_partials(groups, name, one)) for name, one in accumulators.items()}


def finish_or_fail(groups: pa.Table, accumulators: Mapping[str, Accumulator]) -> dict[str, pa.Array]:
    """The same, with the column `etl.api.FAILED` where a result cannot be computed."""
    results, failures = dict[str, pa.Array](), dict[int, str]()
    for name, one in accumulators.items():
        partials = _partials(groups, name, one)
        if isinstance(one, FinishesOrFails):
            results[name], failed = one.finish_or_fail(partials)
            failures = failed | failures
        else:
            results[name] = one.finish(partials)
    if failures:
        results[FAILED] = pa.array([failures.get(row) for row in range(len(groups))], pa.string())
    return results


def _partials(groups: pa.Table, name: str, accumulator: Accumulator) -> list[pa.Array]:
    return [_whole(groups.column(f"{name}\0{number}")) for number in range(len(accumulator.types))]


def divide_rates(
    results: Mapping[str, pa.Array], accumulators: Mapping[str, Accumulator], lengths: Numbers
) -> dict[str, pa.Array]:
    """Results with rates of their windows, whose ``lengths`` are int64[groups], in microseconds."""
    rates = {name: one for name, one in accumulators.items() if isinstance(one, PerSecond)}
    return {name: rates[name].divide(found, lengths) if name in rates else found for name, found in results.items()}


def group(table: pa.Table, keys: Sequence[str], accumulators: Mapping[str, Accumulator]) -> pa.Table:
    """Merge the partial results of rows with equal keys; result: the keys, then the columns of partial results.

    Null is a key of its own, NaN is one key, and -0.0 is the key 0.0; lists and structs are compared by a hash of 128 bits.
    Without keys all rows are one group, and a table without rows has none. One thread; what ``functions`` merge needs one pass of
    pyarrow's group_by.
    """
    names = column_names(accumulators)
    functions = {column: function for column, function in zip(names, _functions(accumulators), strict=True) if function}
    slow = [name for name, one in accumulators.items() if one.functions is None]
    grouped = _aggregate(table, keys, functions, rows=bool(slow))
    found = {name: _restore(grouped, name, table) for name in keys}
    found |= {name: grouped.column(f"{name}_{function}") for name, function in functions.items()}
    grouping = _grouping(grouped.column(f"{_ROW}_list")) if slow else None
    for name in slow:
        assert grouping is not None
        parts = [f"{name}\0{number}" for number in range(len(accumulators[name].types))]
        merged = accumulators[name].merge(grouping, [_whole(table.column(part)) for part in parts])
        found |= dict(zip(parts, merged, strict=True))
    return pa.table({name: found[name] for name in (*keys, *names)})


def group_rows(table: pa.Table, keys: Sequence[str]) -> Grouping:
    """The rows of each group of equal keys."""
    return _grouping(_aggregate(table, keys, {}, rows=True).column(f"{_ROW}_list"))


def _aggregate(table: pa.Table, keys: Sequence[str], functions: Mapping[str, str], rows: bool) -> pa.Table:
    """A row per group: the keys, the results of functions by column, and the list of its row numbers if ``rows``."""
    columns = {name: _key(table.column(name)) for name in keys} | {name: table.column(name) for name in functions}
    if not keys:
        columns[_ALL] = pa.array(np.zeros(len(table), np.int8))
    if rows:
        columns[_ROW] = pa.array(np.arange(len(table)))
    if any(pa.types.is_nested(table.schema.field(name).type) for name in keys):
        columns[_FIRST] = pa.array(np.arange(len(table)))
    aggregations = [*functions.items(), *([(_ROW, "list")] if rows else []), *([(_FIRST, "min")] if _FIRST in columns else [])]
    return pa.table(columns).group_by(list(keys) or [_ALL], use_threads=False).aggregate(aggregations)


def _functions(accumulators: Mapping[str, Accumulator]) -> list[str | None]:
    """The function that merges each column, None for columns that `Accumulator.merge` merges."""
    return [function for one in accumulators.values() for function in (one.functions or [None] * len(one.types))]


def _grouping(rows: pa.ChunkedArray) -> Grouping:
    lists = _whole(rows)
    return Grouping(lists.flatten().to_numpy(), lists.offsets.to_numpy().astype(np.int64))


def _key(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """A key whose equal values have the same bits; `_restore` gives back its values."""
    if pa.types.is_nested(column.type):
        halves = np.ascontiguousarray(key_hashes(pa.table({"key": column}), ["key"], _SEED).T)
        return pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(column), [None, pa.py_buffer(halves)])
    if column.type == pa.string_view():
        return column.cast(pa.string())
    if not pa.types.is_floating(column.type):
        return column
    doubles = canonical(_whole(column).cast(pa.float64()))
    return pc.if_else(doubles.is_valid(), scatter(doubles.fill_null(0.0)), pa.scalar(None, pa.uint64()))


def _restore(grouped: pa.Table, name: str, table: pa.Table) -> pa.ChunkedArray | pa.Array:
    """The values of a key of groups of a table's rows; of a list or struct that of the group's first row."""
    key, type_ = grouped.column(name), table.schema.field(name).type
    if pa.types.is_nested(type_):
        return _whole(table.column(name)).take(_whole(grouped.column(f"{_FIRST}_min")))
    if not pa.types.is_floating(type_):
        return key
    doubles = gather(key.fill_null(0), pa.float64())
    return pc.if_else(_whole(key.is_valid()), doubles, pa.scalar(None, pa.float64())).cast(type_)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """One array of all chunks."""
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def with_missing(rows: pa.Table, accumulators: Mapping[str, Accumulator]) -> pa.Table:
    """Partial results with all aggregates: nulls for those that the version of the pipeline that wrote them did not have."""
    for name, accumulator in accumulators.items():
        for number, type_ in enumerate(accumulator.types):
            if f"{name}\0{number}" not in rows.column_names:
                rows = rows.append_column(f"{name}\0{number}", pa.nulls(len(rows), type_))
    return rows

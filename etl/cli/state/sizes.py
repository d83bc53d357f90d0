"""The size of a step's state, by key or by part: rows and bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Operator
from etl.contract.state import NamesKeys
from etl.state.key_hash import HASH, HASH2, key_hashes
from etl.state.keyed.event_rows import KEY_HASH, as_hex, unused_name
from etl.state.reader import StepState
from etl.state.windows.aggregation import Numbers

_BITS_PER_BYTE = 8


def sizes_of_parts(state: StepState) -> Iterator[pa.RecordBatch]:
    """Rows and bytes of each part."""
    for part in state.parts:
        batches = [file.part(part) for file in state.files if part in file.parts]
        total = sum(int(_row_bytes(batch).sum()) for batch in batches)
        yield pa.RecordBatch.from_pylist([{"part": part, "rows": sum(map(len, batches)), "bytes": total}])


def sizes_of_keys(state: StepState, operator: Operator) -> Iterator[pa.RecordBatch]:
    """Rows and bytes of each key, given by its values, or by its hash if these are not stored. A key is in one batch."""
    names = operator.key_fields.names if isinstance(operator, NamesKeys) else operator.keys
    rows, size = (unused_name(name, names) for name in ("rows", "bytes"))
    for portion in state.portions():
        tables = [_size(table, operator, names, rows, size) for table in portion.tables()]
        if tables:
            table = pa.concat_tables(tables, promote_options="default")
            keys = [name for name in table.column_names if name not in (rows, size)]
            counted = table.group_by(keys, use_threads=False).aggregate([(rows, "sum"), (size, "sum")])
            yield _with_readable_keys(counted.select([*keys, f"{rows}_sum", f"{size}_sum"]).rename_columns([*keys, rows, size]))


def _with_named_keys(table: pa.Table, operator: Operator) -> pa.Table:
    """The rows with columns for the values of the key, where the operator stores them in another form."""
    if not isinstance(operator, NamesKeys):
        return table
    for name, column in operator.key_columns(table).items():
        table = table.append_column(name, column)
    return table


def _size(table: pa.Table, operator: Operator, keys: Sequence[str], rows: str, size: str) -> pa.Table:
    named = _with_named_keys(table, operator)
    comparable = all(name in named.column_names and not pa.types.is_nested(named.schema.field(name).type) for name in keys)
    if not (comparable or HASH2 in table.column_names):
        hashes = key_hashes(table, keys)
        table = table.drop([HASH] if HASH in table.column_names else [])
        table = table.append_column(HASH, pa.array(hashes[0])).append_column(HASH2, pa.array(hashes[1]))
    columns = {name: named.column(name) for name in keys} if comparable else {name: table.column(name) for name in (HASH, HASH2)}
    sizes = np.concatenate([_row_bytes(batch) for batch in table.to_batches()])
    return pa.table({**columns, rows: pa.array(np.ones(len(table), np.int64)), size: pa.array(sizes)})


def _with_readable_keys(table: pa.Table) -> pa.RecordBatch:
    if HASH in table.column_names:
        table = table.drop([HASH, HASH2]).add_column(0, KEY_HASH, as_hex(table))
    return table.combine_chunks().to_batches()[0]


def _row_bytes(batch: pa.RecordBatch) -> Numbers:
    """int64[rows]: the bytes that the values of each row take in a state file."""
    return np.asarray(sum(map(_value_bytes, batch.columns), np.zeros(batch.num_rows, np.int64)))


def _value_bytes(array: pa.Array) -> Numbers:
    type_ = array.type
    if pa.types.is_struct(type_):
        return np.asarray(sum(map(_value_bytes, array.flatten()), np.zeros(len(array), np.int64)))
    if pa.types.is_list(type_) or pa.types.is_map(type_):
        until = np.concatenate(([0], np.cumsum(_value_bytes(array.values))))
        return np.diff(until[array.offsets.to_numpy()]) + 4
    if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_large_string(type_):
        return pc.binary_length(array).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64) + 4
    bits = 0 if pa.types.is_null(type_) else type_.bit_width
    return np.full(len(array), -(-bits // _BITS_PER_BYTE), np.int64)

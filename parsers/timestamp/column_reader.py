"""Columns of texts or numbers → columns of instants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import TIMESTAMP
from etl.columns.texts import materialize_array, take_rows
from parsers.timestamp.formats import read_epoch_numbers

if TYPE_CHECKING:
    from parsers.timestamp.formats import Read
    from parsers.timestamp.instants import Bools, Ints

SAMPLE_ROWS = 1024
"""Rows of the sample that decides whether texts repeat."""


def is_number(type_: pa.DataType) -> bool:
    return pa.types.is_integer(type_) or pa.types.is_floating(type_)


def read_column(texts: pa.Array, unambiguous: Read | None, reads: Sequence[Read]) -> pa.Array:
    """Texts of any kind → instants, null where no reader takes them. ``unambiguous``, if any, reads first; ``reads`` the rest."""
    import numpy as np

    if unambiguous is None:
        return read_texts(materialize_array(texts).cast(pa.string()), reads)
    micros, done = unambiguous(texts)
    rest = np.flatnonzero(~done)
    if len(rest) > texts.null_count:
        found = read_texts(materialize_array(take_rows(texts, rest)).cast(pa.string()), reads)
        done[rest] = found.is_valid().to_numpy(zero_copy_only=False)
        micros[rest] = found.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return instant_column(micros, done)


def read_texts(texts: pa.StringArray, reads: Sequence[Read]) -> pa.Array:
    """Texts → instants, null where no reader takes them. Texts that repeat are read once."""
    if _repeats(texts):
        encoded = texts.dictionary_encode()
        return _distinct(encoded.dictionary, reads).take(encoded.indices)
    if texts.null_count:
        rows = pc.if_else(pc.is_valid(texts), pc.subtract(pc.cumulative_sum(pc.is_valid(texts).cast(pa.int32())), 1), None)
        return _distinct(texts.drop_null(), reads).take(rows)
    return _distinct(texts, reads)


def _repeats(texts: pa.StringArray) -> bool:
    sample = texts.slice(0, SAMPLE_ROWS)
    return pc.count_distinct(sample).as_py() * 2 <= len(sample)


def _distinct(texts: pa.StringArray, reads: Sequence[Read]) -> pa.Array:
    import numpy as np

    micros = np.zeros(len(texts), np.int64)
    done = np.zeros(len(texts), bool)
    for read in reads:
        rows = np.flatnonzero(~done)
        if not len(rows):
            break
        values, good = read(texts if len(rows) == len(texts) else texts.take(pa.array(rows)))
        micros[rows[good]] = values[good]
        done[rows[good]] = True
    return instant_column(micros, done)


def read_numbers(numbers: pa.Array, units: Sequence[int]) -> pa.Array:
    """Numbers → instants by the first unit in which they are one."""
    import numpy as np

    present = numbers.drop_null()
    micros = np.zeros(len(present), np.int64)
    done = np.zeros(len(present), bool)
    for unit in units:
        values, good = read_epoch_numbers(present, unit)
        micros = np.where(done, micros, values)
        done |= good
    if not numbers.null_count:
        return instant_column(micros, done)
    spread = np.zeros(len(numbers), np.int64)
    valid = pc.is_valid(numbers).to_numpy(zero_copy_only=False)
    spread[valid] = micros
    valid[valid] = done
    return instant_column(spread, valid)


def instant_column(micros: Ints, good: Bools) -> pa.Array:
    """Microseconds since 1970 as timestamps, null where they are not ``good`` (bool[n])."""
    import numpy as np

    bits = None if good.all() else pa.py_buffer(np.packbits(good, bitorder="little"))
    return pa.Array.from_buffers(TIMESTAMP, len(micros), [bits, pa.py_buffer(micros)])

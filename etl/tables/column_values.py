"""The values of a table, column by column: each distinct value once, and for each row its number in as few bits as possible.

A column with nearly all distinct values is stored as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from etl.tables.bits_kernel import pack, unpack
from etl.tables.section_file import SectionFile

_MAX_DISTINCT_SHARE = 0.5
"""A column with a larger share of distinct values in its first `_SAMPLE` rows is stored as it is."""

_SAMPLE = 10_000


@dataclass
class ColumnCollector:
    """Collects the values of a column while its table is read."""

    type: pa.DataType
    _chunks: list[pa.Array] = field(default_factory=list)
    _encoded: bool | None = None

    def add(self, values: pa.Array) -> None:
        """Add the values of further rows."""
        if self._encoded is None and len(values):
            sample = values.slice(0, _SAMPLE)
            self._encoded = (
                not pa.types.is_nested(self.type) and pc.count_distinct(sample).as_py() <= _MAX_DISTINCT_SHARE * len(sample) + 1
            )
        self._chunks.append(values.dictionary_encode() if self._encoded and len(values) else values)

    def sections(self, name: str, order: Any) -> tuple[dict[str, Any], dict[str, pa.Array]]:
        """The arrays and columns of the file, rows in the given order (int64[n])."""
        chunks = [chunk for chunk in self._chunks if len(chunk)]
        self._chunks.clear()
        if not self._encoded:
            whole = pa.chunked_array(chunks, self.type).combine_chunks() if chunks else pa.array([], self.type)
            return {}, {f"{name}.values": whole.take(pa.array(order))}
        unified = pa.chunked_array(chunks).unify_dictionaries()
        dictionary = unified.chunk(0).dictionary
        codes = np.concatenate([_codes(chunk, len(dictionary)) for chunk in unified.chunks])[order]
        width = max(1, len(dictionary).bit_length())
        words = np.zeros(len(codes) * width // 64 + 2, np.uint64)
        pack(codes, width, words)
        return {f"{name}.codes": words}, {f"{name}.values": dictionary}


class PackedColumn:
    """A column of a mapped table."""

    def __init__(self, sections: SectionFile, name: str) -> None:
        self._values = sections.column(f"{name}.values")
        self._words = sections.numbers(f"{name}.codes") if f"{name}.codes" in sections else None

    def at(self, rows: Any) -> pa.Array:
        """The values of rows (int64[n]); null where a row is below 0."""
        if self._words is None:
            return self._values.take(pa.array(rows, mask=rows < 0))
        numbers, valid = np.empty(len(rows), np.int32), np.empty(len(rows), np.bool_)
        count = len(self._values)
        nulls = unpack(self._words, max(1, count.bit_length()), rows, count, numbers, valid)
        return self._values.take(pa.array(numbers, mask=~valid if nulls else None))


def _codes(chunk: pa.DictionaryArray, null: int) -> Any:
    """uint32[n]: numbers of values, ``null`` for none."""
    return pc.fill_null(chunk.indices, null).to_numpy().astype(np.uint32)

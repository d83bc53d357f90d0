"""Rows of some parts of a step's state, as the tasks of parts read them: all of them, or those of a range of keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from etl.api import ALWAYS, NEVER, Operator, PartRows
from etl.state.key_hash import HASH, HASH2, key_hashes, part_of
from etl.state.manifest import StateFileEntry
from etl.state.row_files import open_entry
from etl.state.state_files import StateFile

RANGE_ROWS = 1 << 18
"""Maximum number of rows of a part that are merged together, unless one key has more: a row takes about a hundred bytes."""

RANGE_BYTES = 64 << 20
"""Maximum bytes of them, where rows are large."""

HashesOf: TypeAlias = Callable[[pa.Table], Any]
"""Rows → uint64[rows]: the first hash of the key of each."""


@dataclass(frozen=True)
class KeyRange:
    """Some keys of a part: those in one of several ranges of the first hash."""

    number: int
    ranges: int
    hashes_of: HashesOf

    def rows(self, table: pa.Table) -> pa.Table:
        """The rows with these keys, in their order."""
        hashes = table.column(HASH).to_numpy() if HASH in table.column_names else self.hashes_of(table)
        mask = (hashes >> np.uint64(32)) * np.uint64(self.ranges) >> np.uint64(32) == np.uint64(self.number)
        return table.filter(pa.array(mask))

    def rows_of_sorted(self, table: pa.Table) -> pa.Table:
        """The same of rows that are sorted by their hashes: without a copy if these have a column."""
        if HASH not in table.column_names:
            return self.rows(table)
        hashes = table.column(HASH).to_numpy()
        first, end = (-(-(number << 32) // self.ranges) << 32 for number in (self.number, self.number + 1))
        low = int(np.searchsorted(hashes, np.uint64(first)))
        high = int(np.searchsorted(hashes, np.uint64(end))) if self.number + 1 < self.ranges else len(hashes)
        return table.slice(low, high - low)


def hashes_of(operator: Operator, seed: int) -> HashesOf:
    """The first hashes of the keys of an operator's rows, for those that are stored without."""
    return lambda rows: key_hashes(rows, operator.keys, seed)[0]


def parts_of(operator: Operator, seed: int) -> Callable[[pa.Table], Any]:
    """Rows → int64[rows]: the part of each row of an operator."""

    def numbers(rows: pa.Table) -> Any:
        if HASH2 in rows.column_names:
            return part_of((None, rows.column(HASH2).to_numpy()))
        return part_of(key_hashes(rows, operator.keys, seed))

    return numbers


def ranges_of_part(files: Sequence[StateFile], part: int) -> int:
    """The number of ranges of keys in which a part is read, so that one needs little memory."""
    rows, size = sum(file.rows_of(part) for file in files), sum(file.bytes_of(part) for file in files)
    return max(1, -(-rows // RANGE_ROWS), -(-size // RANGE_BYTES))


class PartsOfFiles:
    """The rows of some parts in several files."""

    def __init__(self, files: Sequence[StateFile], parts: Sequence[int], keys: KeyRange | None = None) -> None:
        """``keys``: only those of these keys."""
        self._files, self._parts, self._keys = files, parts, keys

    def tables(self, first: int = NEVER, end: int = ALWAYS) -> Sequence[pa.Table]:
        """The rows with ``first <= pane < end``, a table for each file, part and pane."""
        found = (table for file in self._files for part in self._parts for table in file.tables(part, first, end))
        return self._select_rows(found, is_sorted=True)

    def in_order(self, first: int = NEVER, end: int = ALWAYS) -> Sequence[pa.Table]:
        """The rows with ``first <= pane < end``, a table for each file and part, or for a small file, in the order of panes."""
        if self._keys is not None:
            return self._select_rows(file.slice(part, first, end) for file in self._files for part in self._parts)
        return list(filter(len, (table for file in self._files for table in file.slices(self._parts, first, end))))

    def of_keys(self, others: PartRows, first: int = NEVER, end: int = ALWAYS) -> Sequence[pa.Table]:
        """The rows with ``first <= pane < end`` and keys of other rows: all rows of files without hashes."""
        assert isinstance(others, PartsOfFiles)
        hashes = {part: found for part in self._parts if len(found := others._hashes(part))}
        found = (table for file in self._files for table in file.rows_of_keys(hashes, first, end))
        return self._select_rows(found) if hashes else []

    def of_hashes(self, hashes: Any, first: int = NEVER, end: int = ALWAYS) -> Sequence[pa.Table]:
        """The rows with ``first <= pane < end`` and these hashes: all rows of files without hashes."""
        hashes_of_parts = dict.fromkeys(self._parts, hashes)
        found = (table for file in self._files for table in file.rows_of_keys(hashes_of_parts, first, end))
        return self._select_rows(found) if len(hashes) else []

    def _select_rows(self, tables: Iterable[pa.Table], is_sorted: bool = False) -> list[pa.Table]:
        """Those rows of tables that have the keys; ``is_sorted``: each table is sorted by its hashes, if it has them."""
        found: Iterable[pa.Table] = filter(len, tables)  # to look for keys takes longer than to see that there are no rows
        if self._keys is None:
            return list(found)
        return list(filter(len, map(self._keys.rows_of_sorted if is_sorted else self._keys.rows, found)))

    def _hashes(self, part: int) -> Any:
        """uint64[n]: the hashes of a part's rows, sorted. Only for rows with hashes."""
        batches = [file.part(part) for file in self._files if file.rows_of(part)]
        if self._keys is not None:
            batches = self._select_rows(map(pa.Table.from_batches, ([batch] for batch in batches)))
        return np.sort(np.concatenate([rows.column(HASH).to_numpy() for rows in batches])) if batches else ()


class MappedStateFiles:
    """State files of one folder, each mapped into memory once, when the first part is read."""

    def __init__(self, folder: Path, files: Sequence[StateFileEntry]) -> None:
        self._folder, self._entries = folder, files

    @cached_property
    def files(self) -> list[StateFile]:
        """The mapped files."""
        return [open_entry(self._folder, entry) for entry in self._entries]

    def parts(self, *numbers: int, keys: KeyRange | None = None) -> PartsOfFiles:
        """The rows of some parts, only those of some keys."""
        return PartsOfFiles(self.files, numbers, keys)

    def release(self, part: int) -> None:
        """Give back the memory in which a part is mapped."""
        for file in self.files:
            file.release(part)

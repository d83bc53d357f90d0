"""Reads a range of a journal file as record batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.journald import journal_kernel as kernel
from connectors.journald.decompression import DamagedValueError, decompress
from connectors.journald.entry_filter import EntryFilter
from connectors.journald.journal_fields import CURSOR, ENTRY_FIELDS, MONOTONIC, REALTIME, SEQNUM, TEXTS
from connectors.journald.journal_file import JournalFile
from connectors.journald.rest_objects import write_rest
from connectors.shared.typed_batch import to_typed_batch
from etl.api import OFFSET, TIMESTAMP, Rejects, Schema
from etl.columns.texts import Texts, copy_texts, filter_batch, make_span_views

BAD_ENTRY, TOO_LONG, UNREADABLE = "bad-journal-entry", "field-too-long", "unreadable-value"
"""Codes of dead letters."""

SAMPLE_BYTES = 64 << 10
"""Bytes of a value that is too long which its dead letter has."""

_BATCH_ENTRIES = 1 << 13
_BATCH_ITEMS = 1 << 18
_SLOTS = 1 << 19
_BATCH_BYTES = 8 << 20
_DECOMPRESSED_BYTES = 32 << 20
"""Decompressed bytes after which a batch ends."""
_ENTRY_BYTES = 64 << 20
"""Maximum bytes of an entry's values, each counted up to ``max_field_bytes``; journald takes 32 MiB of users. The columns of a
batch, also as JSON, stay below the 2 GiB of an Arrow array."""
_BLOCK_ENTRIES = 1 << 16
_MAX_NAME_BYTES = 65
"""Bytes of the longest name, and of the character after it."""
_CURSOR_BYTES = 192
_TIME_LIMIT = 1 << 55
"""The first time that is not valid in a journal, microseconds since 1970."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class EntryReader:
    """What is read of each entry."""

    schema: Schema
    """The declared fields, and ``rest``."""
    rest: str | None
    filter: EntryFilter
    max_field_bytes: int

    @cached_property
    def values(self) -> tuple[str, ...]:
        """The declared fields that entries have values of."""
        return tuple(name for name in self.schema.names if name not in ENTRY_FIELDS and name != self.rest)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """All fields that are looked for: the declared ones, and those of the filter."""
        return tuple(dict.fromkeys((*self.values, *self.filter.fields)))

    @property
    def max_entry_bytes(self) -> int:
        """Maximum bytes of an entry's values."""
        return max(_ENTRY_BYTES, self.max_field_bytes + (16 << 20))

    @cached_property
    def has_several(self) -> Array:
        """bool[f + 1]: whether all values of a field are needed; the last one is for fields that are not looked for."""
        several = [self.schema.field(name).type == TEXTS if name in self.values else self.rest is not None for name in self.names]
        return np.array([*several, self.rest is not None], np.bool_)

    def read(self, file: JournalFile, begin: int, end: int) -> Iterator[pa.RecordBatch | Rejects]:
        """Yield the entries ``begin`` to ``end`` of a file, a few megabytes at a time."""
        for first in range(begin, end, _BLOCK_ENTRIES):
            last = min(first + _BLOCK_ENTRIES, end)
            positions = file.entry_positions(first, last)
            at = 0
            while at < len(positions):
                batch = _EntryBatch(self, file, positions[at:], first + at)
                yield from batch.events()
                at += batch.count
            if len(positions) < last - first:
                yield self.reject_range(first + len(positions), end, f"an array of entries of {file.path} is damaged", BAD_ENTRY)
                return

    def reject_range(self, begin: int, end: int, reason: str, code: str) -> Rejects:
        """Return a dead letter for all entries of a range."""
        text = f"entries {begin:,} to {end - 1:,}: {reason}" if end - begin > 1 else f"entry {begin:,}: {reason}"
        return Rejects(self._empty_rows(np.array([begin])), code, text)

    def _empty_rows(self, numbers: Array) -> pa.RecordBatch:
        columns = [pa.nulls(len(numbers), field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays([*columns, pa.array(numbers, pa.int64())], names=[*self.schema.names, OFFSET])


class _EntryBatch:
    """The first entries at ``positions``, as many as a batch has: ``count``. Entry 0 has the number ``first`` in its file."""

    def __init__(self, reader: EntryReader, file: JournalFile, positions: Array, first: int) -> None:
        self.reader, self.file, self.first = reader, file, first
        self.base = np.uint64(file.data.ctypes.data)
        positions = positions[:_BATCH_ENTRIES]
        self.heads = np.empty((7, len(positions)), np.int64)
        self.status = np.empty(len(positions), np.uint8)
        kernel.read_heads(self.base, len(file.data), positions, file.item_bytes, self.heads, self.status)
        self.objects = np.empty((8, _BATCH_ITEMS), np.int64)
        self.items = np.empty(_BATCH_ITEMS, np.int32)
        self.item_ends = np.empty(len(positions), np.int64)
        self.decompressed: list[bytes] = []
        names = "".join(reader.names).encode()
        self.names = np.frombuffer(names or b"=", np.uint8)
        self.name_ends = np.cumsum([len(name) for name in reader.names], dtype=np.int64)
        self.count, objects = kernel.read_objects(
            self.base,
            len(file.data),
            positions,
            self.heads,
            self.status,
            file.item_bytes,
            file.data_head,
            np.uint64(self.names.ctypes.data),
            self.name_ends,
            _BATCH_BYTES,
            np.zeros(_SLOTS, np.int32),
            self.objects,
            self.items,
            self.item_ends,
        )
        self.objects = self.objects[:, :objects]
        self._decompress()
        self._limit()
        self.heads, self.status = self.heads[:, : self.count], self.status[: self.count]
        self._arrange()

    def _decompress(self) -> None:
        """Decompress objects, in the order of the entries; the batch ends before an entry for which there is no room."""
        rows = np.flatnonzero(self.objects[kernel.FIELD] == kernel.COMPRESSED)
        begins, lengths, total = np.empty(len(rows), np.uint64), np.empty(len(rows), np.int64), 0
        max_bytes = _DECOMPRESSED_BYTES + self.reader.max_entry_bytes  # only a batch of one entry may have more
        done: list[int] = []
        limit = self.reader.max_field_bytes + _MAX_NAME_BYTES
        for row in rows:  # a call of a library for each: journald compresses values of 512 bytes or more
            entry = int(self.objects[kernel.ROW, row])
            if total > _DECOMPRESSED_BYTES and 0 < entry < self.count:
                self.count = entry
            if entry >= self.count:
                break
            if total > max_bytes:
                self.status[entry], self.objects[kernel.FIELD, row] = kernel.TOO_LARGE, kernel.BROKEN
                continue
            begin = int(self.objects[kernel.BEGIN, row]) - int(self.base)
            content = self.file.map[begin : begin + int(self.objects[kernel.LENGTH, row])]
            try:
                text = decompress(int(self.objects[kernel.FLAGS, row]), content, limit)
            except DamagedValueError:
                self.objects[kernel.FIELD, row] = kernel.BROKEN
                continue
            begins[len(done)], lengths[len(done)] = self._hold(text), len(text)
            done.append(int(row))
            total += len(text)
        found = np.array(done, np.int64)
        kernel.name_fields(
            begins[: len(done)], lengths[: len(done)], found, np.uint64(self.names.ctypes.data), self.name_ends, self.objects
        )

    def _hold(self, text: bytes) -> int:
        """Keep bytes that are not in the file for as long as the batch is made; return their address."""
        self.decompressed.append(text)
        return int(pa.py_buffer(text).address)

    def _limit(self) -> None:
        """End the batch where its values, each as often as entries have it, are too many."""
        max_bytes, ends = self.reader.max_entry_bytes, self.item_ends[: self.count]
        limit = self.reader.max_field_bytes + _MAX_NAME_BYTES
        self.count = kernel.limit_entries(self.items, ends, self.objects, limit, max_bytes, _DECOMPRESSED_BYTES, self.status)

    def _arrange(self) -> None:
        reader = self.reader
        bits = self._condition_bits()
        self.row_bits = np.zeros(self.count, np.uint64)
        self.first_object = np.full((max(1, len(reader.names)), self.count), -1, np.int32)
        item_ends = self.item_ends[: self.count]
        pairs = np.empty((3, int(item_ends[-1]) if self.count else 0), np.int32)
        count = kernel.arrange(
            self.items,
            item_ends,
            self.objects,
            bits,
            reader.has_several,
            self.status,
            self.first_object,
            self.row_bits,
            pairs,
        )
        self.pairs = pairs[:, :count]

    def _condition_bits(self) -> Array:
        """uint64[k]: the conditions that each object meets. A loop over the distinct values of fields that have conditions."""
        bits = np.zeros(self.objects.shape[1], np.uint64)
        reader = self.reader
        conditional = [number for number, name in enumerate(reader.names) if name in reader.filter.fields]
        if conditional:
            for found in np.flatnonzero(np.isin(self.objects[kernel.FIELD], conditional)):
                value = self._text(int(found)).partition(b"=")[2].decode("utf-8", "replace")
                bits[found] = reader.filter.bits(reader.names[self.objects[kernel.FIELD, found]], value)
        return bits

    def _text(self, found: int) -> bytes:
        """``NAME=value`` of an object."""
        begin, length = int(self.objects[kernel.BEGIN, found]), int(self.objects[kernel.LENGTH, found])
        return bytes(pa.foreign_buffer(begin, length, self))

    # ── Events ──

    def events(self) -> Iterator[pa.RecordBatch | Rejects]:
        """Yield the events, after dead letters for entries that are damaged or have an unreadable value."""
        chosen = self.reader.filter.choose(self.row_bits, self.heads[kernel.REALTIME])
        columns, reasons = self._columns()
        damaged = (self.status == kernel.BAD_ENTRY) | (self.status == kernel.BAD_DATA)
        numbers = np.arange(self.first, self.first + self.count)
        if damaged.any():
            rows = self.reader._empty_rows(numbers[damaged])
            yield Rejects(rows, BAD_ENTRY, f"the entry, or a value of it, is damaged in {self.file.path}")
        too_large = self.status == kernel.TOO_LARGE
        if too_large.any():
            reason = f"its values have together more than {self.reader.max_entry_bytes:,} bytes"
            yield Rejects(self.reader._empty_rows(numbers[too_large]), TOO_LONG, reason)
        batch = pa.RecordBatch.from_arrays([*columns, pa.array(numbers)], names=[*self.reader.schema.names, OFFSET])
        chosen &= ~(damaged | too_large)
        too_long = chosen & (self.status == kernel.TOO_LONG)
        if too_long.any():
            reason = f"a value has more than max_field_bytes: {self.reader.max_field_bytes:,}"
            yield Rejects(filter_batch(batch, pa.array(too_long)), TOO_LONG, reason)
        unreadable = np.zeros(self.count, bool)
        unreadable[list(reasons)] = True
        unreadable &= chosen & ~too_long
        if unreadable.any():
            texts = [reasons[int(row)] for row in np.flatnonzero(unreadable)]
            yield Rejects(filter_batch(batch, pa.array(unreadable)), UNREADABLE, pa.array(texts))
        good = chosen & ~too_long & ~unreadable
        yield batch if good.all() else filter_batch(batch, pa.array(good))

    def _columns(self) -> tuple[list[pa.Array], Mapping[int, str]]:
        """Return the columns of all fields, and the reasons for which rows cannot be read."""
        reasons: dict[int, str] = {}
        columns = []
        for field in self.reader.schema:
            if field.name == self.reader.rest:
                columns.append(self._rest())
            elif field.name in ENTRY_FIELDS:
                columns.append(self._entry_column(field))
            elif field.type == TEXTS:
                columns.append(self._lists(field.name))
            elif field.type == pa.string():
                columns.append(self._texts(field.name))
            else:
                column, bad = self._converted(field)
                columns.append(column)
                reasons.update({row: reason for row, reason in bad.items() if row not in reasons})
        return columns, reasons

    def _entry_column(self, field: pa.Field) -> pa.Array:
        """A column of the heads of the entries."""
        if field.name == CURSOR:
            return self._cursors()
        if field.name in _HEAD_COLUMNS:
            return pa.array(self.heads[_HEAD_COLUMNS[field.name]]).cast(field.type)
        return pa.repeat(self.file.header.seqnum_id, self.count)

    def _cursors(self) -> pa.Array:
        prefix = np.frombuffer(f"s={self.file.header.seqnum_id};i=".encode(), np.uint8)
        target, ends = np.empty(self.count * _CURSOR_BYTES, np.uint8), np.zeros(self.count + 1, np.int32)
        kernel.put_cursors(np.ascontiguousarray(self.heads), prefix, target, ends)
        return pa.Array.from_buffers(pa.string(), self.count, [None, pa.py_buffer(ends), pa.py_buffer(target)])

    def _spans(self, found: Array) -> tuple[Array, Array]:
        """Addresses and lengths of the values of objects; -1 is null."""
        name, missing = self.objects[kernel.NAME, found] + 1, found < 0
        address = self.objects[kernel.BEGIN, found] + name
        length = self.objects[kernel.LENGTH, found] - name
        length[missing] = -1
        return address.view(np.uint64), length

    def _field_spans(self, name: str) -> tuple[Array, Array]:
        """Addresses and lengths of the values of a field, cut to a sample where they are too long."""
        if not self.objects.shape[1]:
            return np.zeros(self.count, np.uint64), np.full(self.count, -1, np.int64)
        address, length = self._spans(self.first_object[self.reader.names.index(name)])
        too_long = length > self.reader.max_field_bytes
        if too_long.any():
            self.status[too_long & (self.status == kernel.GOOD)] = kernel.TOO_LONG
            length[too_long] = np.minimum(length[too_long], SAMPLE_BYTES)
        return address, length

    def _texts(self, name: str) -> pa.Array:
        """A column of texts: views into the file, or copies if some were decompressed or are not UTF-8."""
        address, length = self._field_spans(name)
        if self._mend(address, length) or not self._are_in_file(address, length):
            return copy_texts(address, length)
        starts = np.where(length < 0, -1, 0).astype(np.int32)
        ends = np.maximum(length, 0).astype(np.int32)
        buffer = pa.py_buffer(self.file.data)
        return make_span_views(starts, ends, Texts(address, length, buffer, int(self.base), buffer))

    def _are_in_file(self, address: Array, length: Array) -> bool:
        inside = (address >= self.base) & (address < self.base + np.uint64(len(self.file.data)))
        return bool((inside | (length < 0)).all())

    def _mend(self, address: Array, length: Array) -> bool:
        """Replace texts that are not UTF-8 by ones with U+FFFD; return whether there are any."""
        invalid = np.empty(len(address), np.uint8)
        if not kernel.find_invalid(address, length, invalid):
            return False
        for row in np.flatnonzero(invalid):
            text = bytes(pa.foreign_buffer(int(address[row]), int(length[row]), self)).decode("utf-8", "replace").encode()
            address[row], length[row] = self._hold(text), len(text)
        return True

    def _converted(self, field: pa.Field) -> tuple[pa.Array, Mapping[int, str]]:
        """A column of bytes, numbers or times, and the reasons for which values cannot be read."""
        texts = copy_texts(*self._field_spans(field.name))
        type_ = pa.int64() if field.type == TIMESTAMP else field.type
        batch, bad = to_typed_batch([texts], pa.schema([pa.field(field.name, type_)]))
        reasons = dict(zip(bad.rows, bad.reasons, strict=True)) if bad else {}
        column = batch.column(0)
        if field.type != TIMESTAMP:
            return column, reasons
        outside = pc.or_(pc.less(column, 0), pc.greater_equal(column, _TIME_LIMIT))
        for row in pc.indices_nonzero(outside).to_pylist():
            reasons[row] = f"{field.name} is {column[row]}, not microseconds of a time from 1970 to 3111"
        return pc.if_else(outside, pa.scalar(None, pa.int64()), column).cast(TIMESTAMP), reasons

    def _lists(self, name: str) -> pa.Array:
        """A column of lists with all values of a field."""
        mine = self.pairs[:, self.pairs[1] == self.reader.names.index(name)]
        address, length = self._spans(mine[2])
        too_long = length > self.reader.max_field_bytes
        self.status[mine[0][too_long]] = kernel.TOO_LONG
        length[too_long] = np.minimum(length[too_long], SAMPLE_BYTES)
        self._mend(address, length)
        sizes = np.bincount(mine[0], minlength=self.count)
        offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int32)
        empty = pa.array(sizes == 0) if (sizes == 0).any() else None
        return pa.ListArray.from_arrays(pa.array(offsets), copy_texts(address, length), mask=empty)

    def _rest(self) -> pa.Array:
        """The fields that are not declared, as JSON."""
        declared = [number for number, name in enumerate(self.reader.names) if name in self.reader.values]
        others = self.pairs[:, ~np.isin(self.pairs[1], declared)]
        return write_rest(others[0], others[2], self.objects, self._text, self.count, self.reader.max_field_bytes)


_HEAD_COLUMNS = {REALTIME: kernel.REALTIME, MONOTONIC: kernel.MONOTONIC, SEQNUM: kernel.SEQNUM}

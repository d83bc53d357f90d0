"""Dead letters as events again: typed as a step or sink takes them, in a file that a source of the replay reads."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from etl.api import OFFSET, EtlError, Limit, Offset, Rejects, Schema, Source, Split, visible
from etl.config.cases.case import flat_event
from etl.running.plain_values import to_column

SPLIT_ROWS = 100_000
"""Events of one split."""

UNREADABLE = "replay-unreadable"
"""The code of a letter whose event has no longer the types of the fields where it is replayed."""


_UNFIT = (EtlError, pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError)
"""What a letter raises that is not an event of the fields: its text may be anything."""


class ReplaySource(Source):
    """The events of a replay, from a file that does not change; without a file none.

    ``name`` is the partition of its splits: dead letters of the replay name it, and with the offset the letter that was replayed.
    """

    type: Literal["replay"] = "replay"
    columns: pa.Schema
    name: str
    path: str = ""

    def fields(self) -> Schema:
        """The fields where the events enter."""
        return self.columns

    def start(self) -> Offset:
        """The offset before all events."""
        return {"row": 0}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """The end of the file, or what the limit allows."""
        end = self._rows()
        if limit.max_events is not None:
            end = min(end, start["row"] + limit.max_events)
        return {"row": end if limit.until is None else min(end, limit.until["row"])}

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """A split for each `SPLIT_ROWS` events."""
        first, last = start["row"], end["row"]
        return [Split(self.name, row, min(last, row + SPLIT_ROWS)) for row in range(first, last, SPLIT_ROWS)]

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """The events; letters that cannot be events again are rejected with their text."""
        with pa.memory_map(self.path) as mapped, pa.ipc.open_file(mapped) as file:
            first = 0
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                begin, end = max(split.start, first), min(split.end, first + batch.num_rows)
                if begin < end:
                    yield from self._events(batch.slice(begin - first, end - begin))
                first += batch.num_rows

    def _rows(self) -> int:
        if not self.path:
            return 0
        with pa.memory_map(self.path) as mapped, pa.ipc.open_file(mapped) as file:
            return sum(file.get_batch(number).num_rows for number in range(file.num_record_batches))

    def _events(self, letters: pa.RecordBatch) -> Iterator[pa.RecordBatch | Rejects]:
        texts, offsets = letters.column("event").to_pylist(), letters.column(OFFSET)
        try:
            yield _make_batch(texts, offsets, self.columns)
        except _UNFIT:
            for row, text in enumerate(texts):
                offset = offsets.slice(row, 1)
                try:
                    yield _make_batch([text], offset, self.columns)
                except _UNFIT as error:
                    event = pa.record_batch({"message": pa.array([text], pa.string()), OFFSET: offset})
                    yield Rejects(event, UNREADABLE, str(error))


class LetterWriter:
    """Writes the file of a `ReplaySource`, batch by batch; each letter gets its number as offset."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = 0
        """Letters written so far."""
        self._writer: Any = None

    def write(self, letters: pa.RecordBatch) -> None:
        """Add letters."""
        numbers = pa.array(range(self.rows, self.rows + letters.num_rows), pa.int64())
        numbered = letters.append_column(OFFSET, numbers)
        self._writer = self._writer or pa.ipc.new_file(str(self.path), numbered.schema)
        self._writer.write_batch(numbered)
        self.rows += letters.num_rows

    def close(self) -> None:
        """Complete the file, and sync it: its letters are settled from now on."""
        if self._writer is not None:
            self._writer.close()
            with self.path.open("rb") as file:
                os.fsync(file.fileno())


def _make_batch(texts: Sequence[str | None], offsets: pa.Array, schema: Schema) -> pa.RecordBatch:
    """Letters' events → a batch with the fields of a schema. Raises EtlError for a value of another type."""
    fields = visible(schema)
    if fields.names == ["message"] and pa.types.is_string(fields.field(0).type):
        return pa.RecordBatch.from_arrays([pa.array(texts, pa.string()), offsets], names=["message", OFFSET])
    rows = [_flat(text, fields) for text in texts]
    # A loop over events: a letter's JSON has any types, and a single one that does not fit must not lose the others.
    columns = [to_column(field, [_plain(row.get(field.name), field.type) for row in rows], "the letter") for field in fields]
    return pa.RecordBatch.from_arrays([*columns, offsets], names=[*fields.names, OFFSET])


def _flat(text: str | None, fields: Schema) -> Mapping[str, Any]:
    """The values of an event by field; a text that is not a JSON object is the field ``message``."""
    with suppress(ValueError):
        event = json.loads(text or "null")
        if isinstance(event, dict):
            return flat_event(event, fields.names)
    return {"message": text}


def _plain(value: Any, type_: pa.DataType) -> Any:
    """A value as `to_column` takes it: bytes are base64 in a letter, and numbers are numbers where a text is needed."""
    if isinstance(value, str) and (pa.types.is_binary(type_) or pa.types.is_large_binary(type_)):
        return base64.b64decode(value, validate=True)
    if pa.types.is_string(type_) and value is not None and not isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return value

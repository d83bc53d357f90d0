"""Reads the entries of a range of a stream as record batches."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from connectors.redis.connection_options import ConnectionSettings, errors_named, shared_client
from connectors.redis.entry_ids import EntryId
from etl.api import OFFSET, TIMESTAMP, Rejects, Schema

FIELDS: Schema = pa.schema(
    [
        pa.field("message", pa.string()),
        pa.field("redis.stream", pa.string()),
        pa.field("redis.id", pa.string()),
        pa.field("redis.time", TIMESTAMP),
    ]
)

BAD_ID = "bad-entry-id"
_BATCH_BYTES = 4 << 20
_FIRST_ENTRIES, _MAX_ENTRIES = 500, 10_000
_MAX_MICROS = (1 << 63) // 1000 - 1

Entry = tuple[bytes, dict[bytes, bytes] | None]


@dataclass(frozen=True, slots=True)
class EntryReader:
    """What is made of an entry: the value of a field, or all of them as JSON."""

    settings: ConnectionSettings
    field: str | None

    def batches(self, key: str, after: str, last: str) -> Iterator[pa.RecordBatch | Rejects]:
        """Yield the entries after one up to another, a few megabytes at a time. Raises OSError."""
        count = _FIRST_ENTRIES
        while True:
            with errors_named(self.settings):
                entries: list[Entry] = shared_client(self.settings).xrange(key, f"({after}", last, count=count)
            if not entries:
                return
            yield from self._batches(key, entries)
            after = entries[-1][0].decode()
            size = sum(len(text) for _, fields in entries for pair in (fields or {}).items() for text in pair)
            count = min(_MAX_ENTRIES, max(1, _BATCH_BYTES * len(entries) // max(size, 1)))

    def _batches(self, key: str, entries: Sequence[Entry]) -> Iterator[pa.RecordBatch | Rejects]:
        """A loop over entries, because the client gives each as a dictionary: some microseconds, a tenth of what it takes to read
        them."""
        ids = [EntryId.parse(identifier) for identifier, _ in entries]
        offsets = [one.offset for one in ids]
        columns = [
            pa.array([self._message(fields or {}) for _, fields in entries], pa.string()),
            pa.array([key] * len(entries), pa.string()),
            pa.array([identifier.decode() for identifier, _ in entries], pa.string()),
            pa.array([one.millis * 1000 if one.millis < _MAX_MICROS else None for one in ids], pa.int64()).cast(TIMESTAMP),
            pa.array([-1 if offset is None else offset for offset in offsets], pa.int64()),
        ]
        batch = pa.record_batch(columns, names=[*FIELDS.names, OFFSET])
        if None not in offsets:
            yield batch
            return
        good = pa.array([offset is not None for offset in offsets])
        yield batch.filter(good)
        reason = "its identifier is beyond the year 2109, or the two millionth of its millisecond"
        yield Rejects(batch.filter(pa.array([offset is None for offset in offsets])), BAD_ID, reason)

    def _message(self, fields: dict[bytes, bytes]) -> str | None:
        if self.field is not None:
            value = fields.get(self.field.encode())
            return None if value is None else value.decode("utf-8", "replace")
        texts: dict[str, Any] = {
            name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, value in fields.items()
        }
        return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))

"""Dead letters as bytes of a file that other programs read, batch by batch."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from etl.running.dead_letters.letter_files import LETTERS

Encode = Callable[[Iterable[pa.RecordBatch]], Iterator[bytes]]


@dataclass(frozen=True)
class ExportFormat:
    """A kind of file for letters."""

    media_type: str
    encode: Encode
    """The bytes of letters, in parts."""
    has_lines_only: bool = False
    """Whether it leaves out letters whose event has several lines: `has_line_ends`."""


def has_line_ends(batch: pa.RecordBatch) -> pa.Array:
    """Whether the event of each letter has several lines."""
    return pc.match_substring_regex(_events(batch), r"[\r\n]")


def _events(batch: pa.RecordBatch) -> pa.Array:
    return pc.fill_null(batch.column("event"), "")


def _encode_json(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    import polars as pl

    from etl.columns.json.values import to_json_types

    for batch in batches:
        columns = {name: to_json_types(batch.column(name)) for name in batch.schema.names}
        frame = pl.from_arrow(pa.table(columns))
        assert isinstance(frame, pl.DataFrame)
        yield frame.write_ndjson().encode()


def _encode_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    for batch in batches:
        events = _events(batch).filter(pc.invert(has_line_ends(batch)))
        yield "".join(f"{event}\n" for event in events.to_pylist()).encode()


def _encode_parquet(batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    from pyarrow.parquet import ParquetWriter

    written = _Drain()
    with ParquetWriter(pa.PythonFile(written, "w"), LETTERS) as writer:
        for batch in batches:
            if batch.num_rows:
                writer.write_batch(batch)
            yield written.drain()
    yield written.drain()


class _Drain(io.RawIOBase):
    """A file whose bytes are taken away while it is written."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        self._size += len(self._parts[-1])
        return len(self._parts[-1])

    def tell(self) -> int:
        return self._size

    def drain(self) -> bytes:
        """What was written since the last call."""
        found = b"".join(self._parts)
        self._parts.clear()
        return found


EXPORT_FORMATS: Mapping[str, ExportFormat] = {
    "jsonl": ExportFormat("application/x-ndjson", _encode_json),
    "parquet": ExportFormat("application/vnd.apache.parquet", _encode_parquet),
    "log": ExportFormat("text/plain; charset=utf-8", _encode_lines, has_lines_only=True),
    "txt": ExportFormat("text/plain; charset=utf-8", _encode_lines, has_lines_only=True),
}
"""By the end of a file's name."""

"""Encodes events as bytes of a file: JSON lines or CSV, plain or compressed.

Each encoded batch is independent (compressed ones are a gzip member or zstd frame of their own), so files can be
concatenated.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from connectors.shared import json_lines
from connectors.shared.debezium_lines import debezium_lines
from connectors.shared.json_lines import Nulls
from etl.api import HIDDEN
from etl.columns.json.values import as_text, to_json_types

if TYPE_CHECKING:
    from etl.columns.json.lines import Lines

Format = Literal["json", "csv", "parquet"]
Compression = Literal["none", "gzip", "zstd"]

EXTENSIONS: dict[Compression, str] = {"none": "", "gzip": ".gz", "zstd": ".zst"}


@dataclass(frozen=True, slots=True)
class Encoding:
    """Format of a file that can be appended to."""

    format: Format
    compression: Compression
    nulls: Nulls = "keep"
    """For JSON."""
    changes: Literal["none", "kind", "debezium"] = "none"
    """How results that change are written."""

    @property
    def extension(self) -> str:
        """Extension of the files' names."""
        return f".{self.format}" if self.format == "parquet" else f".{self.format}{EXTENSIONS[self.compression]}"

    def header(self, schema: pa.Schema) -> bytes:
        """Return the bytes at the beginning of each file."""
        if self.format != "csv":
            return b""
        return bytes(_COMPRESS[self.compression](_csv(pa.RecordBatch.from_pylist([], schema), header=True)))

    def encode(self, batch: pa.RecordBatch) -> Any:
        """Encode a batch."""
        return _COMPRESS[self.compression](_csv(batch) if self.format == "csv" else self._lines(batch).text)

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the bytes of each event before compression, for JSON lines."""
        return pa.array(self._lines(batch).lengths) if self.format == "json" else None

    def _lines(self, batch: pa.RecordBatch) -> Lines:
        if self.changes == "debezium":
            return debezium_lines(batch, self.nulls)
        return json_lines.lines(batch, self.nulls)


def _csv(batch: pa.RecordBatch, header: bool = False) -> memoryview:
    """Write flat columns under dotted names; lists, maps and structs as JSON text, null as empty."""
    import polars as pl

    visible = batch.drop_columns([name for name in HIDDEN if name in batch.schema.names])
    columns = [as_text(column) if pa.types.is_nested(column.type) else to_json_types(column) for column in visible]
    rows = io.BytesIO()
    frame = pl.from_arrow(pa.RecordBatch.from_arrays(columns, names=visible.schema.names))
    frame.write_csv(rows, include_header=header)  # type: ignore[union-attr]
    return rows.getbuffer()


def _gzip(data: memoryview) -> bytes:
    return gzip.compress(data, compresslevel=_GZIP_LEVEL, mtime=0)


def _zstd(data: memoryview) -> memoryview:
    frame = pa.Codec("zstd").compress(pa.py_buffer(data))
    return memoryview(frame)[: frame.size]  # the view has the maximum length of a frame


_GZIP_LEVEL = zlib.Z_BEST_SPEED + 3  # a third of the time of level 9, within a few per cent of its size
_COMPRESS: dict[str, Callable[[memoryview], Any]] = {"none": lambda data: data, "gzip": _gzip, "zstd": _zstd}

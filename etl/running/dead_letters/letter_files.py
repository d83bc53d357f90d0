"""Reads the dead letters of a pipeline from the files that its runs have written, in batches."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from etl.api import TIMESTAMP, EtlError, Sink
from etl.delivery.dead_letters import SCHEMA

LETTERS = pa.schema([*SCHEMA, ("file", pa.string()), ("line", pa.int64())])
"""A dead letter, and where it is: ``file`` by its path below the folder of the sink, ``line`` counted from zero."""

_CHUNK_BYTES = 16 << 20
"""Bytes of complete lines that are read at once."""

_LONGEST_LINE_BYTES = 256 << 20
"""Bytes of one letter; a longer line is not a letter of a run."""

_HEAD_BYTES = 4096
"""Bytes of the first line that tell whether a file is still the one that it was."""

_SUFFIXES = (".jsonl", ".json", ".ndjson", ".jsonl.gz", ".json.gz", ".jsonl.zst", ".json.zst")


@dataclass(frozen=True)
class FilePosition:
    """The begin of a line in a file of dead letters."""

    bytes: int = 0
    """Bytes before it, after decompression."""
    line: int = 0
    """Its number, counted from zero."""


BEGIN = FilePosition()
"""The begin of a file."""


@dataclass(frozen=True)
class LetterFile:
    """One file of dead letters in JSON lines, which may be compressed."""

    name: str
    """Its path below the folder of the sink."""
    path: Path

    def head(self) -> str:
        """A hash of the first line: another one means another file, whatever its name. Empty for a file without a line."""
        with self._open() as file:
            line, end, _ = file.read(_HEAD_BYTES).partition(b"\n")
        return hashlib.sha256(line).hexdigest()[:16] if line and (end or len(line) == _HEAD_BYTES) else ""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Its letters with the fields of `LETTERS`, in the order of the file; a last line that is not complete is left out."""
        return (batch for batch, _ in self.batches_from(BEGIN))

    def batches_from(self, start: FilePosition, chunk_bytes: int = _CHUNK_BYTES) -> Iterator[tuple[pa.RecordBatch, FilePosition]]:
        """Its letters from a position on, as `batches` gives them, each batch with the position after it.

        Memory: ``chunk_bytes`` of text, or its longest line. Raises EtlError for a position at which no line begins.
        """
        at, rest = start, b""
        with self._open() as file:
            self._skip(file, start)
            while chunk := self._read(file, chunk_bytes):
                whole, newline, rest = (rest + chunk).rpartition(b"\n")
                if newline:
                    batch = self._letters(whole + newline, at.line)
                    at = FilePosition(at.bytes + len(whole) + 1, at.line + batch.num_rows)
                    yield batch, at
                elif len(rest) > _LONGEST_LINE_BYTES:
                    raise EtlError(f"{self.path} has lines that are not dead letters of a run: line {at.line + 1} has no end")

    def _skip(self, file: pa.NativeFile, start: FilePosition) -> None:
        """Go to a position. A compressed file is read up to it."""
        if not start.bytes:
            return
        before = start.bytes - 1
        if file.seekable():
            file.seek(before)
        else:
            while before and (skipped := self._read(file, min(before, _CHUNK_BYTES))):
                before -= len(skipped)
        if self._read(file, 1) != b"\n":
            raise EtlError(f"dead letters in {self.path} have no line that begins at byte {start.bytes:,}")

    def _read(self, file: pa.NativeFile, size: int) -> bytes:
        try:
            return bytes(file.read(size))
        except OSError as error:
            raise EtlError(f"dead letters in {self.path} cannot be read to their end: {error}") from error

    def _open(self) -> pa.NativeFile:
        try:
            return pa.input_stream(str(self.path), compression="detect")
        except OSError as error:
            raise EtlError(f"dead letters in {self.path} cannot be read: {error.strerror or error}") from error

    def _letters(self, lines: bytes, first: int) -> pa.RecordBatch:
        import polars as pl

        texts = {field.name: pl.Int64 if pa.types.is_integer(field.type) else pl.String for field in SCHEMA}
        try:
            frame = pl.read_ndjson(io.BytesIO(lines), schema=texts)
            if frame.height != lines.count(b"\n"):
                raise pl.exceptions.ComputeError("a line is not one JSON object")
        except pl.exceptions.PolarsError as error:
            raise EtlError(f"{self.path} has lines that are not dead letters of a run: {error}") from error
        columns = frame.to_arrow().combine_chunks()
        arrays = [columns.column(field.name).combine_chunks().cast(field.type) for field in SCHEMA if field.type != TIMESTAMP]
        times = columns.column("time").combine_chunks().cast(TIMESTAMP)
        if any(columns.column(name).null_count for name in ("time", "at", "code")):
            raise EtlError(f"{self.path} has lines that are not dead letters of a run: they lack time, at or code")
        names = pa.repeat(pa.scalar(self.name), frame.height)
        return pa.RecordBatch.from_arrays(
            [times, *arrays, names, pa.array(range(first, first + frame.height), pa.int64())], schema=LETTERS
        )


def letter_files(sink: Sink) -> list[LetterFile]:
    """The files that a sink for dead letters has written, in the order of their names.

    Raises EtlError for a sink whose letters are elsewhere than in files of JSON lines on this machine.
    """
    path, form = getattr(sink, "path", None), getattr(sink, "format", None)
    if sink.type != "file" or form != "json" or not isinstance(path, str) or "://" in path:
        there = f"{sink.type} {path}" if path else sink.type
        raise EtlError(
            f"the dead letters of this pipeline are in its sink `dead_letters` ({there}); this command reads those in "
            "local files of JSON lines, as without the option `dead_letters`"
        )
    fixed = Path(path.partition("{")[0]) if "{" in path else Path(path)
    if not path.endswith("/") and "{" not in path:
        return [LetterFile(fixed.name, fixed)] if fixed.is_file() else []
    folder = fixed if path.partition("{")[0].endswith("/") else fixed.parent
    found = (one for one in folder.rglob("*") if one.is_file() and one.name.endswith(_SUFFIXES))
    return sorted((LetterFile(str(one.relative_to(folder)), one) for one in found), key=lambda file: file.name)

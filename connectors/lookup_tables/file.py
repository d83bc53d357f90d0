"""The table `file`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr

from connectors.lookup_tables.casting import ColumnCaster
from connectors.lookup_tables.json_rows import JsonRows
from connectors.lookup_tables.row_lines import find_csv_line, find_json_line
from etl.api import ComponentError, Finding, LookupTable

log = logging.getLogger("sluice.tables")

_BLOCK_BYTES = 8 << 20
_FORMATS: Mapping[str, Literal["csv", "json", "parquet"]] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet",
}  # fmt: skip
_COMPRESSED_SUFFIXES = (".gz", ".bz2", ".zst")
_GLOB_CHARACTERS = re.compile(r"[*?\[]")


class FileTable(LookupTable):
    """A table from a file: CSV with a header, JSON lines or Parquet.

    The file is read in pieces of 8 MB, so its size does not matter; with `refresh` it is read again when it has changed. A
    value that does not fit its column's type is null. Rows of a CSV file with more or fewer fields than its header, and
    lines that are not JSON, are skipped. A warning gives their number and the position of the first. Files that end in
    `.gz`, `.bz2` or `.zst` are decompressed.

    ```yaml
    type: file
    path: intel.csv
    key: ip
    columns: {score: int}
    refresh: 10m
    ```
    """

    type: Literal["file"] = "file"
    path: str = Field(min_length=1, description="The file.", examples=["intel.csv"])
    format: Literal["auto", "csv", "json", "parquet"] = Field(
        default="auto", description="Format of the file; `auto` derives it from the file name."
    )
    delimiter: str = Field(default=",", min_length=1, max_length=1, description="Delimiter of the fields of a CSV file.")

    header: tuple[str, ...] = Field(
        default=(),
        description="Column names of a CSV file without a header line.",
        examples=[["ip", "lists"]],
    )

    _name: str | None = PrivateAttr(default=None)

    def with_name(self, name: str) -> Self:
        """Return this table with another name for messages."""
        table = self.model_copy()
        table._name = name
        return table

    @property
    def _display_name(self) -> str:
        return self._name or self.path

    def check(self) -> Iterable[Finding]:
        if self._file_format() is None:
            yield Finding(
                "unclear-format",
                f"the format of {self.path!r} is not clear from its name",
                ("path",),
                "set `format: csv`, json or parquet",
            )
        elif not Path(self.path).exists():
            hint = (
                "a table is one file, not a pattern" if _GLOB_CHARACTERS.search(self.path) else "it must exist when a run starts"
            )
            yield Finding("no-table-file", f"there is no file {self.path!r}", ("path",), hint, severity="warning")
        elif (names := self.names()) is not None:
            for at, key in enumerate(self.key):
                if key not in names:
                    path = ("key", at) if len(self.key) > 1 else ("key",)
                    yield Finding("unknown-column", f"{self.path} has no column {key!r}", path, f"it has {', '.join(names[:20])}")

    def names(self) -> Sequence[str] | None:
        """Return the columns of a file that exists and names them; a JSON file does not."""
        try:
            return {"csv": self._csv_names, "parquet": self._parquet_names}.get(self._file_format() or "", lambda: None)()
        except (OSError, pa.ArrowInvalid, ComponentError):
            return None

    def probe(self) -> Iterable[Finding]:
        try:
            Path(self.path).open("rb").close()
        except OSError as error:
            yield Finding("unreadable-file", f"{self.path}: {error.strerror}", ("path",))

    def version(self) -> str | None:
        try:
            found = Path(self.path).stat()
        except OSError:
            return None  # reading it raises the error
        return f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        file_format = self._file_format()
        if file_format is None:
            raise ComponentError(f"{self._display_name}: its name does not give the format; set `format: csv`, json or parquet")
        if not Path(self.path).is_file():
            raise ComponentError(f"{self._display_name}: there is no such file")
        readers: Mapping[str, Callable[[Sequence[str], ColumnCaster], Iterator[pa.RecordBatch]]] = {
            "csv": self._csv, "json": self._json, "parquet": self._parquet,
        }  # fmt: skip
        caster = ColumnCaster(self.column)
        try:
            yield from readers[file_format](columns, caster)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise ComponentError(f"{self._display_name} cannot be read as {file_format}: {error}") from error
        if caster.count:
            log.warning("%s: %s", self._display_name, caster.describe(self._describe_row))

    def locate_row(self, row: int) -> str | None:
        line = self._line(row)
        return f"{self._display_name}:{line}" if line else f"{self._display_name}, row {row + 1:,}"

    def _describe_row(self, row: int) -> str:
        line = self._line(row)
        return f"line {line:,}" if line else f"row {row + 1:,}"

    def _line(self, row: int) -> int | None:
        """Return the line of a row, if the format has lines."""
        file_format = self._file_format()
        if file_format == "csv":
            return find_csv_line(self._open(), row, self._separator(), len(self._csv_names()), not self.header)
        return find_json_line(self._open(), row) if file_format == "json" else None

    def _file_format(self) -> Literal["csv", "json", "parquet"] | None:
        if self.format != "auto":
            return self.format
        path = Path(self.path)
        return _FORMATS.get(path.with_suffix("").suffix if path.suffix in _COMPRESSED_SUFFIXES else path.suffix)

    def _separator(self) -> str:
        tabs = self.delimiter == "," and ".tsv" in Path(self.path).suffixes
        return "\t" if tabs else self.delimiter

    def _open(self) -> Any:
        return pa.input_stream(self.path, compression="detect")

    def _csv_names(self) -> list[str]:
        import csv
        import io

        if self.header:
            return list(self.header)
        with self._open() as file:
            head = file.read(1 << 16).decode("utf-8-sig", "replace")
        return next(csv.reader(io.StringIO(head), delimiter=self._separator()), [])

    def _csv(self, columns: Sequence[str], caster: ColumnCaster) -> Iterator[pa.RecordBatch]:
        from pyarrow import csv

        skipped: list[Any] = []

        def skip_row(row: Any) -> str:
            skipped.append(row)
            return "skip"

        self._require_columns(columns, self._csv_names())
        reader = csv.open_csv(
            self._open(),
            csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False, column_names=self.header or None),
            csv.ParseOptions(delimiter=self._separator(), newlines_in_values=True, invalid_row_handler=skip_row),
            csv.ConvertOptions(
                include_columns=list(columns),
                column_types=dict.fromkeys(columns, pa.string()),
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
        for batch in reader:
            yield caster.cast_batch(batch.select(list(columns)))
        if skipped:
            log.warning("%s: %s", self._display_name, _describe_skipped(skipped))

    def _parquet_names(self) -> list[str]:
        from pyarrow import parquet

        return list(parquet.read_schema(self.path).names)

    def _parquet(self, columns: Sequence[str], caster: ColumnCaster) -> Iterator[pa.RecordBatch]:
        from pyarrow import parquet

        self._require_columns(columns, self._parquet_names())
        with parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(columns=list(columns)):
                yield caster.cast_batch(batch.select(list(columns)))

    def _json(self, columns: Sequence[str], caster: ColumnCaster) -> Iterator[pa.RecordBatch]:
        rows = JsonRows(columns)
        with self._open() as file:
            rest = b""
            while data := file.read(_BLOCK_BYTES):
                whole, newline, rest = (rest + data).rpartition(b"\n")
                yield from map(caster.cast_batch, rows.to_batches(whole + newline))
            yield from map(caster.cast_batch, rows.to_batches(rest))
        if rows.invalid:
            if not rows.valid:
                raise ComponentError(f"{self._display_name} cannot be read as JSON lines: {rows.describe()}")
            log.warning("%s: %s", self._display_name, rows.describe())

    def _require_columns(self, columns: Sequence[str], names: Sequence[str]) -> None:
        missing = [name for name in columns if name not in names]
        if missing:
            raise ComponentError(f"{self._display_name} has no column {missing[0]!r}; it has {', '.join(names[:20])}")


def _describe_skipped(rows: Sequence[Any]) -> str:
    """Describe rows whose number of fields differs from the number of columns; an unclosed quote swallows the lines after it."""
    first = rows[0]
    many = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
    where = f"the first, row {first.number}, has {first.actual_columns}, not {first.expected_columns}"
    longest = max(rows, key=lambda row: row.text.count("\n"))
    lines = longest.text.count("\n") + 1
    opened = longest.text.count('"') % 2
    quote = f"; row {longest.number} takes {lines:,} lines because a quote in it is not closed" if opened else ""
    return (
        f"{many} skipped, whose number of fields differs from the number of columns: "
        f"{where}, and begins with {first.text[:40]!r}{quote}"
    )

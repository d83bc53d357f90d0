"""The table `file`."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import pyarrow as pa
from pydantic import Field, PrivateAttr

from connectors.lookup_tables.casting import Casting
from connectors.lookup_tables.json_rows import JsonRows
from connectors.lookup_tables.rows import csv_line, json_line
from etl.api import ComponentError, Finding, LookupTable

log = logging.getLogger("sluice.tables")

_BLOCK_BYTES = 8 << 20
_FORMATS: Mapping[str, Literal["csv", "json", "parquet"]] = {
    ".csv": "csv", ".tsv": "csv", ".txt": "csv", ".json": "json", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet",
}  # fmt: skip
_PACKED = (".gz", ".bz2", ".zst")
_WILD = re.compile(r"[*?\[]")


class FileTable(LookupTable):
    """A table from a file: CSV with a header, JSON lines or Parquet.

    The file is read in pieces of 8 MB, so its size does not matter; with `refresh` it is read again when it has changed. A
    value that is none of its column's type is null. Rows of a CSV file with more or fewer fields than its header, and lines
    that are no JSON, are left out. A warning counts all of these, and says where the first is. Files that end in `.gz`,
    `.bz2` or `.zst` are unpacked.

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
        default="auto", description="What is in it; `auto` goes by the end of its name."
    )
    delimiter: str = Field(default=",", min_length=1, max_length=1, description="What stands between the fields of a CSV file.")

    header: tuple[str, ...] = Field(
        default=(),
        description="Names of the columns of a CSV file whose first line does not name them.",
        examples=[["ip", "lists"]],
    )

    _name: str | None = PrivateAttr(default=None)

    def called(self, name: str) -> Self:
        """The same, that messages call otherwise than by its path."""
        table = self.model_copy()
        table._name = name
        return table

    @property
    def _called(self) -> str:
        return self._name or self.path

    def check(self) -> Iterable[Finding]:
        if self._kind() is None:
            yield Finding(
                "unclear-format", f"{self.path!r} does not say what is in it", ("path",), "say `format: csv`, json or parquet"
            )
        elif not Path(self.path).exists():
            hint = "a table is one file, and no pattern" if _WILD.search(self.path) else "it has to be there when a run starts"
            yield Finding("no-table-file", f"there is no file {self.path!r}", ("path",), hint, severity="warning")
        elif (names := self.names()) is not None:
            for at, key in enumerate(self.key):
                if key not in names:
                    path = ("key", at) if len(self.key) > 1 else ("key",)
                    yield Finding("unknown-column", f"{self.path} has no column {key!r}", path, f"it has {', '.join(names[:20])}")

    def names(self) -> Sequence[str] | None:
        """The columns of a file that is there and says so; a JSON file does not."""
        try:
            return {"csv": self._csv_names, "parquet": self._parquet_names}.get(self._kind() or "", lambda: None)()
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
            return None  # reading it says what is wrong
        return f"{found.st_mtime_ns}-{found.st_size}-{found.st_ino}"

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        kind = self._kind()
        if kind is None:
            raise ComponentError(f"{self._called} does not say what is in it; say `format: csv`, json or parquet")
        if not Path(self.path).is_file():
            raise ComponentError(f"{self._called}: there is no such file")
        readers: Mapping[str, Callable[[Sequence[str], Casting], Iterator[pa.RecordBatch]]] = {
            "csv": self._csv, "json": self._json, "parquet": self._parquet,
        }  # fmt: skip
        casting = Casting(self.column)
        try:
            yield from readers[kind](columns, casting)
        except (pa.ArrowInvalid, pa.ArrowKeyError) as error:
            raise ComponentError(f"{self._called} cannot be read as {kind}: {error}") from error
        if casting.count:
            log.warning("%s: %s", self._called, casting.said(self._in_words))

    def place(self, row: int) -> str | None:
        line = self._line(row)
        return f"{self._called}:{line}" if line else f"{self._called}, row {row + 1:,}"

    def _in_words(self, row: int) -> str:
        line = self._line(row)
        return f"line {line:,}" if line else f"row {row + 1:,}"

    def _line(self, row: int) -> int | None:
        """In which line a row stands, where there are lines."""
        kind = self._kind()
        if kind == "csv":
            return csv_line(self._opened(), row, self._separator(), len(self._csv_names()), not self.header)
        return json_line(self._opened(), row) if kind == "json" else None

    def _kind(self) -> Literal["csv", "json", "parquet"] | None:
        if self.format != "auto":
            return self.format
        path = Path(self.path)
        return _FORMATS.get(path.with_suffix("").suffix if path.suffix in _PACKED else path.suffix)

    def _separator(self) -> str:
        tabs = self.delimiter == "," and ".tsv" in Path(self.path).suffixes
        return "\t" if tabs else self.delimiter

    def _opened(self) -> Any:
        return pa.input_stream(self.path, compression="detect")

    def _csv_names(self) -> list[str]:
        import csv
        import io

        if self.header:
            return list(self.header)
        with self._opened() as file:
            head = file.read(1 << 16).decode("utf-8-sig", "replace")
        return next(csv.reader(io.StringIO(head), delimiter=self._separator()), [])

    def _csv(self, columns: Sequence[str], casting: Casting) -> Iterator[pa.RecordBatch]:
        from pyarrow import csv

        wrong: list[Any] = []

        def left_out(row: Any) -> str:
            wrong.append(row)
            return "skip"

        self._there(columns, self._csv_names())
        reader = csv.open_csv(
            self._opened(),
            csv.ReadOptions(block_size=_BLOCK_BYTES, use_threads=False, column_names=self.header or None),
            csv.ParseOptions(delimiter=self._separator(), newlines_in_values=True, invalid_row_handler=left_out),
            csv.ConvertOptions(
                include_columns=list(columns),
                column_types=dict.fromkeys(columns, pa.string()),
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
        for batch in reader:
            yield casting.batch(batch.select(list(columns)))
        if wrong:
            log.warning("%s: %s", self._called, _left_out(wrong))

    def _parquet_names(self) -> list[str]:
        from pyarrow import parquet

        return list(parquet.read_schema(self.path).names)

    def _parquet(self, columns: Sequence[str], casting: Casting) -> Iterator[pa.RecordBatch]:
        from pyarrow import parquet

        self._there(columns, self._parquet_names())
        with parquet.ParquetFile(self.path) as file:
            for batch in file.iter_batches(columns=list(columns)):
                yield casting.batch(batch.select(list(columns)))

    def _json(self, columns: Sequence[str], casting: Casting) -> Iterator[pa.RecordBatch]:
        rows = JsonRows(columns)
        with self._opened() as file:
            rest = b""
            while data := file.read(_BLOCK_BYTES):
                whole, newline, rest = (rest + data).rpartition(b"\n")
                yield from map(casting.batch, rows.of(whole + newline))
            yield from map(casting.batch, rows.of(rest))
        if rows.wrong:
            if not rows.right:
                raise ComponentError(f"{self._called} cannot be read as JSON lines: {rows.said()}")
            log.warning("%s: %s", self._called, rows.said())

    def _there(self, columns: Sequence[str], names: Sequence[str]) -> None:
        missing = [name for name in columns if name not in names]
        if missing:
            raise ComponentError(f"{self._called} has no column {missing[0]!r}; it has {', '.join(names[:20])}")


def _left_out(rows: Sequence[Any]) -> str:
    """Rows with a number of fields that is not that of the columns, in words; an open quote takes all lines behind it."""
    first = rows[0]
    many = "1 row" if len(rows) == 1 else f"{len(rows):,} rows"
    where = f"the first, row {first.number}, has {first.actual_columns}, not {first.expected_columns}"
    longest = max(rows, key=lambda row: row.text.count("\n"))
    lines = longest.text.count("\n") + 1
    opened = longest.text.count('"') % 2
    quote = f"; row {longest.number} takes {lines:,} lines, for a quote in it is not closed" if opened else ""
    return f"{many} left out for another number of fields than there are columns: {where}, and begins {first.text[:40]!r}{quote}"

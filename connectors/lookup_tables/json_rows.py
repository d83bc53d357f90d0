"""JSON lines → columns of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from connectors.lookup_tables.row_lines import is_json
from etl.api import ComponentError

_MAX_SHOWN_CHARS = 40
"""Characters of a line shown in a message."""


class JsonRows:
    """Parses JSON lines; a line that is not JSON is skipped and counted."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self.valid = self.invalid = 0
        self._first = ""
        self._lines = 0

    def to_batches(self, lines: bytes) -> Iterator[pa.RecordBatch]:
        """Return the columns of complete lines, as texts. Raises ComponentError."""
        import polars as pl

        if lines.strip():
            try:
                rows = self._read(lines)
            except pl.exceptions.PolarsError:
                try:
                    rows = self._read(self._valid_lines(lines))
                except pl.exceptions.PolarsError as error:
                    raise ComponentError(f"some JSON lines cannot be read: {error}") from error
            self.valid += rows.num_rows
            yield from rows.to_batches()
        self._lines += lines.count(b"\n")

    def describe(self) -> str:
        """Return a message about all skipped lines."""
        many = "1 line is not JSON and is" if self.invalid == 1 else f"{self.invalid:,} lines are not JSON and are"
        return f"{many} skipped: the first, {self._first}"

    def _read(self, lines: bytes) -> pa.Table:
        import polars as pl

        texts = pa.schema([(name, pa.string()) for name in self._columns])
        if not lines:
            return texts.empty_table()
        rows = pl.read_ndjson(lines, schema=dict.fromkeys(self._columns, pl.String), ignore_errors=True)
        return rows.to_arrow().cast(texts)

    def _valid_lines(self, lines: bytes) -> bytes:
        """Return the lines that are JSON."""
        valid = []
        for number, line in enumerate(lines.split(b"\n"), self._lines + 1):
            if is_json(line):
                valid.append(line)
            elif line.strip():
                self.invalid += 1
                self._first = self._first or f"line {number:,}, begins {line.decode(errors='replace')[:_MAX_SHOWN_CHARS]!r}"
        return b"\n".join(valid)

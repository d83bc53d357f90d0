"""JSON lines → columns of texts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from connectors.lookup_tables.rows import is_json
from etl.api import ComponentError

_MOST_SHOWN = 40
"""Characters of a line that are shown."""


class JsonRows:
    """The rows of lines; a line that is no JSON is left out and counted."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = columns
        self.right = self.wrong = 0
        self._first = ""
        self._lines = 0

    def of(self, lines: bytes) -> Iterator[pa.RecordBatch]:
        """The columns of whole lines, as texts. Raises ComponentError."""
        import polars as pl

        if lines.strip():
            try:
                rows = self._read(lines)
            except pl.exceptions.PolarsError:
                try:
                    rows = self._read(self._good(lines))
                except pl.exceptions.PolarsError as error:
                    raise ComponentError(f"not all of what is JSON can be read: {error}") from error
            self.right += rows.num_rows
            yield from rows.to_batches()
        self._lines += lines.count(b"\n")

    def said(self) -> str:
        """About all lines that were left out."""
        many = "1 line is no JSON and is" if self.wrong == 1 else f"{self.wrong:,} lines are no JSON and are"
        return f"{many} left out: the first, {self._first}"

    def _read(self, lines: bytes) -> pa.Table:
        import polars as pl

        texts = pa.schema([(name, pa.string()) for name in self._columns])
        if not lines:
            return texts.empty_table()
        rows = pl.read_ndjson(lines, schema=dict.fromkeys(self._columns, pl.String), ignore_errors=True)
        return rows.to_arrow().cast(texts)

    def _good(self, lines: bytes) -> bytes:
        """The lines without those that are no JSON."""
        kept = []
        for number, line in enumerate(lines.split(b"\n"), self._lines + 1):
            if is_json(line):
                kept.append(line)
            elif line.strip():
                self.wrong += 1
                self._first = self._first or f"line {number:,}, begins {line.decode(errors='replace')[:_MOST_SHOWN]!r}"
        return b"\n".join(kept)

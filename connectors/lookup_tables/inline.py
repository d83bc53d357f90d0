"""The table `inline`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from connectors.lookup_tables.casting import as_type
from etl.api import Finding, LookupTable, format_type


class InlineTable(LookupTable):
    """Rows that stand in the pipeline file itself: names for a few codes, and what tests look up.

    A value that a row leaves out is null.

    ```yaml
    type: inline
    key: code
    columns: {code: int}
    rows:
      - {code: 4624, meaning: logon}
      - {code: 4625, meaning: failed logon}
    ```
    """

    type: Literal["inline"] = "inline"
    rows: list[Mapping[str, str | int | float | bool | None]] = Field(description="The rows: column → value.")

    def check(self) -> Iterable[Finding]:
        for at, row in enumerate(self.rows):
            for key in self.key:
                if row.get(key) is None:
                    yield Finding("missing-key", f"the row has no {key!r}, which is its key", ("rows", at))
        for name in self.columns:
            wanted = self.column(name)
            for at, row in enumerate(self.rows):
                text = _text(row.get(name))
                if text and text.strip() and as_type(pa.array([text]), wanted).null_count:
                    message = f"{row[name]!r} is no {format_type(wanted)}, which column {name!r} has"
                    yield Finding("wrong-type", message, ("rows", at, name))

    def names(self) -> Sequence[str]:
        return list(dict.fromkeys([*self.key, *(name for row in self.rows for name in row)]))

    def version(self) -> str:
        return "the file's"

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        texts = {name: pa.array([_text(row.get(name)) for row in self.rows], pa.string()) for name in columns}
        yield pa.RecordBatch.from_pydict({name: as_type(column, self.column(name)) for name, column in texts.items()})


def _text(value: Any) -> str | None:
    """A value as the YAML file has it, but for the words of truth values."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)

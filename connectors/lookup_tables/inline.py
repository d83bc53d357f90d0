"""The table `inline`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import pyarrow as pa
from pydantic import Field

from connectors.lookup_tables.casting import cast_texts
from etl.api import Finding, LookupTable, format_type


class InlineTable(LookupTable):
    """Rows in the pipeline file itself, for example names for a few codes, or data for tests.

    A column missing in a row is null.

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
                    yield Finding("missing-key", f"the row has no {key!r}, its key", ("rows", at))
        for name in self.columns:
            type_ = self.column(name)
            for at, row in enumerate(self.rows):
                text = _text(row.get(name))
                if text and text.strip() and cast_texts(pa.array([text]), type_).null_count:
                    message = f"{row[name]!r} is not a {format_type(type_)}, the type of column {name!r}"
                    yield Finding("wrong-type", message, ("rows", at, name))

    def names(self) -> Sequence[str]:
        return list(dict.fromkeys([*self.key, *(name for row in self.rows for name in row)]))

    def version(self) -> str:
        return "the file's"

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        texts = {name: pa.array([_text(row.get(name)) for row in self.rows], pa.string()) for name in columns}
        yield pa.RecordBatch.from_pydict({name: cast_texts(column, self.column(name)) for name, column in texts.items()})


def _text(value: Any) -> str | None:
    """Return a value as YAML writes it."""
    return None if value is None else str(value).lower() if isinstance(value, bool) else str(value)

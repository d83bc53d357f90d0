"""What a look-up table is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pydantic import Field

from etl.contract.components import Component
from etl.contract.errors import Finding
from etl.options import Duration, Names
from etl.types import TypeName, parse_type


class Table(Component):
    """Rows that steps look up by key: read whole when a run starts, and again every ``refresh``."""

    key: Names = Field(
        description="The column with the keys, or several that are one key; of ranges those of the first and the last value.",
        examples=["ip"],
    )
    columns: Mapping[str, TypeName] = Field(
        default={}, description="Types of columns, in Spark SQL; one that is not named is text.", examples=[{"score": "int"}]
    )
    refresh: Duration | None = Field(
        default=None, description="How often a run that follows its sources reads the table again.", examples=["10m"]
    )

    def check(self) -> Iterable[Finding]:
        """Findings about the options that the schema cannot express."""
        return ()

    def names(self) -> Sequence[str] | None:
        """The columns there are, where that can be told without reaching another host; None where not."""
        return None

    def column(self, name: str) -> pa.DataType:
        """A column's type."""
        return parse_type(self.columns[name]) if name in self.columns else pa.string()

    def probe(self) -> Iterable[Finding]:
        """As `Source.probe`."""
        return ()

    def version(self) -> str | None:
        """A text that is another when rows may have changed: while it is not, the table is not read again. None if only
        reading can tell."""
        return None

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """All rows, with these columns in the types of `column`; a value that is none of its type is null. An OSError is
        temporary, a ComponentError says what is wrong with the table: the version before stays in use."""
        raise NotImplementedError

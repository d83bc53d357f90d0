"""The base class of look-up tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import pyarrow as pa
from pydantic import Field

from etl.contract.components import Component
from etl.contract.errors import Finding
from etl.options import Duration, Names
from etl.types import TypeName, parse_type


@dataclass(frozen=True, slots=True)
class Changes:
    """How changed rows of a table are found, so that not all rows are read at each refresh."""

    id: tuple[str, ...]
    """The columns that identify a row."""

    gone: str | None = None
    """A column that marks deleted rows: by true, a number other than 0, or any value of another type."""

    whole: timedelta | None = None
    """The time between two readings of all rows, which find changes that no row shows; None: never."""


@dataclass(frozen=True, slots=True)
class Newer:
    """Rows that may have changed: their version, if there is one, and a function that reads them, which may be called twice."""

    version: str | None
    read: Callable[[], Iterator[pa.RecordBatch]]
    locate_row: Callable[[int], str | None] = lambda _: None
    """`LookupTable.locate_row` of these rows."""


class LookupTable(Component):
    """Rows that steps look up by key; they are read when a run starts, and again after each ``refresh``."""

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
        """The names of its columns, if they are known without connecting to another host; otherwise None."""
        return None

    def column(self, name: str) -> pa.DataType:
        """A column's type."""
        return parse_type(self.columns[name]) if name in self.columns else pa.string()

    def probe(self) -> Iterable[Finding]:
        """As `Source.probe`."""
        return ()

    def version(self) -> str | None:
        """A text that changes when rows may have changed: while it is equal, the table is not read again. None if unknown."""
        return None

    def read(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Read all rows, with these columns in the types of `column`; a value of another type is null. An OSError is temporary, a
        ComponentError is an error in the table: in both cases the earlier version stays in use."""
        raise NotImplementedError

    def locate_row(self, row: int) -> str | None:
        """The location of row number ``row`` (from 0, in the order of `read`), for messages. None if unknown."""
        return None

    def newer(self, columns: Sequence[str], version: str | None) -> Newer | None:
        """Its rows, or None if ``version`` is still current. Raises what `read` raises."""
        now = self.version()
        if now is not None and now == version:
            return None
        return Newer(now, lambda: self.read(columns), self.locate_row)

    def changes(self) -> Changes | None:
        """How changed rows are found; None if the table is always read whole. Requires `mark` and `read_since`."""
        return None

    def mark(self) -> str | int | None:
        """The mark from which the next `read_since` reads; called before each reading."""
        raise NotImplementedError

    def read_since(self, columns: Sequence[str], mark: str | int | None) -> Iterator[pa.RecordBatch]:
        """As `read`, but the rows added or changed since the mark; unchanged ones may be among them."""
        raise NotImplementedError

"""What a look-up table is."""

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
    """How a table tells what changed in it, so that it need not be read whole each time."""

    id: tuple[str, ...]
    """The columns that tell its rows apart."""

    gone: str | None = None
    """A column of rows that are no longer meant: true, another number than 0, or any value of another type."""

    whole: timedelta | None = None
    """How often it is read whole all the same, for what no changed row tells; None: never."""


@dataclass(frozen=True, slots=True)
class Newer:
    """Rows that may have changed: their version, if it can be told, and the rows, which may be asked for twice."""

    version: str | None
    read: Callable[[], Iterator[pa.RecordBatch]]
    place: Callable[[int], str | None] = lambda _: None
    """`LookupTable.place`, of these rows."""


class LookupTable(Component):
    """Rows that steps look up by key: read when a run starts, and again every ``refresh``."""

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

    def place(self, row: int) -> str | None:
        """Where a row, counted from 0 as `read` gives them, stands: for messages. None if that cannot be told."""
        return None

    def newer(self, columns: Sequence[str], version: str | None) -> Newer | None:
        """Its rows as `read` gives them, unless they are still those of ``version``: then None. Raises what `read` raises."""
        now = self.version()
        if now is not None and now == version:
            return None
        return Newer(now, lambda: self.read(columns), self.place)

    def changes(self) -> Changes | None:
        """None when it can only be read whole. Otherwise `mark` and `read_since` are there."""
        return None

    def mark(self) -> str | int | None:
        """Asked in front of a reading: where the next `read_since` has to begin."""
        raise NotImplementedError

    def read_since(self, columns: Sequence[str], mark: str | int | None) -> Iterator[pa.RecordBatch]:
        """As `read`, the rows that came or changed since the mark was made; some that did not may be among them."""
        raise NotImplementedError

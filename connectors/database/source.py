"""The ``database`` source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field

from connectors.database.arrays import Bad
from connectors.database.checks import of_order, of_table
from connectors.database.options import RowsOptions
from connectors.database.places import place_of, table_url
from connectors.database.probing import reached
from connectors.database.ranges import Bound, Order, Range, has_nulls, instant, lowest, newest, of_offset, parts, to_offset
from connectors.database.reading import rows, selected
from connectors.database.session import Session, close, connected, session_of
from etl.api import (
    OFFSET,
    ComponentError,
    Duration,
    FieldName,
    Finding,
    Limit,
    Offset,
    Rejects,
    Schema,
    Source,
    Split,
    TypeName,
    nearest,
    parse_type,
)

Column = Annotated[str, Field(min_length=1, max_length=64)]


class DatabaseSource(RowsOptions, Source):
    """Read a table or query of MySQL, MariaDB, PostgreSQL or SQLite, once or as it grows.

    Read once (without ``follow``), it ends when all rows are read. With ``id``, a whole number that is unique and never null
    (a null ends the run), ranges of it are read side by side; without, all rows are one split. With ``follow: true``, rows are
    read that come behind the last one, in the order of ``time`` and, within one time, of ``id``, or of ``id`` alone. A row
    that changes and gets a new time is read again, as a new event; one with a null in ``time`` or ``id`` is not read.

    A database shows rows when they are committed, which need not be in the order of their times or ids: a row that becomes
    visible behind one that was read already is lost. ``lag`` therefore leaves out rows of the last seconds (by the
    database's clock, in bounded runs too): make it longer than the longest transaction that writes them. Ids without a time
    are safe where one writer at a time adds rows.

    Delivery: exactly once, up to the sinks' guarantees, as long as rows that were read once do not change: a split that is
    read again asks the database again. Without ``id`` the database may give rows in another order then, so delivery is at
    least once. Rows of a split come in the order of their ids; splits, the unit of parallelism, are ranges of ids or times,
    each with a connection of its own. `_offset` is the id, or the row's number. Tested against the real servers, and by
    killing the process on the way.

    ``fields`` declares which columns are read, and as what: a table is not asked before the run (`etl lint --connect`
    compares). Nested values are texts: read JSON with the step `json`. A value that cannot be read as its type goes to the
    dead letters (``unreadable-value``), in PostgreSQL, whose columns have one type, it ends the run. Times without zone are
    taken as UTC. Connections that fail are tried again. A SQLite file that is written to while it is read should be in WAL mode
    (``PRAGMA journal_mode=WAL``): else the writer waits for the reader, for ever if it is a sink of the same pipeline.

    ```yaml
    type: database
    url: postgresql://localhost:5432/shop
    user: sluice
    password: ${DB_PASSWORD}
    table: orders
    fields: {id: bigint, changed: timestamp, customer: string, total: "decimal(10,2)"}
    follow: true
    time: changed
    id: id
    ```
    """

    type: Literal["database"] = "database"
    declared: dict[FieldName, TypeName] = Field(
        alias="fields", min_length=1, description="Field → type of what is read.", examples=[{"id": "bigint", "name": "string"}]
    )
    columns: dict[FieldName, Column] = Field(
        default={},
        description="Field → column, where it is not the field's name with dots as underscores.",
        examples=[{"user.name": "login"}],
    )
    follow: bool = Field(default=False, description="Wait for new rows; without it the source ends when all are read.")
    id: FieldName | None = Field(default=None, description="A field that is a whole number, unique, and grows with new rows.")
    time: FieldName | None = Field(
        default=None, description="A field that grows when rows are added or changed, most often a time."
    )
    lag: Duration = Field(
        default=timedelta(seconds=5), ge=timedelta(0), description="How old `time` must be before a row is read while following."
    )
    begin: Literal["beginning", "end"] = Field(
        default="beginning", alias="start", description="Where to begin when the pipeline first starts, with `follow`."
    )

    def check(self) -> Iterable[Finding]:
        """A URL that cannot be read, no table or both, a time or id that does not fit."""
        yield from self.rows_findings()
        for name, type_ in self.declared.items():
            if pa.types.is_nested(parse_type(type_)):
                hint = "declare it as string and read it with the step json"
                yield Finding("unreadable-type", f"{name!r} is {type_}, and a column is one value", ("fields", name), hint)
        for name in self.columns:
            if name not in self.declared:
                yield Finding("unknown-field", f"fields declares no {name!r}", ("columns", name), nearest(name, self.declared))
        yield from of_order(self)

    def fields(self) -> Schema:
        """As declared."""
        return pa.schema([(name, parse_type(type_)) for name, type_ in self.declared.items()])

    def reads(self, target: str) -> bool:
        """Whether it is the table, and new rows are waited for."""
        return self.follow and self.table is not None and target == table_url(place_of(self.url), self.table)

    def probe(self) -> Iterable[Finding]:
        """Reach it, log in, compare the columns with the fields."""
        yield from reached(self.access, lambda session: of_table(self, session))

    @property
    def skips(self) -> str | None:
        """Rows that are there already, if the options say so."""
        return "start: end" if self.follow and self.begin == "end" else None

    def start(self) -> Offset:
        """In front of the first row; with ``start: end``, behind the last."""
        if not self.follow or self.begin == "beginning":
            return {}
        session = session_of(self.access)
        found = newest(session, self._order(session), None, Limit(1 << 62))
        return to_offset(found[0], self.time is not None, 0) if found else {}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """As many rows as the limit's bytes; without ``id`` all of them."""
        if start.get("done"):
            return start
        if self.id is None:
            return {"done": True}
        session = session_of(self.access)
        order = self._order(session)
        if not self.follow and not start and has_nulls(session, order):
            raise ComponentError(
                f"{session.access.place}: there are rows whose {self.id!r} is null, which would be left out: ranges of ids "
                "do not hold them; leave id out, or name a field that is never null"
            )
        found = newest(session, order, of_offset(start), limit)
        if found is None:
            return start if self.follow else {**start, "done": True, "rows": 0}
        end = to_offset(found[0], self.follow and self.time is not None, found[1])
        if "id" not in start:
            end["low"] = lowest(session, order, found[0])
        return end

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Equal ranges of ids or times."""
        if end.get("done"):
            return [] if "rows" in end else [Split("0", 0, 1)]
        last = of_offset(end)
        assert last is not None
        timed = "time" in end
        found = parts(of_offset(start), last, end.get("low", 0), end["rows"], parallelism, timed)
        return [_split(part, timed, end.get("low", 0)) for part in found]

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Batches of up to 65,536 rows over a connection of its own."""
        session = connected(self.access)
        try:
            sql = f"SELECT {selected(session, self.fields(), self.chosen)} FROM {self.rows(session)}"
            if split.detail is not None:
                order = self._order(session)
                sql += f" WHERE {order.where(session, Range(*split.detail))} ORDER BY {order.id}"
            counted = 0
            for batch, bad in rows(session, sql, self.fields()):
                yield from self._placed(batch, bad, counted)
                counted += batch.num_rows
        finally:
            close(session)

    def ended(self, offset: Offset) -> bool:
        """Read once: when it was."""
        return bool(offset.get("done"))

    def _placed(self, batch: pa.RecordBatch, bad: Bad | None, counted: int) -> Iterator[pa.RecordBatch | Rejects]:
        """With offsets, the rows at fault apart."""
        import numpy as np
        import pyarrow.compute as pc

        numbers = pa.array(np.arange(counted, counted + batch.num_rows))
        offsets = numbers if self.id is None else pc.coalesce(batch.column(self.id).cast(pa.int64()), numbers)
        batch = batch.append_column(OFFSET, offsets)
        if bad is None:
            yield batch
            return
        good = np.ones(batch.num_rows, bool)
        good[bad.rows] = False
        yield Rejects(batch.take(pa.array(bad.rows)), "unreadable-value", pa.array(bad.reasons))
        yield batch.filter(pa.array(good))

    @property
    def chosen(self) -> list[str]:
        """The columns that are read, in the order of the fields."""
        return [self._column(name) for name in self.declared]

    def _column(self, field: str) -> str:
        return self.columns.get(field, field.replace(".", "_"))

    def _order(self, session: Session) -> Order:
        assert self.id is not None
        time = self.time if self.follow else None
        return Order(
            self.rows(session),
            session.quoted(self._column(self.id)),
            session.quoted(self._column(time)) if time else None,
            parse_type(self.declared[time]) if time else None,
            self.lag.total_seconds(),
        )


def _split(part: Range, timed: bool, low: int) -> Split:
    """Named by ids (half open), or by times."""
    first = part.after or Bound(low, low)
    begin, end = (instant(first.time), instant(part.last.time)) if timed else (first.id + 1, part.last.id + 1)
    return Split("0", begin, end, (part.after, part.last))

"""The ``database`` source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import Field

from connectors.database.connection_options import RowsOptions
from connectors.database.database_url import parse_url, table_url
from connectors.database.option_checks import check_order, check_table
from connectors.database.probe import probe_database
from connectors.database.row_ranges import (
    RowBound,
    RowOrder,
    RowRange,
    bound_from_offset,
    count_rows,
    divide_range,
    find_batch_end,
    find_first_row,
    has_nulls,
    time_to_micros,
    to_offset,
)
from connectors.database.row_reader import read_rows, select_list
from connectors.database.session import Session, close, open_session, shared_session
from connectors.shared.typed_batch import UnreadableRows
from etl.api import (
    OFFSET,
    Backlog,
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

    Without ``follow`` the source ends when all rows are read. With ``id``, a whole number that is unique and never null (a
    null ends the run), ranges of ids are read in parallel; without it all rows are one split. With ``follow: true`` the
    source reads rows after the last one, in the order of ``time`` and then ``id``, or of ``id`` alone. A row that is updated
    and gets a new time is read again, as a new event; a row with a null in ``time`` or ``id`` is not read.

    Rows become visible when they are committed, not necessarily in the order of their times or ids: a row that becomes
    visible after a later one was read is lost. So the source does not read rows of the last seconds (``lag``, by the
    database's clock, in bounded runs, too): set it longer than the longest transaction that writes them. Ids without a time
    are safe if only one writer at a time adds rows.

    Delivery: exactly once, up to the sinks' guarantees, as long as rows do not change after they were read: a retried
    split reads them again. Without ``id`` the database may then return them in another order, so delivery is at least
    once. Rows of a split are in the order of their ids; splits, the unit of parallelism, are ranges of ids or times,
    each with a connection of its own. `_offset` is the id, or the row's number. Tested against real servers, and by
    killing the process.

    ``fields`` declares the columns to read and their types; the table is not inspected before the run (`etl lint --connect`
    compares). Nested values are texts: parse JSON with the step `json`. A value that does not fit its type is a dead letter
    (``unreadable-value``); in PostgreSQL, whose columns have one type, it ends the run. Times without a zone are UTC. Failed
    connections are retried. A SQLite file that is written while it is read should be in WAL mode (``PRAGMA
    journal_mode=WAL``): else the writer waits for the reader, for ever if it is a sink of the same pipeline.

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
        alias="fields",
        min_length=1,
        description="Field → type of the columns to read.",
        examples=[{"id": "bigint", "name": "string"}],
    )
    columns: dict[FieldName, Column] = Field(
        default={},
        description="Field → column, if it is not the field's name with dots as underscores.",
        examples=[{"user.name": "login"}],
    )
    follow: bool = Field(default=False, description="Wait for new rows; without it the source ends when all rows are read.")
    id: FieldName | None = Field(default=None, description="Field with a unique whole number that increases with new rows.")
    time: FieldName | None = Field(
        default=None, description="Field that increases when rows are added or changed, usually a time."
    )
    lag: Duration = Field(
        default=timedelta(seconds=5), ge=timedelta(0), description="Minimum age of `time` before a row is read, with `follow`."
    )
    begin: Literal["beginning", "end"] = Field(
        default="beginning", alias="start", description="Where a new pipeline begins, with `follow`."
    )

    def check(self) -> Iterable[Finding]:
        """Check the URL, the table or query, and the fields of time and id."""
        yield from self.check_rows()
        for name, type_ in self.declared.items():
            if pa.types.is_nested(parse_type(type_)):
                hint = "declare it as string and parse it with the step json"
                yield Finding(
                    "unreadable-type", f"{name!r} is {type_}, but a column holds a single value", ("fields", name), hint
                )
        for name in self.columns:
            if name not in self.declared:
                yield Finding(
                    "unknown-field", f"{name!r} is not declared in fields", ("columns", name), nearest(name, self.declared)
                )
        yield from check_order(self)

    def fields(self) -> Schema:
        """Return the declared fields."""
        return pa.schema([(name, parse_type(type_)) for name, type_ in self.declared.items()])

    def reads(self, target: str) -> bool:
        """Return whether the target is the table, and the source follows it."""
        return self.follow and self.table is not None and target == table_url(parse_url(self.url), self.table)

    def probe(self) -> Iterable[Finding]:
        """Connect, log in, and compare the columns with the fields."""
        yield from probe_database(self.settings, lambda session: check_table(self, session))

    @property
    def skips(self) -> str | None:
        """The option that skips existing rows, if it is set."""
        return "start: end" if self.follow and self.begin == "end" else None

    def start(self) -> Offset:
        """Return the offset before the first row; with ``start: end``, after the last."""
        if not self.follow or self.begin == "beginning":
            return {}
        session = shared_session(self.settings)
        found = find_batch_end(session, self._order(session), None, Limit(1 << 62))
        return to_offset(found[0], self.time is not None, 0) if found else {}

    def latest(self, start: Offset, limit: Limit) -> Offset:
        """Return the end of the next batch: as many rows as the limit allows; without ``id`` all rows."""
        if start.get("done"):
            return start
        if self.id is None:
            return {"done": True}
        session = shared_session(self.settings)
        order = self._order(session)
        if not self.follow and not start and has_nulls(session, order):
            raise ComponentError(
                f"{session.settings.url}: there are rows whose {self.id!r} is null; they are in no range of ids and "
                "would be lost; remove id, or use a field that is never null"
            )
        found = find_batch_end(session, order, bound_from_offset(start), limit)
        if found is None:
            return start if self.follow else {**start, "done": True, "rows": 0}
        end = to_offset(found[0], self.follow and self.time is not None, found[1])
        if "id" not in start:
            end["low"] = find_first_row(session, order, found[0])
        return end

    def backlog(self, after: Offset) -> Backlog | None:
        """Return the rows after the offset that may be read, `COUNTED_ROWS` at most; None without ``id``."""
        if after.get("done"):
            return Backlog(0)
        if self.id is None:
            return None
        session = shared_session(self.settings)
        return Backlog(count_rows(session, self._order(session), bound_from_offset(after)))

    def splits(self, start: Offset, end: Offset, parallelism: int) -> list[Split]:
        """Divide the rows into equal ranges of ids or times."""
        if end.get("done"):
            return [] if "rows" in end else [Split("0", 0, 1)]
        last = bound_from_offset(end)
        assert last is not None
        timed = "time" in end
        found = divide_range(bound_from_offset(start), last, end.get("low", 0), end["rows"], parallelism, timed)
        return [_split(part, timed, end.get("low", 0)) for part in found]

    def read(self, split: Split) -> Iterator[pa.RecordBatch | Rejects]:
        """Read batches of up to 65,536 rows on a connection of its own."""
        session = open_session(self.settings)
        try:
            sql = f"SELECT {select_list(session, self.fields(), self.column_names)} FROM {self.from_clause(session)}"
            if split.detail is not None:
                order = self._order(session)
                sql += f" WHERE {order.range_condition(session, RowRange(*split.detail))} ORDER BY {order.id}"
            counted = 0
            for batch, bad in read_rows(session, sql, self.fields()):
                yield from self._with_offsets(batch, bad, counted)
                counted += batch.num_rows
        finally:
            close(session)

    def ended(self, offset: Offset) -> bool:
        """Return whether all rows are read, without ``follow``."""
        return bool(offset.get("done"))

    def _with_offsets(
        self, batch: pa.RecordBatch, bad: UnreadableRows | None, counted: int
    ) -> Iterator[pa.RecordBatch | Rejects]:
        """Add offsets, and separate the unreadable rows."""
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
    def column_names(self) -> list[str]:
        """Columns to read, in the order of the fields."""
        return [self._column(name) for name in self.declared]

    def _column(self, field: str) -> str:
        return self.columns.get(field, field.replace(".", "_"))

    def _order(self, session: Session) -> RowOrder:
        assert self.id is not None
        time = self.time if self.follow else None
        return RowOrder(
            self.from_clause(session),
            session.quote(self._column(self.id)),
            session.quote(self._column(time)) if time else None,
            parse_type(self.declared[time]) if time else None,
            self.lag.total_seconds(),
        )


def _split(part: RowRange, timed: bool, low: int) -> Split:
    """Name a split by its ids (half open) or times."""
    first = part.after or RowBound(low, low)
    begin, end = (time_to_micros(first.time), time_to_micros(part.last.time)) if timed else (first.id + 1, part.last.id + 1)
    return Split("0", begin, end, (part.after, part.last))

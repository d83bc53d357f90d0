"""Ranges of rows that a micro-batch and its splits read: by an increasing id, or by a time with the id as tie-breaker.

An offset is the last row that was read, ``{"id": n}`` or ``{"time": n, "id": n}``, empty before the first; ``rows`` in an end
offset is the number of rows of the micro-batch. A timestamp is microseconds since 1970; in SQLite, whose times are texts, it
is the text. The end of a source that is read once is ``{"done": true}``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from connectors.database.database_url import Dialect
from connectors.database.session import Session
from etl.api import Limit, Offset

MIN_SPLIT_ROWS = 50_000
"""Smallest number of rows for which a split of its own is worth its cost."""
DEFAULT_ROW_BYTES = 200
"""Assumed bytes of a row before the first one was read."""


class RowBound(NamedTuple):
    """A row's position in the order; compares like the rows. ``time`` is 0 if only ids count."""

    time: int | str
    id: int


class RowRange(NamedTuple):
    """Rows after ``after`` (None: from the first row) up to and including ``last``."""

    after: RowBound | None
    last: RowBound


@dataclass(frozen=True)
class RowOrder:
    """The columns by which rows are ordered, and the rows."""

    rows: str
    """Text after FROM."""
    id: str
    time: str | None = None
    """``id`` and ``time`` are quoted columns."""
    time_type: pa.DataType | None = None
    lag_seconds: float = 0.0

    def range_condition(self, session: Session, part: RowRange) -> str:
        """Return the SQL condition of a range. Its numbers come from our own offsets, so they need no parameters."""
        conditions = [] if self.time is None else [f"{self.id} IS NOT NULL"]
        if part.after is not None:
            conditions.append(self.bound_condition(session, part.after, ">"))
        conditions.append(self.bound_condition(session, part.last, "<="))
        return " AND ".join(conditions)

    def bound_condition(self, session: Session, bound: RowBound, sign: str) -> str:
        """Return the SQL condition that a row is on one side of a bound; ``sign`` is ``>`` or ``<=``."""
        if self.time is None:
            return f"{self.id} {sign} {bound.id}"
        value = time_literal(session.dialect, self.time_type, bound.time)
        near = f"{self.time} {sign[0]}= {value}"  # lets the database use an index
        return f"{near} AND ({self.time} {sign[0]} {value} OR {self.id} {sign} {bound.id})"

    def settled_condition(self, session: Session) -> str:
        """Return the SQL condition for rows so old that no later row can be ordered before them."""
        known = f"{self.id} IS NOT NULL"
        if self.time is None:
            return known
        if not self.lag_seconds or not pa.types.is_timestamp(self.time_type):
            return f"{known} AND {self.time} IS NOT NULL"
        until = time_literal(session.dialect, self.time_type, fetch_clock(session) - round(self.lag_seconds * 1e6))
        return f"{known} AND {self.time} <= {until}"

    def bound_columns(self, session: Session) -> str:
        """Return the columns of a bound, times as numbers."""
        time = time_as_number(session.dialect, self.time_type, self.time) if self.time else "0"
        return f"{time}, {self.id}"

    def order_by(self, way: str = "ASC") -> str:
        """Return the ORDER BY list of bounds."""
        return ", ".join(f"{column} {way}" for column in (self.time, self.id) if column)


_NOW: dict[Dialect, str] = {
    "mysql": "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)",
    "postgresql": "SELECT (extract(epoch from clock_timestamp()) * 1000000)::bigint",
    "sqlite": "SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000",
}
_TIME_LITERALS: dict[Dialect, str] = {
    "mysql": "TIMESTAMPADD(MICROSECOND, {0}, TIMESTAMP'1970-01-01 00:00:00')",
    "postgresql": "(TIMESTAMPTZ '1970-01-01 00:00:00+00' + {0} * INTERVAL '1 microsecond'){1}",
    "sqlite": "'{2}'",
}
_TIMES_AS_NUMBERS: dict[Dialect, str] = {
    "mysql": "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', {0})",
    "postgresql": "(extract(epoch from {0}) * 1000000)::bigint",
    "sqlite": "{0}",
}


def fetch_clock(session: Session) -> int:
    """Return the database's clock, in microseconds since 1970."""
    return int(session.run(_NOW[session.dialect]).fetchone()[0])


def time_literal(dialect: Dialect, type_: pa.DataType | None, micros: int | str) -> str:
    """Return a time as SQL value of its column's type. For SQLite a clock time has the form in which the sink writes times."""
    if isinstance(micros, str):
        return "'" + micros.replace("'", "''") + "'"
    if type_ is None or not pa.types.is_timestamp(type_):
        return str(micros)
    text = str(pa.scalar(micros, pa.int64()).cast(pa.timestamp("us")).cast(pa.string()))
    return _TIME_LITERALS[dialect].format(micros, "" if type_.tz else " AT TIME ZONE 'UTC'", text)


def time_as_number(dialect: Dialect, type_: pa.DataType | None, column: str) -> str:
    """Return SQL for the time column as a number; for SQLite unchanged."""
    return _TIMES_AS_NUMBERS[dialect].format(column) if type_ is not None and pa.types.is_timestamp(type_) else column


def to_bound(row: tuple[Any, Any]) -> RowBound:
    """Return the bound in a result row of `RowOrder.bound_columns`."""
    time, id_ = row
    return RowBound(time if isinstance(time, str) else int(time), int(id_))


def time_to_micros(time: int | str) -> int:
    """Return a time as a number for the name of a split."""
    if isinstance(time, int):
        return time
    try:
        return int(pa.scalar(time).cast(pa.timestamp("us")).cast(pa.int64()).as_py())
    except pa.ArrowException:
        return 0


def bound_from_offset(offset: Offset) -> RowBound | None:
    """Return an offset's bound; None before the first row."""
    return RowBound(offset.get("time", 0), offset["id"]) if "id" in offset else None


def to_offset(bound: RowBound, timed: bool, rows: int) -> Offset:
    """Return the offset after a row."""
    return {**({"time": bound.time} if timed else {}), "id": bound.id, "rows": rows}


def find_batch_end(session: Session, order: RowOrder, after: RowBound | None, limit: Limit) -> tuple[RowBound, int] | None:
    """Return the last row of a micro-batch and its number of rows; None if there are no rows."""
    max_rows = max(1, int(limit.max_bytes // (limit.event_bytes or DEFAULT_ROW_BYTES)))
    max_rows = min(max_rows, limit.max_events or max_rows, 1 << 62)
    until = bound_from_offset(limit.until) if limit.until else None
    conditions = [order.settled_condition(session) if until is None else order.range_condition(session, RowRange(None, until))]
    if after is not None:
        conditions.append(order.bound_condition(session, after, ">"))
    where = f"FROM {order.rows} WHERE {' AND '.join(conditions)}"
    if max_rows < 1 << 40:
        page = f"SELECT {order.bound_columns(session)} {where} ORDER BY {order.order_by()} LIMIT 1 OFFSET {max_rows - 1}"
        if found := session.run(page).fetchone():
            return to_bound(found), max_rows
    last = session.run(f"SELECT {order.bound_columns(session)} {where} ORDER BY {order.order_by('DESC')} LIMIT 1").fetchone()
    if last is None:
        return None
    end = to_bound(last)
    rows = session.run(f"SELECT count(*) {where} AND {order.bound_condition(session, end, '<=')}").fetchone()[0]
    return end, int(rows)


COUNTED_ROWS = 1_000_000
"""Rows up to which those that wait are counted: counting reads them in an index, or in the table."""


def count_rows(session: Session, order: RowOrder, after: RowBound | None) -> int:
    """Return the number of rows after a bound, `COUNTED_ROWS` at most."""
    conditions = [order.settled_condition(session)]
    if after is not None:
        conditions.append(order.bound_condition(session, after, ">"))
    waiting = f"SELECT 1 AS n FROM {order.rows} WHERE {' AND '.join(conditions)} LIMIT {COUNTED_ROWS}"
    return int(session.run(f"SELECT count(*) FROM ({waiting}) AS waiting").fetchone()[0])


def has_nulls(session: Session, order: RowOrder) -> bool:
    """Return whether there are rows without an id, which no range contains."""
    return session.run(f"SELECT 1 FROM {order.rows} WHERE {order.id} IS NULL LIMIT 1").fetchone() is not None


def find_first_row(session: Session, order: RowOrder, last: RowBound) -> int:
    """Return the number before the first row of those up to ``last``."""
    where = f"FROM {order.rows} WHERE {order.range_condition(session, RowRange(None, last))}"
    first = to_bound(session.run(f"SELECT {order.bound_columns(session)} {where} ORDER BY {order.order_by()} LIMIT 1").fetchone())
    return (time_to_micros(first.time) if order.time else first.id) - 1


def divide_range(
    after: RowBound | None, last: RowBound, low: int, rows: int, parallelism: int, timed: bool
) -> Iterator[RowRange]:
    """Divide a range of ids or times into about equal ranges; ``low`` is the begin of the first if ``after`` is None.

    Texts, the times of SQLite, cannot be divided: they give one range.
    """
    first = (after.time if timed else after.id) if after is not None else low
    end = last.time if timed else last.id
    begin = after
    if isinstance(first, int) and isinstance(end, int):
        count = max(1, min(parallelism, rows // MIN_SPLIT_ROWS, end - first))
        for part in range(1, count):
            edge = first + (end - first) * part // count
            bound = RowBound(edge, 2**63 - 1) if timed else RowBound(0, edge)
            yield RowRange(begin, bound)
            begin = bound
    yield RowRange(begin, last)

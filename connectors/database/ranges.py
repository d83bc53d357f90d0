"""Which rows a micro-batch and its splits take: ranges of an increasing id, or of a time with the id as tie-breaker.

An offset is the last row that was taken, ``{"id": n}`` or ``{"time": n, "id": n}``, empty before the first; ``rows`` of an
end says how many rows lie in front of it. A timestamp is microseconds since 1970, but in SQLite, whose times are texts, that
text. A source that is read once ends in ``{"done": true}``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from connectors.database.places import Dialect
from connectors.database.session import Session
from etl.api import Limit, Offset

SPLIT_ROWS = 50_000
"""Fewest rows that are worth a split of their own."""
TYPICAL_BYTES = 200
"""Of a row, before any was seen."""


class Bound(NamedTuple):
    """A row's place in the order; compares as the rows do. ``time`` is 0 where only ids count."""

    time: int | str
    id: int


class Range(NamedTuple):
    """Rows behind ``after`` (None: from the first) up to ``last``."""

    after: Bound | None
    last: Bound


@dataclass(frozen=True)
class Order:
    """By which columns of which rows progress is made."""

    rows: str
    """What stands behind FROM."""
    id: str
    time: str | None = None
    """Quoted columns."""
    time_type: pa.DataType | None = None
    lag_seconds: float = 0.0

    def where(self, session: Session, part: Range) -> str:
        """The condition for a range. Numbers come from our own offsets, so they stand in the text."""
        conditions = [] if self.time is None else [f"{self.id} IS NOT NULL"]
        if part.after is not None:
            conditions.append(self.compared(session, part.after, ">"))
        conditions.append(self.compared(session, part.last, "<="))
        return " AND ".join(conditions)

    def compared(self, session: Session, bound: Bound, sign: str) -> str:
        """The condition that a row lies on one side of a bound; ``sign`` is ``>`` or ``<=``."""
        if self.time is None:
            return f"{self.id} {sign} {bound.id}"
        value = moment(session.dialect, self.time_type, bound.time)
        near = f"{self.time} {sign[0]}= {value}"  # what an index can be searched by
        return f"{near} AND ({self.time} {sign[0]} {value} OR {self.id} {sign} {bound.id})"

    def ripe(self, session: Session) -> str:
        """Rows that are old enough: of those that are still to come, none will be in front of them."""
        known = f"{self.id} IS NOT NULL"
        if self.time is None:
            return known
        if not self.lag_seconds or not pa.types.is_timestamp(self.time_type):
            return f"{known} AND {self.time} IS NOT NULL"
        until = moment(session.dialect, self.time_type, clock(session) - round(self.lag_seconds * 1e6))
        return f"{known} AND {self.time} <= {until}"

    def chosen(self, session: Session) -> str:
        """The columns of a bound, times as numbers."""
        time = number(session.dialect, self.time_type, self.time) if self.time else "0"
        return f"{time}, {self.id}"

    def sorted(self, way: str = "ASC") -> str:
        """ORDER BY of the bounds."""
        return ", ".join(f"{column} {way}" for column in (self.time, self.id) if column)


_NOW: dict[Dialect, str] = {
    "mysql": "SELECT CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)",
    "postgresql": "SELECT (extract(epoch from clock_timestamp()) * 1000000)::bigint",
    "sqlite": "SELECT CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000",
}
_MOMENTS: dict[Dialect, str] = {
    "mysql": "TIMESTAMPADD(MICROSECOND, {0}, TIMESTAMP'1970-01-01 00:00:00')",
    "postgresql": "(TIMESTAMPTZ '1970-01-01 00:00:00+00' + {0} * INTERVAL '1 microsecond'){1}",
    "sqlite": "'{2}'",
}
_NUMBERS: dict[Dialect, str] = {
    "mysql": "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', {0})",
    "postgresql": "(extract(epoch from {0}) * 1000000)::bigint",
    "sqlite": "{0}",
}


def clock(session: Session) -> int:
    """The database's own time, in microseconds since 1970."""
    return int(session.run(_NOW[session.dialect]).fetchone()[0])


def moment(dialect: Dialect, type_: pa.DataType | None, micros: int | str) -> str:
    """A time as SQL's value of its column. In SQLite a time by the clock has the form in which the sink writes it."""
    if isinstance(micros, str):
        return "'" + micros.replace("'", "''") + "'"
    if type_ is None or not pa.types.is_timestamp(type_):
        return str(micros)
    text = str(pa.scalar(micros, pa.int64()).cast(pa.timestamp("us")).cast(pa.string()))
    return _MOMENTS[dialect].format(micros, "" if type_.tz else " AT TIME ZONE 'UTC'", text)


def number(dialect: Dialect, type_: pa.DataType | None, column: str) -> str:
    """The time column as a number; in SQLite as it is."""
    return _NUMBERS[dialect].format(column) if type_ is not None and pa.types.is_timestamp(type_) else column


def bound_of(row: tuple[Any, Any]) -> Bound:
    """What `Order.chosen` gave."""
    time, id_ = row
    return Bound(time if isinstance(time, str) else int(time), int(id_))


def instant(time: int | str) -> int:
    """A time as a number that a split can be named by."""
    if isinstance(time, int):
        return time
    try:
        return int(pa.scalar(time).cast(pa.timestamp("us")).cast(pa.int64()).as_py())
    except pa.ArrowException:
        return 0


def of_offset(offset: Offset) -> Bound | None:
    """An offset's bound; None before the first row."""
    return Bound(offset.get("time", 0), offset["id"]) if "id" in offset else None


def to_offset(bound: Bound, timed: bool, rows: int) -> Offset:
    """The offset behind a row."""
    return {**({"time": bound.time} if timed else {}), "id": bound.id, "rows": rows}


def newest(session: Session, order: Order, after: Bound | None, limit: Limit) -> tuple[Bound, int] | None:
    """How far a micro-batch reaches now, and its number of rows; None when there are none."""
    most = max(1, int(limit.max_bytes // (limit.event_bytes or TYPICAL_BYTES)))
    most = min(most, limit.max_events or most, 1 << 62)
    until = of_offset(limit.until) if limit.until else None
    conditions = [order.ripe(session) if until is None else order.where(session, Range(None, until))]
    if after is not None:
        conditions.append(order.compared(session, after, ">"))
    where = f"FROM {order.rows} WHERE {' AND '.join(conditions)}"
    if most < 1 << 40:
        page = f"SELECT {order.chosen(session)} {where} ORDER BY {order.sorted()} LIMIT 1 OFFSET {most - 1}"
        if found := session.run(page).fetchone():
            return bound_of(found), most
    last = session.run(f"SELECT {order.chosen(session)} {where} ORDER BY {order.sorted('DESC')} LIMIT 1").fetchone()
    if last is None:
        return None
    end = bound_of(last)
    rows = session.run(f"SELECT count(*) {where} AND {order.compared(session, end, '<=')}").fetchone()[0]
    return end, int(rows)


def has_nulls(session: Session, order: Order) -> bool:
    """Whether there are rows that no range of ids holds."""
    return session.run(f"SELECT 1 FROM {order.rows} WHERE {order.id} IS NULL LIMIT 1").fetchone() is not None


def lowest(session: Session, order: Order, last: Bound) -> int:
    """Behind which number the rows up to ``last`` begin."""
    where = f"FROM {order.rows} WHERE {order.where(session, Range(None, last))}"
    first = bound_of(session.run(f"SELECT {order.chosen(session)} {where} ORDER BY {order.sorted()} LIMIT 1").fetchone())
    return (instant(first.time) if order.time else first.id) - 1


def parts(after: Bound | None, last: Bound, low: int, rows: int, parallelism: int, timed: bool) -> Iterator[Range]:
    """About equal ranges of the id, or of the time; ``low`` is where the first begins if ``after`` does not say. Texts, the times
    of SQLite, make one range."""
    first = (after.time if timed else after.id) if after is not None else low
    end = last.time if timed else last.id
    begin = after
    if isinstance(first, int) and isinstance(end, int):
        count = max(1, min(parallelism, rows // SPLIT_ROWS, end - first))
        for part in range(1, count):
            edge = first + (end - first) * part // count
            bound = Bound(edge, 2**63 - 1) if timed else Bound(0, edge)
            yield Range(begin, bound)
            begin = bound
    yield Range(begin, last)

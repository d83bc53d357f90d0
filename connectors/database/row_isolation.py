"""Finds the rows of a batch that the database rejects.

A failed batch is divided at the row that the database names, else in halves, and each part is tried again in the same
transaction: n bad rows of m cost about 2 n log₂(m / n) statements, 2 m if all are bad. Parts are written in order.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from connectors.database.bulk_insert import InsertRows
from connectors.database.errors import RowsError
from connectors.database.session import Session
from etl.api import Rejects

REJECT_CODE = "database-rejected"
"""Code of the rejects."""


def write_accepted_rows(
    session: Session, insert_rows: InsertRows, batch: pa.RecordBatch
) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Write all rows that the database accepts. Returns those rows, and the reasons for the others by row number."""
    reasons: dict[int, str] = {}
    todo = [(0, batch.num_rows)]
    while todo:
        start, end = todo.pop()
        part = batch.slice(start, end - start)
        try:
            session.run_with_savepoint(lambda part=part: insert_rows(part))  # type: ignore[misc]
        except RowsError as error:
            if end - start == 1:
                reasons[start] = str(error)
            else:
                todo += reversed(_divide(start, end, error.row))
    accepted = batch.take(pa.array([n for n in range(batch.num_rows) if n not in reasons], pa.int64())) if reasons else batch
    return accepted, reasons


def to_rejects(batch: pa.RecordBatch, reasons: dict[int, str]) -> Sequence[Rejects]:
    """Return the rejected rows for the dead letters."""
    if not reasons:
        return ()
    rows = pa.array(reasons, pa.int64())
    return (Rejects(batch.take(rows), REJECT_CODE, pa.array(reasons.values(), pa.string())),)


def _divide(start: int, end: int, row: int | None) -> list[tuple[int, int]]:
    """Divide a part into smaller ones, none empty; a bad row that is known becomes a part of its own."""
    if row is None or not 0 <= row < end - start:
        middle = (start + end) // 2
        return [(start, middle), (middle, end)]
    bad = start + row
    return [(a, b) for a, b in ((start, bad), (bad, bad + 1), (bad + 1, end)) if a < b]

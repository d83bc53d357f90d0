"""Finding the rows of a batch that the database does not take.

A batch that fails is cut where the database says, else in halves, and each part tried again inside the same transaction:
n bad rows of a batch of m cost about 2 n log₂(m / n) statements, 2 m when all are bad. Parts are written in order.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from connectors.database.failures import RowsError
from connectors.database.loading import Load
from connectors.database.session import Session
from etl.api import Rejects

CODE = "database-rejected"


def delivered(session: Session, load: Load, batch: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, str]]:
    """Write what can be written → those rows, and the others by number with the database's reasons."""
    reasons: dict[int, str] = {}
    todo = [(0, batch.num_rows)]
    while todo:
        start, end = todo.pop()
        part = batch.slice(start, end - start)
        try:
            session.attempt(lambda part=part: load(part))  # type: ignore[misc]
        except RowsError as error:
            if end - start == 1:
                reasons[start] = str(error)
            else:
                todo += reversed(_parts(start, end, error.row))
    kept = batch.take(pa.array([n for n in range(batch.num_rows) if n not in reasons], pa.int64())) if reasons else batch
    return kept, reasons


def rejects_of(batch: pa.RecordBatch, reasons: dict[int, str]) -> Sequence[Rejects]:
    """The refused rows for the dead letters."""
    if not reasons:
        return ()
    rows = pa.array(reasons, pa.int64())
    return (Rejects(batch.take(rows), CODE, pa.array(reasons.values(), pa.string())),)


def _parts(start: int, end: int, row: int | None) -> list[tuple[int, int]]:
    """Smaller parts, none empty; where the bad row is known it stands alone."""
    if row is None or not 0 <= row < end - start:
        middle = (start + end) // 2
        return [(start, middle), (middle, end)]
    bad = start + row
    return [(a, b) for a, b in ((start, bad), (bad, bad + 1), (bad + 1, end)) if a < b]

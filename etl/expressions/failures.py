"""Turns rows whose expression failed into rejects."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Rejects
from etl.expressions.rows import Evaluation

CODE = "expression-failed"


def failures(results: Iterable[Evaluation]) -> tuple[pa.BooleanArray, pa.StringArray] | None:
    """The rows in which one of several expressions failed, with the first reason of each; None if no row failed."""
    failed: pa.BooleanArray | None = None
    reasons: pa.StringArray | None = None
    for result in results:
        if result.failed is None:
            continue
        failed = result.failed if failed is None else pc.or_(failed, result.failed)
        reasons = result.reasons if reasons is None else pc.coalesce(reasons, result.reasons)
    return None if failed is None or reasons is None else (failed, reasons)


def rejected(batch: pa.RecordBatch, failed: pa.BooleanArray, reasons: pa.StringArray, code: str = CODE) -> Rejects:
    """The failed rows of a batch as rejects."""
    return Rejects(batch.filter(failed), code, reasons.filter(failed))

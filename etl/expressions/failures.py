"""Events whose expression failed, as the dead letters they become."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from etl.api import Rejects
from etl.expressions.rows import Evaluated

CODE = "expression-failed"


def failures(results: Iterable[Evaluated]) -> tuple[pa.BooleanArray, pa.StringArray] | None:
    """Where one of several expressions over a batch failed, and the first reason of each row; None where none did."""
    failed: pa.BooleanArray | None = None
    reasons: pa.StringArray | None = None
    for result in results:
        if result.failed is None:
            continue
        failed = result.failed if failed is None else pc.or_(failed, result.failed)
        reasons = result.reasons if reasons is None else pc.coalesce(reasons, result.reasons)
    return None if failed is None or reasons is None else (failed, reasons)


def rejected(batch: pa.RecordBatch, failed: pa.BooleanArray, reasons: pa.StringArray, code: str = CODE) -> Rejects:
    """The failed rows of a batch with their reasons."""
    return Rejects(batch.filter(failed), code, reasons.filter(failed))

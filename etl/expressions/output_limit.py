"""The bound on what a function gives for one batch, where a few bytes of arguments may ask for any number of them.

A count in the data must not take all memory: functions that repeat, fill or list (``repeat``, ``lpad``, ``whole_numbers`` …)
compute the sizes of their results before the results. If they do not fit, the largest ones fail, so that a hostile event costs
no other its result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from etl.expressions.rows import ActiveRows

MAX_CHARACTERS = 1 << 20
"""Characters of one text that a function repeats or fills."""

MAX_BATCH_BYTES = 256 << 20
"""Bytes that one call of a function gives for a batch; the batch itself has a few MB."""

TOO_LONG = f"the text would have more than {MAX_CHARACTERS:,} characters"

TOO_LARGE = f"the results for this batch would have more than {MAX_BATCH_BYTES >> 20} MiB"


def is_too_large(value: pa.Scalar, count: int) -> bool:
    """Whether this number of repetitions of a text or of bytes is too long."""
    if not value.is_valid or not (pa.types.is_string(value.type) or pa.types.is_binary(value.type)):
        return False
    return value.as_buffer().size * count > MAX_BATCH_BYTES


def fail_largest(rows: ActiveRows, sizes: Any) -> pa.BooleanArray | None:
    """Fail the rows with the largest results until the others fit; ``sizes`` are the results' bytes, an array or numbers.

    Returns the rows that are not to be computed, None if all are computed.
    """
    import numpy as np

    bytes_of_rows = sizes.fill_null(0).to_numpy(zero_copy_only=False) if isinstance(sizes, pa.Array) else sizes
    clipped = np.clip(bytes_of_rows, 0, MAX_BATCH_BYTES + 1)
    if clipped.sum() <= MAX_BATCH_BYTES:
        return None
    left_out = np.zeros(rows.length, bool)
    if rows.active is not None:
        left_out |= ~rows.active.to_numpy(zero_copy_only=False)
        clipped = np.where(left_out, 0, clipped)
    order = np.argsort(clipped, kind="stable")
    fitting = int(np.searchsorted(np.cumsum(clipped[order]), MAX_BATCH_BYTES, side="right"))
    failed = np.zeros(rows.length, bool)
    failed[order[fitting:]] = True
    rows.fail(pa.array(failed), lambda: _reasons(bytes_of_rows))
    return pa.array(failed | left_out)


def _reasons(sizes: Any) -> pa.Array:
    return pc.binary_join_element_wise(TOO_LARGE, "; this one has ", pa.array(sizes).cast(pa.string()), " bytes", "")

"""The ``discard`` sink."""

from __future__ import annotations

from typing import ClassVar, Literal

import pyarrow as pa

from etl.api import Result, Sink, Staged, Task


class DiscardSink(Sink):
    """Count events and forget them.

    For measuring a pipeline without its output, and for streams that are read for their dead letters only.

    ```yaml
    type: discard
    ```
    """

    type: Literal["discard"] = "discard"

    any_order: ClassVar[bool] = True
    guarantee: ClassVar[Literal["exactly once", "at least once", "none"]] = "none"

    def open(self, task: Task) -> DiscardWriter:
        """Open nothing."""
        return DiscardWriter()


class DiscardWriter:
    """Writer that takes everything and keeps nothing."""

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Nothing is encoded, so nothing has a size."""
        return None

    def write(self, batch: pa.RecordBatch) -> Result:
        """Accept all."""
        return Result()

    def close(self) -> Staged | None:
        """Nothing was staged."""
        return None

    def abort(self) -> None:
        """Nothing to undo."""

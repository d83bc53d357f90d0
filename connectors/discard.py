"""The ``discard`` sink."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Literal

import pyarrow as pa

from etl.api import Finding, Guarantee, Result, Schema, Sink, Staged, Task


class DiscardSink(Sink):
    """Count events and drop them.

    For measuring a pipeline without its output, and for streams of which only the dead letters matter.

    ```yaml
    type: discard
    ```
    """

    type: Literal["discard"] = "discard"

    any_order: ClassVar[bool] = True
    guarantee: ClassVar[Guarantee] = "none"

    def check_changes(self, incoming: Schema) -> Iterable[Finding]:
        """It takes any changes."""
        return ()

    def open(self, task: Task) -> DiscardWriter:
        """Open nothing."""
        return DiscardWriter()


class DiscardWriter:
    """Writer that accepts all events and stores nothing."""

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return None: nothing is encoded."""
        return None

    def write(self, batch: pa.RecordBatch) -> Result:
        """Accept all events."""
        return Result()

    def close(self) -> Staged | None:
        """Return None: nothing is staged."""
        return None

    def abort(self) -> None:
        """Do nothing."""

"""Renders the events of one split; the driver sends the messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from etl.api import Result, Staged


@dataclass
class AlertWriter:
    """Writer: renders the first ``kept`` events, and counts the others, of which no message has the text. Memory: these texts."""

    render: Callable[[pa.RecordBatch], Mapping[str, pa.Array]]
    kept: int
    _texts: list[tuple[str, ...]] = field(default_factory=list, init=False)
    _events: int = field(default=0, init=False)

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return None: only some events are rendered."""
        return None

    def write(self, batch: pa.RecordBatch) -> Result:
        """Render the events that a message can have."""
        shown = batch.slice(0, self.kept - len(self._texts))
        if shown.num_rows:
            self._texts += zip(*(texts.to_pylist() for texts in self.render(shown).values()), strict=True)
        self._events += batch.num_rows
        return Result()

    def close(self) -> Staged | None:
        """Return the texts, which go to the driver with the receipt of the split."""
        return Staged("", 0, self._events, self._texts) if self._events else None

    def abort(self) -> None:
        """Do nothing: nothing was sent."""

"""The sink that captures a test's events for comparison."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa

from etl.api import Result, Sink, Staged, Task


class Capture(Sink):
    """Write all events of a run to a folder, for `read_captured`."""

    any_order: ClassVar[bool] = True

    type: Literal["capture"] = "capture"
    folder: str

    def open(self, task: Task) -> _Writer:
        """A file for each split, named by the time at which it began."""
        return _Writer(Path(self.folder) / f"{time.time_ns():020d}-{task.split}.arrow")


class _Writer:
    """Writes an Arrow stream."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stream: Any = None

    def sizes(self, batch: pa.RecordBatch) -> None:
        """No sizes: batches are not limited."""

    def write(self, batch: pa.RecordBatch) -> Result:
        """Append; schemas of one split are the same."""
        if self._stream is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = pa.ipc.new_stream(str(self._path), batch.schema)
        self._stream.write_batch(batch)
        return Result()

    def close(self) -> Staged | None:
        """Close the file; there is nothing to commit."""
        self.abort()
        return None

    def abort(self) -> None:
        """Close the file; the failed run's output is not read."""
        if self._stream is not None:
            self._stream.close()


def read_captured(folder: Path) -> Iterator[pa.RecordBatch]:
    """The captured events of all splits, in the order in which the splits were started."""
    for path in sorted(folder.glob("*.arrow")):
        with pa.ipc.open_stream(str(path)) as stream:
            yield from stream

"""Where a test's events end: a sink that keeps them for comparison."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar, Literal

import pyarrow as pa

from etl.api import Result, Sink, Staged, Task


class Capture(Sink):
    """Keep all events of a run in a folder, for `captured`."""

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
        """They do not matter."""

    def write(self, batch: pa.RecordBatch) -> Result:
        """Append; schemas of one split are the same."""
        if self._stream is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._stream = pa.ipc.new_stream(str(self._path), batch.schema)
        self._stream.write_batch(batch)
        return Result()

    def close(self) -> Staged | None:
        """Nothing is left to do for the driver."""
        self.abort()
        return None

    def abort(self) -> None:
        """What is written may stay: the run is over."""
        if self._stream is not None:
            self._stream.close()


def captured(folder: Path) -> Iterator[pa.RecordBatch]:
    """The events of all splits, in the order in which they began."""
    for path in sorted(folder.glob("*.arrow")):
        with pa.ipc.open_stream(str(path)) as stream:
            yield from stream

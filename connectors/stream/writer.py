"""Stages the events of one split as records of the journal."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa

from connectors.stream.records import encode_records
from etl.api import ComponentError, Rejects, Result, Staged, Task, format_type, visible


class StreamWriter:
    """Writes one staged file for a split, whose bytes the publisher appends to the journal without reading them."""

    def __init__(self, task: Task) -> None:
        if "://" in task.folder:
            raise ComponentError(f"the stream sink needs a local folder for staging, not {task.folder}; set --state to one")
        self.task = task
        self.path = Path(task.folder, f"{task.split}.records")
        self.bytes = self.events = 0
        self.fields: dict[str, str] = {}
        self._file: int | None = None

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return None: the size of an event is known only after compression."""
        return None

    def write(self, batch: pa.RecordBatch) -> Result:
        """Append the batch; with an OSError nothing of it counts, and the next write replaces it."""
        if not batch.num_rows:
            return Result()
        events = batch.select(visible(batch.schema).names)
        rejected: list[Rejects] = []
        length = self.bytes
        for record, part in encode_records(events):
            if record:
                length = self._write(memoryview(record), length)
            else:
                rejected.append(Rejects(part, "event-too-large", "the event has more than 1 GiB"))
        self.bytes = length
        self.events += events.num_rows - sum(one.events.num_rows for one in rejected)
        self.fields |= {field.name: format_type(field.type) for field in events.schema}
        return Result(rejected=rejected)

    def close(self) -> Staged | None:
        """Return the staged file, for the publisher."""
        self._close_file()
        if not self.bytes:
            return None
        os.truncate(self.path, self.bytes)
        return Staged(str(self.path), self.bytes, self.events, (self.task.pipeline, self.fields))

    def abort(self) -> None:
        """Remove the staged file."""
        self._close_file()
        self.path.unlink(missing_ok=True)

    def _write(self, data: memoryview, at: int) -> int:
        if self._file is None:
            self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        while data:
            written = os.pwrite(self._file, data, at)
            data, at = data[written:], at + written
        return at

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

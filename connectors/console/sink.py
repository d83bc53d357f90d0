"""The ``console`` sink."""

from __future__ import annotations

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import IO, Any, ClassVar, Literal

import pyarrow as pa
from pydantic import Field

from connectors.console.escapes import escape_json
from connectors.console.table import ConsoleTable
from connectors.shared import json_lines
from etl.api import (
    BatchId,
    ComponentError,
    Finding,
    Guarantee,
    Result,
    Schema,
    Sink,
    Staged,
    Task,
    kind_findings,
    visible,
    with_kinds,
    write_advice,
)


class ConsoleSink(Sink):
    """Print events on standard output, as a table or as JSON lines.

    At least once: a micro-batch that is being printed when the run is killed is printed again. Events of one split keep
    their order. All events are printed; in a table long values are truncated to the width of the terminal, and control
    characters are escaped, so that an event cannot control the terminal. The run ends when the reader of a pipe closes
    it (``| head``). Of results that change, the field ``_kind`` says how: `+I` adds a row, `-U` and `+U` are a row before and
    after a change, `-D` removes a row.

    ```yaml
    type: console
    format: json
    ```
    """

    type: Literal["console"] = "console"
    format: Literal["auto", "table", "json"] = Field(
        default="auto", description="Output format; auto is a table on a terminal and JSON lines elsewhere."
    )

    guarantee: ClassVar[Guarantee] = "at least once"

    def check_changes(self, incoming: Schema) -> Iterable[Finding]:
        """A field with the name under which the kinds of changes are printed."""
        return kind_findings(incoming)

    def open(self, task: Task) -> ConsoleWriter:
        """Stage the events of one split."""
        return ConsoleWriter(os.path.join(task.folder, f"{task.split}.arrow"))

    def committer(self, folder: str) -> Printer:
        """Print to this process's standard output."""
        return Printer(self.format)


class ConsoleWriter:
    """Writes an Arrow stream that the driver prints."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.stream: Any = None
        self.events = 0

    def sizes(self, batch: pa.RecordBatch) -> pa.Array | None:
        """Return the bytes of each event as a JSON line."""
        return json_lines.sizes(with_kinds(batch))

    def write(self, batch: pa.RecordBatch) -> Result:
        """Stage a batch."""
        shown = with_kinds(batch)
        shown = shown.select(visible(shown.schema).names)
        try:
            if self.stream is None:
                self.stream = pa.ipc.new_stream(self.path, shown.schema)
            self.stream.write_batch(shown)
        except OSError as error:  # a partial message cannot be removed, so a retry would not help
            raise ComponentError(
                f"cannot stage {self.path}: {error}; nothing is lost: {write_advice(error)}, and start again"
            ) from error
        self.events += batch.num_rows
        return Result()

    def close(self) -> Staged | None:
        """Finish the stream."""
        if self.stream is None:
            return None
        self.stream.close()
        return Staged(self.path, os.path.getsize(self.path), self.events)

    def abort(self) -> None:
        """Remove the staged file."""
        if self.stream is not None:
            self.stream.close()
            os.unlink(self.path)


class Printer:
    """Committer: prints micro-batches in order."""

    def __init__(self, format_: Literal["auto", "table", "json"]) -> None:
        self.lock = threading.Lock()
        self.printed: dict[str, int] = {}
        self.is_terminal = sys.stdout.isatty()
        as_table = format_ == "table" or (format_ == "auto" and self.is_terminal)
        self.render: Callable[[pa.RecordBatch], bytes | memoryview] = self._table if as_table else self._json
        self.table = ConsoleTable(shutil.get_terminal_size((120, 24)).columns)

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Print the staged events; does nothing for a micro-batch that this run has already printed."""
        with self.lock:
            if batch.number <= self.printed.get(batch.query, -1):
                return
            try:
                for events in _events(staged):
                    _write_bytes(sys.stdout, self.render(events))
                sys.stdout.flush()
            except BrokenPipeError as error:
                _redirect_to_devnull()
                raise ComponentError("standard output was closed by its reader: no more events are printed") from error
            self.printed[batch.query] = batch.number

    def tick(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def _json(self, events: pa.RecordBatch) -> bytes | memoryview:
        lines = json_lines.encode(events)
        return escape_json(lines) if self.is_terminal else lines

    def _table(self, events: pa.RecordBatch) -> bytes:
        return "".join(f"{line}\n" for line in self.table.lines(events)).encode(errors="replace")


def _events(staged: Sequence[Staged]) -> Iterator[pa.RecordBatch]:
    for output in staged:
        with pa.memory_map(output.path) as source:
            yield from pa.ipc.open_stream(source)


def _write_bytes(stream: IO[str], data: bytes | memoryview) -> None:
    """Write bytes to the buffer of a text stream; a stream without one (a captured one) gets text."""
    binary = getattr(stream, "buffer", None)
    if binary is None:
        stream.write(bytes(data).decode())
        return
    stream.flush()
    rest = memoryview(data)
    while rest:  # unbuffered (PYTHONUNBUFFERED), one write may write only a part
        rest = rest[binary.write(rest) or 0 :]


def _redirect_to_devnull() -> None:
    """Redirect standard output to /dev/null, so that Python's flush at exit does not fail again."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)

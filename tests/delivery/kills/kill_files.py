"""Files, streams and the syslog receiver in kill tests."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pyarrow as pa
from kill_table import LINES, Workspace, lines
from running import wait_for
from servers.ports import HOST, free

from connectors.shared.journal.records import complete_records
from connectors.shared.journal.segments import Segments
from connectors.stream.sink import StreamSink
from connectors.stream.source import StreamSource
from etl.api import OFFSET, BatchId, Limit, Task


class FileInput:
    """A file that grows."""

    steps = LINES

    def __init__(self, workspace: Workspace) -> None:
        self.path = workspace.folder / f"{workspace.label}.log"
        self.options = f"{{type: file, path: '{self.path}'}}"

    def begin(self) -> None:
        self.path.touch()

    def write_events(self, first: int, last: int) -> None:
        with self.path.open("a") as log:
            log.writelines(lines(first, last))


class SyslogInput:
    """A connection to the receiver. Events count as written when the journal has them; those in transit at a kill may be lost."""

    steps = (*LINES, "{type: keep, fields: [n, text]}")  # without the columns of the sender, which the tables lack

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.port = free(1)[0]
        self.options = f"{{type: syslog, listen: ['tcp://{HOST}:{self.port}']}}"
        self.segment, self.sent = -1, 0

    def begin(self) -> None:
        """Do nothing: the receiver creates its journal."""

    def write_events(self, first: int, last: int) -> None:
        with socket.create_connection((HOST, self.port), 30) as sender:
            sender.sendall("".join(lines(first, last)).encode())
            sender.shutdown(socket.SHUT_WR)
            while sender.recv(1):
                pass
        wait_for(lambda: self._is_in_journal(last - first), what="the events in the journal")

    def _is_in_journal(self, sent: int) -> bool:
        """Return whether the journal has ``sent`` more events. Each run has one segment: it sends less than 64 MiB."""
        (folder,) = (self.workspace.state / "sources").iterdir()
        segments = Segments(folder)
        newest = segments.starts[-1]
        if newest != self.segment:
            self.segment, self.sent = newest, 0
        stored = sum(record.events for record in complete_records(segments.path(newest).read_bytes()))
        if stored < self.sent + sent:
            return False
        self.sent = stored
        return True


class StreamInput:
    """A stream, to which this process publishes."""

    steps = ()

    def __init__(self, workspace: Workspace) -> None:
        self.folder = workspace.folder / "streams"
        self.name = f"{workspace.label}-in"
        self.options = f"{{type: stream, name: '{self.name}', folder: '{self.folder}', fields: {{n: bigint, text: string}}}}"
        self.number = 0

    def begin(self) -> None:
        """Do nothing: the first events make the stream."""

    def write_events(self, first: int, last: int) -> None:
        numbers = pa.array(range(first, last), pa.int64())
        texts = pa.array([f"event number {n}" for n in range(first, last)])
        events = pa.record_batch([numbers, texts, numbers], names=["n", "text", OFFSET])
        sink = StreamSink(name=self.name, folder=str(self.folder))
        publisher = sink.committer("")
        writer = sink.open(Task("test", "out", self.name, str(self.folder), events.schema))
        writer.write(events)
        staged = writer.close()
        publisher.commit(BatchId("test", self.number), [staged] if staged else [])
        publisher.close()
        self.number += 1


class StreamOutput:
    """A stream, which this process reads."""

    def __init__(self, workspace: Workspace) -> None:
        self.folder = str(workspace.folder / "streams")
        self.name = f"{workspace.label}-out"
        self.options = f"type: stream, name: '{self.name}', folder: '{self.folder}'"

    def delivered(self) -> Iterator[int]:
        source = StreamSource.model_validate({"name": self.name, "folder": self.folder, "fields": {"n": "bigint"}})
        start = source.start()
        for split in source.splits(start, source.latest(start, Limit(1 << 62)), 1):
            for events in source.read(split):
                assert isinstance(events, pa.RecordBatch)
                yield from events["n"].to_pylist()

    def check(self, total: int) -> None:
        """Do nothing: the test compares the order if the source has one."""


class FileOutput:
    """A file of JSON lines."""

    def __init__(self, workspace: Workspace) -> None:
        self.path = workspace.folder / f"{workspace.label}.jsonl"
        self.options = f"type: file, path: '{self.path}'"

    def delivered(self) -> Iterator[int]:
        with self.path.open() as out:
            for line in out:
                yield json.loads(line)["n"]

    def check(self, total: int) -> None:
        """Do nothing: the test compares the order if the source has one."""

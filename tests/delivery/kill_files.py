"""Files and the syslog receiver, in trials in which runs are killed."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

from kill_table import LINES, Stage, lines
from running import wait_for
from servers.ports import HOST, free

from connectors.journal.records import complete_records
from connectors.journal.segments import Segments


class FileFeed:
    """A file that grows."""

    steps = LINES

    def __init__(self, stage: Stage) -> None:
        self.path = stage.folder / f"{stage.label}.log"
        self.options = f"{{type: file, path: '{self.path}'}}"

    def begin(self) -> None:
        self.path.touch()

    def fill(self, first: int, last: int) -> None:
        with self.path.open("a") as log:
            log.writelines(lines(first, last))


class SyslogFeed:
    """A connection to the receiver. What its journal has is an event of the run; what is under way when it is killed is not."""

    steps = (*LINES, "{type: keep, fields: [n, text]}")  # tables have no column for where a line came from

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.port = free(1)[0]
        self.options = f"{{type: syslog, listen: ['tcp://{HOST}:{self.port}']}}"
        self.segment, self.sent = -1, 0

    def begin(self) -> None:
        """The receiver makes its own place."""

    def fill(self, first: int, last: int) -> None:
        with socket.create_connection((HOST, self.port), 30) as sender:
            sender.sendall("".join(lines(first, last)).encode())
            sender.shutdown(socket.SHUT_WR)
            while sender.recv(1):
                pass
        wait_for(lambda: self._kept(last - first), what="the journal's part of the events")

    def _kept(self, sent: int) -> bool:
        """Each run begins a segment; it is not finished before 64 MiB, which no run here sends."""
        (folder,) = (self.stage.state / "sources").iterdir()
        segments = Segments(folder)
        newest = segments.starts[-1]
        if newest != self.segment:
            self.segment, self.sent = newest, 0
        kept = sum(record.events for record in complete_records(segments.path(newest).read_bytes()))
        if kept < self.sent + sent:
            return False
        self.sent = kept
        return True


class FileCatch:
    """Lines of JSON."""

    def __init__(self, stage: Stage) -> None:
        self.path = stage.folder / f"{stage.label}.jsonl"
        self.options = f"type: file, path: '{self.path}'"

    def delivered(self) -> Iterator[int]:
        with self.path.open() as out:
            for line in out:
                yield json.loads(line)["n"]

    def prove(self, total: int) -> None:
        """Order is looked at where the source has one."""

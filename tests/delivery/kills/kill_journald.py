"""Journal files of systemd in kill tests."""

from __future__ import annotations

from journal_writer import JournalWriter
from kill_table import LINES, Workspace, lines


class JournaldInput:
    """A folder of journal files, of which the current one is archived before each second write."""

    steps = (*(step.replace("{type: json,", "{type: json, field: MESSAGE,") for step in LINES), "{type: keep, fields: [n, text]}")

    def __init__(self, workspace: Workspace) -> None:
        self.folder = workspace.folder / f"{workspace.label}-journal"
        self.options = f"{{type: journald, path: '{self.folder}', fields: {{MESSAGE: string, PRIORITY: int}}}}"
        self.archived = self.writes = 0

    def begin(self) -> None:
        self.folder.mkdir()
        self.writer = JournalWriter(self.folder / "system.journal")

    def write_events(self, first: int, last: int) -> None:
        self.writes += 1
        if self.writes % 2 == 0:
            self._rotate()
        for line in lines(first, last):
            self.writer.append(("MESSAGE", line.rstrip("\n")), ("PRIORITY", "6"))

    def _rotate(self) -> None:
        """Archive the file as journald does: rename, write a new one, mark the old one."""
        self.archived += 1
        before = self.writer
        before.path.rename(self.folder / f"system@{self.archived:04}.journal")
        self.writer = JournalWriter(self.folder / "system.journal", seqnum=before.seqnum)
        before.close()

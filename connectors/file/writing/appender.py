"""Commits growing files in the driver: appends staged files, or renames a staged file to a new one.

Order: record the files that will begin, change them, make them durable, record their lengths and the micro-batch. After a
kill at any point, the next start truncates files to the recorded lengths and removes those without one; the engine then
commits the micro-batch again. Until then the uncommitted bytes are visible.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from connectors.file.writing import file_operations, ledger
from connectors.file.writing.disk_sync import make_durable, make_folder
from connectors.file.writing.ledger import OutputFile
from connectors.file.writing.part_layout import PartLayout
from connectors.file.writing.staged_files import StagedFile
from etl.api import BatchId, ComponentError, Staged, write_advice

log = logging.getLogger("sluice.sink.file")

MAX_OPEN_PARTS = 256
"""Maximum number of files that later commits may grow; beyond it the oldest are closed."""

MANY_FILES = 1000
"""Number of files in one micro-batch from which a warning is logged."""


@dataclass(slots=True)
class FileGrowth:
    """What one commit does to one file."""

    path: str
    file: OutputFile
    pieces: list[StagedFile] = field(default_factory=list)
    length: int = 0
    """Length of the file after the commit: an estimate while planning, exact later."""

    inode: int | None = None

    @property
    def is_new(self) -> bool:
        """Whether no commit has written the file, and it did not exist before."""
        return self.file.created and self.file.inode is None


class Appender:
    """Committer for one growing file, or for folders whose parts grow one after the other."""

    def __init__(self, folder: str, layout: PartLayout) -> None:
        self.layout = layout
        self.lock = threading.Lock()
        self.fatal_error = ""
        self._has_warned = False
        self.ledger = ledger.load(folder)
        self._recover()

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Append or rename all staged files, in order; after an error the files are as before."""
        with self.lock:
            if self.ledger.holds(batch):
                return
            if self.fatal_error:
                raise ComponentError(self.fatal_error)
            changes = self._plan([piece for output in staged for piece in output.detail])
            self._warn_of_many(len(changes))
            self._grow(changes)
            self.ledger.batches[batch.query] = batch.number
            self._close_old_files(changes)
            self.ledger.save()

    def _warn_of_many(self, count: int) -> None:
        """Warn, once a run, that a path has very many values."""
        if count >= MANY_FILES and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s: this micro-batch alone writes %s files, because the path has a file for each value; use a field with fewer "
                "values, or set `max_paths`",
                self.layout.path,
                f"{count:,}",
            )

    def tick(self) -> None:
        """Close parts that are old."""
        with self.lock:
            now = time.time()
            old = [path for path, file in self.ledger.files.items() if self.layout.is_old(file, now)]
            for path in old:
                del self.ledger.files[path]
            if old:
                self.ledger.save()

    def close(self) -> None:
        """Do nothing: an open part is complete, and the next run continues it."""

    def _plan(self, pieces: Sequence[StagedFile]) -> list[FileGrowth]:
        """Assign staged files to output files. New files are recorded before they are created."""
        now = time.time()
        open_: dict[str, FileGrowth] = {}
        for path, file in self._intact():
            open_[file.key] = FileGrowth(path, file, length=file.length)
        changes: list[FileGrowth] = []
        begun = False
        for piece in pieces:
            change = open_.get(piece.key)
            if change is None or not self.layout.accepts(change.file, change.length, piece, now):
                change = open_[piece.key] = self._begin(piece, now)
                begun = True
            if not change.pieces:
                changes.append(change)
            change.pieces.append(piece)
            change.length += piece.bytes
        if begun:
            self.ledger.save()
        return changes

    def _begin(self, piece: StagedFile, now: float) -> FileGrowth:
        while True:
            path = self.layout.new_path(piece.key, now, self.ledger.next())
            exists = os.path.lexists(path)
            if not (exists and self.layout.is_folder):
                break
        if exists and not os.path.isfile(path):
            raise ComponentError(f"{path} is not a regular file; end the path with a slash for a folder of parts")
        length = os.path.getsize(path) if exists else 0
        file = self.ledger.files[path] = OutputFile(piece.key, length, now, piece.shape, created=not exists)
        return FileGrowth(path, file, length=length)

    def _intact(self) -> list[tuple[str, OutputFile]]:
        """Return the open files that are as the last commit left them; warn about the others and give them up."""
        for path, file in list(self.ledger.files.items()):
            change = _external_change(path, file)
            if change:
                log.warning("%s %s since the last commit: output continues at its end, or in a new part", path, change)
                del self.ledger.files[path]
        return list(self.ledger.files.items())

    def _grow(self, changes: Sequence[FileGrowth]) -> None:
        try:
            folders = {folder for change in changes for folder in _append_pieces(change, self.layout)}
            make_durable((change.path for change in changes), folders)
        except OSError as error:
            self._roll_back(changes)
            path = error.filename or changes[-1].path
            raise ComponentError(
                f"cannot write {path}: {error.strerror}; the micro-batch was rolled back, nothing is lost or repeated: "
                f"{write_advice(error)}, and start again"
            ) from error

    def _roll_back(self, changes: Sequence[FileGrowth]) -> None:
        try:
            for change in changes:
                _undo(change)
        except OSError as error:
            self.fatal_error = f"{error}; start again: uncommitted bytes are truncated then"
            raise ComponentError(self.fatal_error) from error

    def _close_old_files(self, changes: Sequence[FileGrowth]) -> None:
        """Keep only the newest file of each path open, and a bounded number of files."""
        for change in changes:
            change.file.length, change.file.inode = change.length, change.inode
            self.ledger.files[change.path] = self.ledger.files.pop(change.path)
        newest = {file.key: path for path, file in self.ledger.files.items()}
        newest_paths = list(newest.values())[-MAX_OPEN_PARTS:]
        self.ledger.files = {path: self.ledger.files[path] for path in newest_paths}

    def _recover(self) -> None:
        files = self.ledger.files
        for path, file in list(files.items()):
            _truncate_to_committed(path, file)
            if not file.length and file.created:
                del files[path]


def _append_pieces(change: FileGrowth, layout: PartLayout) -> set[str]:
    """Append staged files to the committed part of a file; returns the folders with a new entry."""
    file, pieces = change.file, change.pieces
    folders: set[str] = set()
    if change.is_new:
        folder = os.path.dirname(change.path)
        folders = {folder, *make_folder(folder, layout.folder_mode)}
        file_operations.rename(pieces[0].path, change.path)
        pieces = pieces[1:]
    out = os.open(change.path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if change.is_new and (mode := layout.file_mode) is not None:
            os.fchmod(out, mode)
        end = os.fstat(out).st_size
        if end and file.inode is None and not file.created:
            end = _finish_line(change.path, out, end)
        for piece in pieces:
            end = file_operations.append(piece.path, piece.header if end else 0, piece.bytes, out, end)
        status = os.fstat(out)
        change.length, change.inode = status.st_size, status.st_ino
    finally:
        os.close(out)
    return folders


def _finish_line(path: str, out: int, end: int) -> int:
    """Write a newline after the last line of a file that existed before, if it has none."""
    if path.endswith((".gz", ".zst")) or os.pread(out, 1, end - 1) == b"\n":
        return end
    return end + os.pwrite(out, b"\n", end)


def _undo(change: FileGrowth) -> None:
    """Restore the file as at the last commit, and move the staged file back."""
    staged = change.pieces[0]
    if not os.path.exists(change.path):
        return
    if not change.is_new:
        os.truncate(change.path, change.file.length)
    elif os.path.exists(staged.path):
        file_operations.remove(change.path)
    else:
        os.truncate(change.path, staged.bytes)
        file_operations.rename(change.path, staged.path)


def _external_change(path: str, file: OutputFile) -> str | None:
    """Return how another program changed the file since the last commit, or None."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return "was removed" if file.inode is not None or not file.created else None
    if file.inode not in (None, status.st_ino):
        return "was replaced"
    if status.st_size != file.length:
        return f"was changed from {file.length} to {status.st_size} bytes"
    return None


def _truncate_to_committed(path: str, file: OutputFile) -> None:
    """Remove what no commit recorded, even if the file was renamed (rotated)."""
    if file.inode is None and file.created:
        file_operations.remove(path)
        return
    path = _find_path(path, file.inode)
    if path and os.path.getsize(path) > file.length:
        os.truncate(path, file.length)


def _find_path(path: str, inode: int | None) -> str:
    """Return the path of the file with this inode: its own, another name in its folder, or ""."""
    if os.path.exists(path) and inode in (None, os.stat(path).st_ino):
        return path
    folder = os.path.dirname(path) or "."
    if inode is None or not os.path.isdir(folder):
        return ""
    with os.scandir(folder) as entries:
        return next((entry.path for entry in entries if entry.inode() == inode), "")

"""The driver's side of files that grow: a commit appends what tasks staged, or renames it into a new file.

The order is: record which files are about to begin, change them, make them durable, record how long they are and that
the micro-batch is in. Killed anywhere between, the next start cuts files back to the recorded length and removes those
without one; the engine then commits the micro-batch again. Until then its bytes may be seen.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from connectors.file import copying, ledger
from connectors.file.ledger import OutputFile
from connectors.file.parts import Layout
from connectors.file.staging import StagedFile
from connectors.file.syncing import make_durable, make_folder
from etl.api import BatchId, ComponentError, Staged

log = logging.getLogger("sluice.sink.file")

MAX_OPEN_PARTS = 256
"""Files that may be grown by later commits; the oldest are closed for good beyond that."""

MANY_FILES = 1000
"""Files in one micro-batch from which on a warning says so."""


@dataclass(slots=True)
class Growth:
    """What one commit does to one file."""

    path: str
    file: OutputFile
    pieces: list[StagedFile] = field(default_factory=list)
    length: int = 0
    """How long the file will be: near enough when planned, exact when filled."""

    inode: int | None = None

    @property
    def is_new(self) -> bool:
        """True when no commit has written it, and it was not there before."""
        return self.file.created and self.file.inode is None


class Appender:
    """Committer for one growing file, or folders of parts that grow one after the other."""

    def __init__(self, folder: str, layout: Layout) -> None:
        self.layout = layout
        self.lock = threading.Lock()
        self.failure = ""
        self._has_warned = False
        self.ledger = ledger.load(folder)
        self._recover()

    def commit(self, batch: BatchId, staged: Sequence[Staged]) -> None:
        """Append or rename all of it, in order; on an error the files are as before."""
        with self.lock:
            if self.ledger.holds(batch):
                return
            if self.failure:
                raise ComponentError(self.failure)
            growths = self._plan([piece for output in staged for piece in output.detail])
            self._warn_of_many(len(growths))
            self._grow(growths)
            self.ledger.batches[batch.query] = batch.number
            self._forget(growths)
            self.ledger.save()

    def _warn_of_many(self, count: int) -> None:
        """Say, once a run, that a path has very many values."""
        if count >= MANY_FILES and not self._has_warned:
            self._has_warned = True
            log.warning(
                "%s: this micro-batch alone writes %s files, for the path has a file for each value; a field with fewer values, "
                "or `max_paths`, keeps them few",
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
        """Nothing: an open part is whole, and the next run goes on with it."""

    def _plan(self, pieces: Sequence[StagedFile]) -> list[Growth]:
        """Which piece goes to which file. Files that begin are recorded before they exist."""
        now = time.time()
        open_: dict[str, Growth] = {}
        for path, file in self._intact():
            open_[file.key] = Growth(path, file, length=file.length)
        growths: list[Growth] = []
        begun = False
        for piece in pieces:
            growth = open_.get(piece.key)
            if growth is None or not self.layout.takes(growth.file, growth.length, piece, now):
                growth = open_[piece.key] = self._begin(piece, now)
                begun = True
            if not growth.pieces:
                growths.append(growth)
            growth.pieces.append(piece)
            growth.length += piece.bytes
        if begun:
            self.ledger.save()
        return growths

    def _begin(self, piece: StagedFile, now: float) -> Growth:
        while True:
            path = self.layout.new_path(piece.key, now, self.ledger.next())
            exists = os.path.lexists(path)
            if not (exists and self.layout.is_folder):
                break
        if exists and not os.path.isfile(path):
            raise ComponentError(f"{path} is no regular file; a folder of parts is written with a slash at its end")
        length = os.path.getsize(path) if exists else 0
        file = self.ledger.files[path] = OutputFile(piece.key, length, now, piece.shape, created=not exists)
        return Growth(path, file, length=length)

    def _intact(self) -> list[tuple[str, OutputFile]]:
        """Open files that are as the last commit left them; the others are given up, with a warning."""
        for path, file in list(self.ledger.files.items()):
            change = _change(path, file)
            if change:
                log.warning("%s %s since the last commit: output goes on behind what is there, or in a new part", path, change)
                del self.ledger.files[path]
        return list(self.ledger.files.items())

    def _grow(self, growths: Sequence[Growth]) -> None:
        try:
            folders = {folder for growth in growths for folder in _fill(growth, self.layout)}
            make_durable((growth.path for growth in growths), folders)
        except OSError as error:
            self._take_back(growths)
            path = error.filename or growths[-1].path
            raise ComponentError(
                f"cannot write {path}: {error.strerror}; the micro-batch was taken back, nothing is lost or repeated: "
                "make room or mend the folder, and start again"
            ) from error

    def _take_back(self, growths: Sequence[Growth]) -> None:
        try:
            for growth in growths:
                _undo(growth)
        except OSError as error:
            self.failure = f"{error}; start again: what was not committed is cut off then"
            raise ComponentError(self.failure) from error

    def _forget(self, growths: Sequence[Growth]) -> None:
        """Keep as open only the newest file of each path, and a bounded number of them."""
        for growth in growths:
            growth.file.length, growth.file.inode = growth.length, growth.inode
            self.ledger.files[growth.path] = self.ledger.files.pop(growth.path)
        newest = {file.key: path for path, file in self.ledger.files.items()}
        kept = list(newest.values())[-MAX_OPEN_PARTS:]
        self.ledger.files = {path: self.ledger.files[path] for path in kept}

    def _recover(self) -> None:
        files = self.ledger.files
        for path, file in list(files.items()):
            _cut_back(path, file)
            if not file.length and file.created:
                del files[path]


def _fill(growth: Growth, layout: Layout) -> set[str]:
    """Put the pieces behind what is committed; returns the folders that got an entry."""
    file, pieces = growth.file, growth.pieces
    folders: set[str] = set()
    if growth.is_new:
        folder = os.path.dirname(growth.path)
        folders = {folder, *make_folder(folder, layout.folder_mode)}
        copying.rename(pieces[0].path, growth.path)
        pieces = pieces[1:]
    out = os.open(growth.path, os.O_RDWR | os.O_CLOEXEC)
    try:
        if growth.is_new and (mode := layout.file_mode) is not None:
            os.fchmod(out, mode)
        end = os.fstat(out).st_size
        if end and file.inode is None and not file.created:
            end = _finish_line(growth.path, out, end)
        for piece in pieces:
            end = copying.append(piece.path, piece.header if end else 0, piece.bytes, out, end)
        status = os.fstat(out)
        growth.length, growth.inode = status.st_size, status.st_ino
    finally:
        os.close(out)
    return folders


def _finish_line(path: str, out: int, end: int) -> int:
    """A newline behind somebody else's last line, if it has none."""
    if path.endswith((".gz", ".zst")) or os.pread(out, 1, end - 1) == b"\n":
        return end
    return end + os.pwrite(out, b"\n", end)


def _undo(growth: Growth) -> None:
    """The file as it was at the last commit, and the staged file back where it came from."""
    staged = growth.pieces[0]
    if not os.path.exists(growth.path):
        return
    if not growth.is_new:
        os.truncate(growth.path, growth.file.length)
    elif os.path.exists(staged.path):
        copying.remove(growth.path)
    else:
        os.truncate(growth.path, staged.bytes)
        copying.rename(growth.path, staged.path)


def _change(path: str, file: OutputFile) -> str | None:
    """What somebody else did to the file since the last commit, or None."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return "is gone" if file.inode is not None or not file.created else None
    if file.inode not in (None, status.st_ino):
        return "was replaced"
    if status.st_size != file.length:
        return f"was changed from {file.length} to {status.st_size} bytes"
    return None


def _cut_back(path: str, file: OutputFile) -> None:
    """Remove what no commit recorded, also when the file was renamed (rotated) since."""
    if file.inode is None and file.created:
        copying.remove(path)
        return
    path = _whereabouts(path, file.inode)
    if path and os.path.getsize(path) > file.length:
        os.truncate(path, file.length)


def _whereabouts(path: str, inode: int | None) -> str:
    """Where the file of this number is now: at its path, under another name beside it, or nowhere."""
    if os.path.exists(path) and inode in (None, os.stat(path).st_ino):
        return path
    folder = os.path.dirname(path) or "."
    if inode is None or not os.path.isdir(folder):
        return ""
    with os.scandir(folder) as entries:
        return next((entry.path for entry in entries if entry.inode() == inode), "")

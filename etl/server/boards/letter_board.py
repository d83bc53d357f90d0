"""The dead letters of pipelines in groups, for the viewers of a server: counted once for all of them, and only what is new."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from etl.api import EtlError
from etl.config.model import Pipeline
from etl.running.dead_letters.letter_files import BEGIN, FilePosition, LetterFile, letter_files
from etl.running.dead_letters.letter_filter import LetterFilter
from etl.running.dead_letters.letter_groups import LetterGroup, LetterGroups
from etl.running.dead_letters.settled_letters import SettledLetters
from etl.running.state_folders import dead_letters
from etl.spark.state.folder import StateFolder

READ_SECONDS = 1.0
"""Seconds after which a reading ends with what it has; the next look goes on there."""

WAIT_SECONDS = 5.0
"""Seconds that a viewer waits for its first answer while other letters are read."""

LAST_LETTERS = 20
"""Letters that are shown with their event."""

MAX_COUNTS = 64
"""Pipelines and filters whose counts are kept; a further one takes the place of that which was not looked at for longest."""

_CHUNK_BYTES = 4 << 20
"""Bytes of complete lines that are read at once."""


@dataclass(frozen=True)
class CountedLetters:
    """What was counted so far."""

    groups: Sequence[LetterGroup]
    last: Sequence[dict[str, Any]]
    complete: bool
    """False while letters are left that the next look counts."""


@dataclass(frozen=True)
class _FileVersion:
    """What tells whether a file has changed, and whether it is still the same file."""

    inode: int
    size: int
    modified: int
    head: str
    """A file that is removed and written again may get the inode of the old one."""

    @classmethod
    def of(cls, file: LetterFile, known: _FileVersion | None) -> _FileVersion:
        """The version of a file now. The head is read where the file has changed since the known version."""
        stat = file.path.stat()
        now = stat.st_ino, stat.st_size, stat.st_mtime_ns
        if known is not None and now == (known.inode, known.size, known.modified):
            return known
        return cls(*now, file.head())

    def continues(self, old: _FileVersion) -> bool:
        """Whether the file is the old one with no byte less."""
        return self.inode == old.inode and self.size >= old.size and (not old.head or self.head == old.head)


@dataclass
class _Count:
    """The letters of a pipeline that a filter chooses, as far as they were read."""

    version: object = None
    """What makes all counts void when it changes."""
    positions: dict[str, FilePosition] = field(default_factory=dict)
    """File → how far it was read."""
    versions: dict[str, _FileVersion] = field(default_factory=dict)
    """File → its version when it was read last."""
    unfinished: set[str] = field(default_factory=set)
    """Files that were not read to their end."""
    groups: LetterGroups = field(default_factory=LetterGroups)
    last: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=LAST_LETTERS))
    answer: CountedLetters | None = None

    def is_shortened(self, files: Sequence[LetterFile]) -> bool:
        """Whether a file that was read is gone, is another one, or has lost bytes: a run takes back what it has not committed."""
        known = self.versions
        found = {file.name: _FileVersion.of(file, known[file.name]) for file in files if file.name in known}
        return any(name not in found or not found[name].continues(old) for name, old in known.items())

    def read(self, files: Sequence[LetterFile], settled: SettledLetters, choose: LetterFilter, until: float) -> CountedLetters:
        """Count what is new until a time of the monotonic clock."""
        has_new = self.answer is None
        for file in files:
            known = self.versions.get(file.name)
            version = _FileVersion.of(file, known)
            if version == known and file.name not in self.unfinished:
                continue
            self.versions[file.name] = version
            self.unfinished.add(file.name)
            for batch, end in file.batches_from(self.positions.get(file.name, BEGIN), _CHUNK_BYTES):
                found = choose.choose(settled.keep_open(file, batch))
                has_new = has_new or found.num_rows > 0
                if found.num_rows:
                    self.groups.add(found)
                    self.last.extend(found.slice(max(0, found.num_rows - LAST_LETTERS)).to_pylist())
                self.positions[file.name] = end
                if time.monotonic() > until:
                    return self._answer(has_new, complete=False)
            self.unfinished.remove(file.name)
        return self._answer(has_new, complete=True)

    def _answer(self, has_new: bool, complete: bool) -> CountedLetters:
        if has_new or self.answer is None:  # a copy: other viewers read it while the next letters are counted
            groups = [replace(group, reasons=dict(group.reasons)) for group in self.groups.largest_first()]
            self.answer = CountedLetters(groups, list(self.last), complete)
        self.answer = replace(self.answer, complete=complete)
        return self.answer


class LetterBoard:
    """The counts of all pipelines. One is continued at a time, for `READ_SECONDS` at most."""

    def __init__(self) -> None:
        self._counts: OrderedDict[tuple[str, LetterFilter], _Count] = OrderedDict()
        self._lock = threading.Lock()

    def look(self, pipeline: Pipeline, state: StateFolder, chosen: LetterFilter) -> CountedLetters:
        """The open letters that are chosen, with what has come since the last look. While other letters are read it is the
        answer of the last look, as not complete. Raises EtlError for letters that cannot be read, and where a first look must
        wait too long for others."""
        known = self._counts.get((pipeline.name, chosen))
        answer = None if known is None else known.answer
        if not self._lock.acquire(timeout=WAIT_SECONDS if answer is None else 0.0):
            if answer is None:
                raise EtlError("the dead letters of other pipelines are being read; try later")
            return replace(answer, complete=False)
        try:
            return self._read(pipeline, state, chosen)
        except FileNotFoundError:
            return CountedLetters((), (), complete=False)  # it was removed meanwhile: all of its letters are settled
        finally:
            self._lock.release()

    def _read(self, pipeline: Pipeline, state: StateFolder, chosen: LetterFilter) -> CountedLetters:
        key, dead = (pipeline.name, chosen), state.root / "dead"
        sink = dead_letters(pipeline, state)
        files, version = letter_files(sink), (SettledLetters.version(dead), getattr(sink, "path", ""))
        count = self._counts.get(key)
        if count is None or count.version != version or count.is_shortened(files):
            count = self._counts[key] = _Count(version)
        self._counts.move_to_end(key)
        while len(self._counts) > MAX_COUNTS:
            self._counts.popitem(last=False)
        try:
            return count.read(files, SettledLetters.load(dead), chosen, time.monotonic() + READ_SECONDS)
        except EtlError:
            self._counts.pop(key, None)
            raise

    def forget(self, name: str) -> None:
        """Drop the counts of a pipeline that is removed."""
        with self._lock:
            for key in [key for key in self._counts if key[0] == name]:
                del self._counts[key]

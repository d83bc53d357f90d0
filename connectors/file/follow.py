"""What has become of the files since the last look: grown, renamed, truncated, copied, compressed, gone, or new."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from connectors.file.copies import CERTAIN, Candidates, Originals, longest_first
from connectors.file.ends import LineEnds
from connectors.file.folders import Folder
from connectors.file.identity import END, Inode, Known, Position, compare, sample
from connectors.file.losses import note_size, warn_of_loss
from connectors.file.newlines import last_line_end
from connectors.file.places import Place, matched, place, shown, warn_once, warned_no_more
from connectors.file.siblings import Siblings
from connectors.file.streams import Stream, codec_of

FORGET = 3600.0
"""Seconds for which a file that is gone is remembered, so that a copy which appears late is known."""

_FACTS = 100_000
"""Most entries of each cache."""

_checked: dict[tuple[str, Inode], tuple[tuple[Any, ...], bool]] = {}
"""Pure cache: whether a file in this version holds what was read from a known one."""

_without_newline: dict[Inode, tuple[int, int]] = {}
"""Pure cache: from where to where there is no newline, so that a long line is searched once."""


@dataclass(frozen=True, slots=True)
class Around:
    """What is in folders, each looked at once in a look, and only when a file is lost."""

    folders: Callable[[str], Folder]
    candidates: Callable[[str], Candidates]

    def successors(self, file: Known, folder: Folder) -> Iterator[Place | None]:
        """Files that may hold the text of a lost one: by their names, then by how they begin."""
        yield from (place(path) for path in folder.successors(file.path))
        yield from self.candidates(folder.path).of(file)


@dataclass(frozen=True, slots=True)
class Look:
    """One look at the file system: at which files, and whether a last line without newline counts."""

    pattern: str
    exclude: tuple[str, ...]
    ends: LineEnds
    bounded: bool = False
    most: int = 0
    """Bytes of text beyond which a file is cut back anyway."""

    def at(self, position: Position) -> Position:
        """Every file known or new, each as far as it can be read now."""
        seen, folders = matched(self.pattern, self.exclude), cache(Folder)
        files: dict[str, Known] = {}
        taken: set[Inode] = set()
        lost: list[tuple[Known, Place | None]] = []
        originals = Originals()
        for file in position.ordered():
            here = _whereabouts(file, seen, folders)
            if here is None or not _is(here, file):
                lost.append((file, here))
                continue
            taken.add(here.inode)
            note_size(file, here)
            file = replace(file, gone=None)
            files[file.name] = self._short_copy(file, here, originals) if file.copied else self._grown(file, here)
            originals.add(files[file.name], here)
        candidates = cache(lambda folder: Candidates(_unknown(seen, folders(folder), taken)))
        files |= self._heirs(lost, taken, Around(folders, candidates), originals)
        news, number = list(self._news(seen.values(), taken, files, position.next, originals)), position.next
        files |= {file.name: file for file in news}
        return Position(files, max([number, *(file.number + 1 for file in news)]))

    def _heirs(
        self, lost: Iterable[tuple[Known, Place | None]], taken: set[Inode], around: Around, originals: Originals
    ) -> dict[str, Known]:
        """Where the text of files goes on that are no longer where they were; what was lost of the others is said."""
        files: dict[str, Known] = {}
        for file, here in lost:
            heir = self._inherited(file if here is None else replace(file, dev=0, ino=0), taken, around)
            if heir is not None:
                files[file.name] = heir
                now = None if heir.gone else place(heir.path)
                if now is not None and now.inode == heir.inode:
                    originals.add(heir, now)
            if heir is None or heir.gone:
                warn_of_loss(file, here)
        return files

    def _news(
        self, seen: Iterable[Place], taken: set[Inode], files: dict[str, Known], number: int, originals: Originals
    ) -> Iterator[Known]:
        """Files not known yet, the oldest first."""
        siblings = Siblings()
        for file in files.values():
            siblings.add(file)
        fresh = [here for here in seen if here.size and here.inode not in taken]
        for here in longest_first(sorted(fresh, key=lambda one: (one.changed_ns, one.path))):
            new = self._new(here, f"{shown(os.path.basename(here.path))}#{number}", siblings, originals)
            if new is not None:
                yield new
                siblings.add(new)
                originals.add(new, here)
                note_size(new, here)
                number += 1

    def _new(self, here: Place, name: str, siblings: Siblings, originals: Originals) -> Known | None:
        """A new file, or None while it is too early to say what it is."""
        file = Known(name, here.path, *here.inode, offset=0, codec=codec_of(here.path), size=0)
        original = originals.original(here)
        if original is not None:
            return _copied(file, here, original)
        origin = siblings.origin(here.path)
        if file.codec is None:
            if origin and not (here.settled or self.bounded) and compare(here.path, None, origin) != "other":
                return None  # the copy of a copytruncate, the original not yet truncated
            grown = self._grown(file, here)
            return grown if grown.offset else None
        if not here.settled and (origin or not self.bounded):
            return None  # still being written, perhaps
        done = origin is not None and compare(here.path, file.codec, origin) != "other"
        packed = _packed(file, here)
        return packed and replace(packed, offset=0 if done else END, done=done)

    def _short_copy(self, file: Known, here: Place, originals: Originals) -> Known:
        """A short copy as it is now: read from its beginning once it has another text than the file it was copied from."""
        if here.size > file.ahead and originals.original(here) is None:
            return self._grown(replace(file, copied=False), here)
        return _remembered_copy(replace(file, path=here.path, moved=file.moved or here.path != file.path), here) or file

    def _grown(self, file: Known, here: Place) -> Known:
        """The file as far as it reaches now, under its present name."""
        file = replace(file, path=here.path, moved=file.moved or here.path != file.path)
        if file.codec:
            return file if file.done else replace(file, offset=END)
        if here.size <= file.offset:
            return file
        stream = _opened(here)
        if stream is None:
            return file
        with stream:
            final = self.bounded or (file.moved and here.settled)
            end = self.ends.charset.whole(here.size) if final else self._event_end(stream, file, here)
            if end <= file.offset:
                return file
            return replace(file, offset=end, sample=sample(stream, end), ahead=0, ahead_sample="")

    def _event_end(self, stream: Stream, file: Known, here: Place) -> int:
        """Where its last whole event ends; an event that may go on is whole when it has waited long enough."""
        end = self._line_end(stream, file, here)
        if here.quiet(self.ends.patience):
            return end
        return self.ends.reached(stream, file.offset, end, self.most)

    def _line_end(self, stream: Stream, file: Known, here: Place) -> int:
        begin, searched = _without_newline.get(here.inode, (-1, 0))
        if begin != file.offset or searched > here.size:
            searched = file.offset
        end = last_line_end(stream, searched, here.size, self.ends.charset)
        if end > searched:
            return end
        _remember(_without_newline, here.inode, (file.offset, file.offset + self.ends.charset.whole(here.size - file.offset)))
        return file.offset

    def _inherited(self, file: Known, taken: set[Inode], around: Around) -> Known | None:
        """A file that is no longer where it was: what it was copied or compressed to, or gone, or None when forgotten."""
        folder = around.folders(os.path.dirname(file.path))
        if not folder.known:
            return file  # the folder is away, not the file
        if file.copied:
            return None
        for here in around.successors(file, folder):
            if here is None or here.inode in taken or not here.size:
                continue
            heir = self._heir(file, here)
            if heir is not None:
                taken.add(here.inode)
                return heir
        now = time.time()
        gone = replace(file, gone=file.gone or now)
        return None if now - (file.gone or now) > FORGET else gone

    def _heir(self, file: Known, here: Place) -> Known | None:
        fact = (file.proof, here.version)
        if _checked.get((file.name, here.inode)) == (fact, False):
            return None
        codec = codec_of(here.path)
        match = compare(here.path, codec, file)
        if match == "other":
            _remember(_checked, (file.name, here.inode), (fact, False))
            return None
        heir = replace(file, path=here.path, dev=here.inode[0], ino=here.inode[1], moved=True, gone=None)
        if codec is None or file.codec is not None:
            return self._grown(heir, here)
        packed = _packed(replace(heir, codec=codec), here)
        done = match == "same" and file.raw == file.offset
        return packed and replace(packed, offset=file.offset if done else END, done=done)


def _copied(file: Known, here: Place, original: Known) -> Known | None:
    """A copy of a known file: one to remember, or None as long as it may still be written."""
    warn_once(here.path, f"it has the text of {original.path}, and is not read again")
    if file.codec is None and here.size < CERTAIN:
        return _remembered_copy(file, here)
    if not here.settled:
        return None
    if file.codec is not None:
        packed = _packed(file, here)
        return packed and replace(packed, done=True)
    stream = _opened(here)
    if stream is None:
        return None
    with stream:
        return replace(file, offset=here.size, begin=here.size, sample=sample(stream, here.size))


def _remembered_copy(file: Known, here: Place) -> Known | None:
    """A short copy, known by its text alone from now on: the original may go."""
    if file.copied and here.size == file.ahead:
        return file
    stream = _opened(here)
    if stream is None:
        return None
    with stream:
        return replace(file, ahead=here.size, ahead_sample=sample(stream, here.size), copied=True)


def _unknown(seen: dict[Inode, Place], around: Folder, taken: set[Inode]) -> list[Place]:
    """Files of the glob and of a folder that are none of those known."""
    beside = (place(path) for inode, path in around.by_inode.items())
    found = {here.inode: here for here in (*seen.values(), *beside) if here is not None}
    return [here for inode, here in found.items() if inode not in taken and here.size]


def _whereabouts(file: Known, seen: dict[Inode, Place], folders: Callable[[str], Folder]) -> Place | None:
    """Where the file's inode is: under its old name, in the glob, or in its old folder."""
    if file.ino == 0:
        return None
    found = seen.get(file.inode)
    if found is not None and found.path == file.path:
        return found
    here = place(file.path)
    if here is not None and here.inode == file.inode:
        return here  # another name that it got since does not make it a rotated file
    if found is not None:
        return found
    other = None if file.gone else folders(os.path.dirname(file.path)).by_inode.get(file.ino)
    here = place(other) if other else None
    return here if here is not None and here.inode == file.inode else None


def _is(here: Place, file: Known) -> bool:
    """Whether the inode still has the text that was read; true as well while it cannot be opened."""
    if here.size < file.raw:
        return False
    fact, key = (file.proof, here.version), (file.name, here.inode)
    if _checked.get(key) == (fact, True):
        return True
    stream = _opened(here)
    if stream is None:
        return True
    with stream:
        if sample(stream, file.raw) != file.proof[1]:
            return False
    _remember(_checked, key, (fact, True))
    return True


def _packed(file: Known, here: Place) -> Known | None:
    stream = _opened(here)
    if stream is None:
        return None
    with stream:
        return replace(file, size=here.size, sample=sample(stream, here.size))


def _opened(here: Place) -> Stream | None:
    """The file's raw bytes; None when it cannot be opened (with a warning) or is no longer there (the next look tells)."""
    try:
        stream = Stream(here.path)
    except FileNotFoundError:
        return None
    except OSError as error:
        warn_once(here.path, f"it cannot be opened, and is read when it can: {error.strerror}")
        return None
    warned_no_more(here.path)
    if stream.inode == here.inode:
        return stream
    stream.close()
    return None


def _remember(cache: dict[Any, Any], key: Any, value: Any) -> None:
    if len(cache) >= _FACTS:
        cache.clear()
    cache[key] = value

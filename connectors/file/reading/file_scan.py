"""Scans the files and finds what changed since the last scan: grown, renamed, truncated, copied, compressed, removed, new."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache

from connectors.file.reading.bounded_cache import BoundedCache
from connectors.file.reading.copy_detection import CopyIndex, FilesByContent, longest_first
from connectors.file.reading.file_samples import (
    has_same_text,
    match_other_file,
    open_stat,
    sample_archive,
    track_copy,
    track_short_copy,
)
from connectors.file.reading.file_stat import FileStat, path_as_text, stat_file
from connectors.file.reading.file_stream import FileStream, codec_of
from connectors.file.reading.file_warnings import record_size, warn_of_loss
from connectors.file.reading.globs import match_files
from connectors.file.reading.rotation import FolderListing, RotatedNames
from connectors.file.reading.tracked_files import END, FileOffsets, Inode, TrackedFile, compare, sample
from connectors.shared.lines.event_boundaries import LineBoundaries
from connectors.shared.lines.newlines import last_line_end

MISSING_FILE_SECONDS = 3600.0
"""How long a missing file is remembered, in seconds, so that a late copy of it is recognised."""

_without_newline: BoundedCache[Inode, tuple[int, int]] = BoundedCache()
"""Cache: range without a newline, so that a long line is searched once."""


@dataclass(frozen=True, slots=True)
class FolderContents:
    """Contents of folders, each listed once a scan, and only if a file is missing."""

    folders: Callable[[str], FolderListing]
    candidates: Callable[[str], FilesByContent]

    def successors(self, file: TrackedFile, folder: FolderListing) -> Iterator[FileStat | None]:
        """Yield files that may have the text of a lost file: by name, then by content."""
        yield from (stat_file(path) for path in folder.successors(file.path))
        yield from self.candidates(folder.path).find(file)


@dataclass(frozen=True, slots=True)
class FileScan:
    """One scan of the file system: which files, and whether a last line without newline counts."""

    pattern: str
    exclude: tuple[str, ...]
    boundaries: LineBoundaries
    bounded: bool = False
    max_bytes: int = 0
    """Bytes of text of a micro-batch; reading ahead further is useless."""

    def update_offsets(self, position: FileOffsets) -> FileOffsets:
        """Return all known and new files, each up to the offset that can be read now."""
        matched_files, folders = match_files(self.pattern, self.exclude), cache(FolderListing)
        files: dict[str, TrackedFile] = {}
        assigned: set[Inode] = set()
        lost: list[tuple[TrackedFile, FileStat | None]] = []
        copy_index = CopyIndex()
        for file in position.ordered():
            stat = _find_stat(file, matched_files, folders)
            if stat is None or not has_same_text(stat, file):
                lost.append((file, stat))
                continue
            assigned.add(stat.inode)
            record_size(file, stat)
            file = replace(file, gone=None, dev=stat.inode[0])
            files[file.name] = self._short_copy(file, stat, copy_index) if file.copied else self._read_to(file, stat)
            copy_index.add(files[file.name], stat)
        candidates = cache(lambda folder: FilesByContent(_unknown(matched_files, folders(folder), assigned)))
        files |= self._find_moved(lost, assigned, FolderContents(folders, candidates), copy_index)
        new_files, number = (
            list(self._new_files(matched_files.values(), assigned, files, position.next, copy_index)),
            position.next,
        )
        files |= {file.name: file for file in new_files}
        return FileOffsets(files, max([number, *(file.discovery_number + 1 for file in new_files)]))

    def _find_moved(
        self,
        lost: Iterable[tuple[TrackedFile, FileStat | None]],
        assigned: set[Inode],
        folder_contents: FolderContents,
        copy_index: CopyIndex,
    ) -> dict[str, TrackedFile]:
        """Find files that contain the text of missing ones; warn about text that is lost."""
        files: dict[str, TrackedFile] = {}
        for file, stat in lost:
            moved = self._find_moved_file(file if stat is None else replace(file, dev=0, ino=0), assigned, folder_contents)
            if moved is not None:
                files[file.name] = moved
                now = None if moved.gone else stat_file(moved.path)
                if now is not None and now.inode == moved.inode:
                    copy_index.add(moved, now)
            if moved is None or moved.gone:
                warn_of_loss(file, stat)
        return files

    def _new_files(
        self,
        matched_files: Iterable[FileStat],
        assigned: set[Inode],
        files: dict[str, TrackedFile],
        number: int,
        copy_index: CopyIndex,
    ) -> Iterator[TrackedFile]:
        """Yield unknown files, the oldest first."""
        rotated_names = RotatedNames()
        for file in files.values():
            rotated_names.add(file)
        unknown = [stat for stat in matched_files if stat.size and stat.inode not in assigned]
        for stat in longest_first(sorted(unknown, key=lambda one: (one.changed_ns, one.path))):
            new = self._new_file(stat, f"{path_as_text(os.path.basename(stat.path))}#{number}", rotated_names, copy_index)
            if new is not None:
                yield new
                rotated_names.add(new)
                copy_index.add(new, stat)
                record_size(new, stat)
                number += 1

    def _new_file(self, stat: FileStat, name: str, rotated_names: RotatedNames, copy_index: CopyIndex) -> TrackedFile | None:
        """Return a new file, or None while it is too early to decide what it is."""
        file = TrackedFile(name, stat.path, *stat.inode, offset=0, codec=codec_of(stat.path), size=0)
        original = copy_index.find_original(stat)
        if original is not None:
            return track_copy(file, stat, original)
        origin = rotated_names.find_origin(stat.path)
        if file.codec is None:
            if origin and not (stat.is_settled or self.bounded) and compare(stat.path, None, origin) != "other":
                return None  # copied by copytruncate; the original is not truncated yet
            grown = self._read_to(file, stat)
            return grown if grown.offset else None
        if not stat.is_settled and (origin or not self.bounded):
            return None  # possibly still being written
        done = origin is not None and compare(stat.path, file.codec, origin) != "other"
        packed = sample_archive(file, stat)
        return packed and replace(packed, offset=0 if done else END, done=done)

    def _short_copy(self, file: TrackedFile, stat: FileStat, copy_index: CopyIndex) -> TrackedFile:
        """Return a short copy as it is now; it is read from its beginning once its text differs from the original."""
        if stat.size > file.ahead and copy_index.find_original(stat) is None:
            return self._read_to(replace(file, copied=False), stat)
        return track_short_copy(replace(file, path=stat.path, moved=file.moved or stat.path != file.path), stat) or file

    def _read_to(self, file: TrackedFile, stat: FileStat) -> TrackedFile:
        """Return the file with the offset that can be read now, and its current path."""
        file = replace(file, path=stat.path, moved=file.moved or stat.path != file.path)
        if file.codec:
            return file if file.done else replace(file, offset=END)
        if stat.size <= file.offset:
            return file
        stream = open_stat(stat)
        if stream is None:
            return file
        with stream:
            final = self.bounded or (file.moved and stat.is_settled)
            end = self.boundaries.charset.whole(stat.size) if final else self._event_end(stream, file, stat)
            if end <= file.offset:
                return file
            return replace(file, offset=end, sample=sample(stream, end), ahead=0, ahead_sample="")

    def _event_end(self, stream: FileStream, file: TrackedFile, stat: FileStat) -> int:
        """Return the end of the last complete event; one that may continue is complete after waiting long enough."""
        end = self._line_end(stream, file, stat)
        if stat.is_unchanged_for(self.boundaries.idle_timeout):
            return end
        return self.boundaries.batch_end(stream, file.offset, end, self.max_bytes)

    def _line_end(self, stream: FileStream, file: TrackedFile, stat: FileStat) -> int:
        begin, searched = _without_newline.get(stat.inode, (-1, 0))
        if begin != file.offset or searched > stat.size:
            searched = file.offset
        end = last_line_end(stream, searched, stat.size, self.boundaries.charset)
        if end > searched:
            return end
        _without_newline[stat.inode] = (file.offset, file.offset + self.boundaries.charset.whole(stat.size - file.offset))
        return file.offset

    def _find_moved_file(self, file: TrackedFile, assigned: set[Inode], folder_contents: FolderContents) -> TrackedFile | None:
        """Return the file to which a missing one was moved, copied or compressed; the missing file itself; or None after it
        was missing for too long.
        """
        folder = folder_contents.folders(os.path.dirname(file.path))
        if not folder.is_readable:
            return file  # the folder is missing, not the file
        if file.copied:
            return None
        for stat in folder_contents.successors(file, folder):
            if stat is None or stat.inode in assigned or not stat.size:
                continue
            moved = self._match_moved(file, stat)
            if moved is not None:
                assigned.add(stat.inode)
                return moved
        now = time.time()
        gone = replace(file, gone=file.gone or now)
        return None if now - (file.gone or now) > MISSING_FILE_SECONDS else gone

    def _match_moved(self, file: TrackedFile, stat: FileStat) -> TrackedFile | None:
        codec, match = codec_of(stat.path), match_other_file(stat, file)
        if match == "other":
            return None
        moved = replace(file, path=stat.path, dev=stat.inode[0], ino=stat.inode[1], moved=True, gone=None)
        if codec is None or file.codec is not None:
            return self._read_to(moved, stat)
        packed = sample_archive(replace(moved, codec=codec), stat)
        done = match == "same" and file.raw == file.offset
        return packed and replace(packed, offset=file.offset if done else END, done=done)


def _unknown(matched_files: dict[Inode, FileStat], folder_contents: FolderListing, assigned: set[Inode]) -> list[FileStat]:
    """Return the files of the glob and of a folder that are not tracked."""
    beside = (stat_file(path) for inode, path in folder_contents.by_inode.items())
    found = {stat.inode: stat for stat in (*matched_files.values(), *beside) if stat is not None}
    return [stat for inode, stat in found.items() if inode not in assigned and stat.size]


def _find_stat(
    file: TrackedFile, matched_files: dict[Inode, FileStat], folders: Callable[[str], FolderListing]
) -> FileStat | None:
    """Find the file's inode: under its old name, in the glob, or in its old folder."""
    if file.ino == 0:
        return None
    found = matched_files.get(file.inode)
    if found is not None and found.path == file.path:
        return found
    stat = stat_file(file.path)
    if stat is not None and stat.inode[1] == file.ino and (found is None or stat.inode == file.inode):
        return stat  # an additional name does not mean that it was rotated; a file system mounted again may have another device
    if found is not None:
        return found
    other = None if file.gone else folders(os.path.dirname(file.path)).by_inode.get(file.ino)
    stat = stat_file(other) if other else None
    return stat if stat is not None and stat.inode == file.inode else None

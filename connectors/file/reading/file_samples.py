"""Opens files for a scan, compares their text with what was read, and samples it for the source's offset."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from connectors.file.reading.bounded_cache import BoundedCache
from connectors.file.reading.copy_detection import MIN_TRACKED_COPY_BYTES
from connectors.file.reading.file_stat import FileStat
from connectors.file.reading.file_stream import FileStream, codec_of
from connectors.file.reading.file_warnings import clear_warnings, warn_once
from connectors.file.reading.tracked_files import ContentMatch, Inode, TrackedFile, compare, sample

_match_cache: BoundedCache[tuple[str, Inode], tuple[tuple[Any, ...], bool]] = BoundedCache()
"""Cache: whether a version of a file contains what was read from a tracked one."""


def has_same_text(stat: FileStat, file: TrackedFile) -> bool:
    """Return whether the inode still has the text that was read; True also while it cannot be opened."""
    if stat.size < file.raw:
        return False
    cache_key, key = (file.sample_key, stat.version), (file.name, stat.inode)
    if _match_cache.get(key) == (cache_key, True):
        return True
    stream = open_stat(stat)
    if stream is None:
        return True
    with stream:
        if sample(stream, file.raw) != file.sample_key[1]:
            return False
    _match_cache[key] = cache_key, True
    return True


def match_other_file(stat: FileStat, file: TrackedFile) -> ContentMatch:
    """Return whether another file contains the text of a tracked one, and whether it has more after it."""
    cache_key, key = (file.sample_key, stat.version), (file.name, stat.inode)
    if _match_cache.get(key) == (cache_key, False):
        return "other"
    match = compare(stat.path, codec_of(stat.path), file)
    if match == "other":
        _match_cache[key] = cache_key, False
    return match


def sample_archive(file: TrackedFile, stat: FileStat) -> TrackedFile | None:
    """Return a compressed file with its raw size and sample; None if it cannot be opened now."""
    stream = open_stat(stat)
    if stream is None:
        return None
    with stream:
        return replace(file, size=stat.size, sample=sample(stream, stat.size))


def track_copy(file: TrackedFile, stat: FileStat, original: TrackedFile) -> TrackedFile | None:
    """Return a copy of a tracked file for tracking, or None while it may still become a file of its own."""
    warn_once(stat.path, f"it is a copy of {original.path} and is not read again")
    if file.codec is None and stat.size < MIN_TRACKED_COPY_BYTES:
        return track_short_copy(file, stat)
    if not stat.is_settled:
        return None
    if file.codec is not None:
        packed = sample_archive(file, stat)
        return packed and replace(packed, done=True)
    stream = open_stat(stat)
    if stream is None:
        return None
    with stream:
        return replace(file, offset=stat.size, begin=stat.size, sample=sample(stream, stat.size))


def track_short_copy(file: TrackedFile, stat: FileStat) -> TrackedFile | None:
    """Track a short copy by its text, so that it stays known when the original is removed."""
    if file.copied and stat.size == file.ahead:
        return file
    stream = open_stat(stat)
    if stream is None:
        return None
    with stream:
        return replace(file, ahead=stat.size, ahead_sample=sample(stream, stat.size), copied=True)


def open_stat(stat: FileStat) -> FileStream | None:
    """Open the file's raw bytes; None if that fails (with a warning) or the file no longer exists (the next scan handles it)."""
    try:
        stream = FileStream(stat.path)
    except FileNotFoundError:
        return None
    except OSError as error:
        warn_once(stat.path, f"it cannot be opened, and is read as soon as it can: {error.strerror}")
        return None
    clear_warnings(stat.path)
    if stream.inode == stat.inode:
        return stream
    stream.close()
    return None

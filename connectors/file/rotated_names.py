"""Finds the tracked file that a new file was copied or compressed from, by names that rotation gives."""

from __future__ import annotations

import os
from collections import defaultdict

from connectors.file.folder_listing import NameKey, keys_after_rotation, keys_before_rotation
from connectors.file.streams import CorruptError, Stream, codec_of
from connectors.file.tracked_files import SAMPLE, TrackedFile, digest


class RotatedNames:
    """Tracked files by the names that rotation may give them."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, NameKey], list[TrackedFile]] = defaultdict(list)

    def add(self, file: TrackedFile) -> None:
        """Add a file; compressed files, and those of which nothing was read, cannot be an origin."""
        if file.codec is None and file.offset > 0:
            for key in keys_before_rotation(file.path):
                self._by_key[os.path.dirname(file.path), key].append(file)

    def find_origin(self, path: str) -> TrackedFile | None:
        """Return the first file with the name and the beginning of the one at ``path``; fast, and usable while that is being
        written.
        """
        found = [one for key in keys_after_rotation(path) for one in self._by_key.get((os.path.dirname(path), key), ())]
        if not found:
            return None
        try:
            with Stream(path, codec_of(path)) as stream:
                head = stream.read(SAMPLE)
        except (OSError, CorruptError):
            return None
        heads = {size: digest(head[:size]) for size in {min(one.offset, SAMPLE) for one in found}}
        return next((one for one in found if one.path != path and one.sample.startswith(heads[min(one.offset, SAMPLE)])), None)

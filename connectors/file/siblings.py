"""Finding, among the files that are known, the one that a new file was copied or compressed from."""

from __future__ import annotations

import os
from collections import defaultdict

from connectors.file.folders import Key, new_keys, old_keys
from connectors.file.identity import SAMPLE, Known, digest
from connectors.file.streams import CorruptError, Stream, codec_of


class Siblings:
    """Known files by the names that rotation may give them."""

    def __init__(self) -> None:
        self._by_key: dict[tuple[str, Key], list[Known]] = defaultdict(list)

    def add(self, file: Known) -> None:
        """One more; compressed ones and those of which nothing was read are no origin of others."""
        if file.codec is None and file.offset > 0:
            for key in old_keys(file.path):
                self._by_key[os.path.dirname(file.path), key].append(file)

    def origin(self, path: str) -> Known | None:
        """The first file whose name and beginning the one at ``path`` has; cheap, and true while that is being written."""
        found = [one for key in new_keys(path) for one in self._by_key.get((os.path.dirname(path), key), ())]
        if not found:
            return None
        try:
            with Stream(path, codec_of(path)) as stream:
                head = stream.read(SAMPLE)
        except (OSError, CorruptError):
            return None
        heads = {size: digest(head[:size]) for size in {min(one.offset, SAMPLE) for one in found}}
        return next((one for one in found if one.path != path and one.sample.startswith(heads[min(one.offset, SAMPLE)])), None)

"""The names in one folder: by inode, and by what rotation may have made of a name."""

from __future__ import annotations

import os
import re
from collections import defaultdict

from connectors.file.streams import CODECS

Key = tuple[str, str]

_SHIFTING = re.compile(r"[.-]\d[\d.T:_-]*$")
_DATED = re.compile(r"[-._]\d[\d.T:_-]*(?=\.[A-Za-z]+$)")


def old_keys(path: str) -> set[Key]:
    """What a name is known by that may be rotated away."""
    name = _plain(path)
    return {("name", name), ("series", _SHIFTING.sub("", name))}


def new_keys(path: str) -> set[Key]:
    """What it may be known by afterwards: x.log → x.log.1, x.log.2.gz, x.log-20260101, x-20260101.log; x.log.1 → x.log.2."""
    name = _plain(path)
    return {("name", name), ("name", _DATED.sub("", name)), ("series", _SHIFTING.sub("", name))}


class Folder:
    """One reading of a folder. Nothing is known of it, when it cannot be listed now."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.by_inode: dict[int, str] = {}
        self.by_key: dict[Key, list[str]] = defaultdict(list)
        try:
            with os.scandir(path or ".") as entries:
                found = sorted((entry.name, inode) for entry in entries if (inode := _inode(entry)) is not None)
            self.known = True
        except OSError:
            found, self.known = [], False
        for name, inode in found:
            self.by_inode.setdefault(inode, os.path.join(path, name))
            for key in new_keys(name):
                self.by_key[key].append(os.path.join(path, name))

    def successors(self, path: str) -> list[str]:
        """Paths that ``path`` may have now, compressed ones last."""
        found = {one for key in old_keys(path) for one in self.by_key.get(key, ())} - {path}
        return sorted(found, key=lambda one: (os.path.splitext(one)[1] in CODECS, one))


def _inode(entry: os.DirEntry[str]) -> int | None:
    """Of the file itself where the entry is a link; None for a link that leads nowhere."""
    try:
        return entry.stat().st_ino if entry.is_symlink() else entry.inode()
    except OSError:
        return None


def _plain(path: str) -> str:
    stem, extension = os.path.splitext(os.path.basename(path))
    return stem if extension in CODECS else stem + extension

"""Where finished parts are put: a local folder, or a file system of `pyarrow.fs` (``s3://``, ``hdfs://``)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from connectors.file import copying
from connectors.file.syncing import make_durable, make_folder, sync

_WHOLE = {"s3", "gcs", "abfs"}
"""File systems on which a file appears when it is closed; elsewhere it is written under a hidden name first."""


class Store(Protocol):
    """A place for parts. `put` may be repeated: it replaces."""

    def exists(self, path: str) -> bool:
        """True when there is something at the path."""

    def put(self, file: str, path: str) -> None:
        """Make a local file visible at the path, whole or not at all. The local file may be gone afterwards."""

    def sync(self, paths: Sequence[str]) -> None:
        """Make durable what was put."""

    def fetch(self, path: str, file: str) -> None:
        """What is at the path as a local file, sharing its bytes where possible."""


class LocalStore:
    """A folder of this machine."""

    def __init__(self, mode: int | None = None) -> None:
        self._mode = mode
        self._folders: set[str] = set()
        """Folders that got an entry since the last `sync`."""

    def exists(self, path: str) -> bool:
        """True when there is something at the path."""
        return os.path.lexists(path)

    def put(self, file: str, path: str) -> None:
        """By renaming."""
        folder = os.path.dirname(path)
        self._folders |= {folder, *make_folder(folder, self._mode)}
        copying.rename(file, path)

    def sync(self, paths: Sequence[str]) -> None:
        """Files, and the folders that they and new folders lie in."""
        make_durable(paths, self._folders)
        self._folders.clear()

    def fetch(self, path: str, file: str) -> None:
        """A second name for it, or a copy."""
        link(path, file)


class RemoteStore:
    """A file system of `pyarrow.fs`; ``prefix`` is the URI that all paths begin with."""

    def __init__(self, prefix: str, filesystem: Any, root: str) -> None:
        self.prefix, self.filesystem, self.root = prefix, filesystem, root

    def exists(self, path: str) -> bool:
        """True when there is something at the path."""
        from pyarrow.fs import FileType

        return self.filesystem.get_file_info(self._inside(path)).type != FileType.NotFound

    def put(self, file: str, path: str) -> None:
        """By copying."""
        target = self._inside(path)
        self.filesystem.create_dir(os.path.dirname(target), recursive=True)
        whole = self.filesystem.type_name in _WHOLE
        name = target if whole else copying.hidden(target)
        try:
            with open(file, "rb") as source, self.filesystem.open_output_stream(name) as out:
                shutil.copyfileobj(source, out, 4 << 20)
            if not whole:
                self.filesystem.move(name, target)
        except BaseException:
            if not whole:
                with suppress(OSError):
                    self.filesystem.delete_file(name)
            raise

    def sync(self, paths: Sequence[str]) -> None:
        """Nothing: what such a file system has taken, it has."""

    def fetch(self, path: str, file: str) -> None:
        """By copying."""
        with self.filesystem.open_input_stream(self._inside(path)) as source, open(file, "wb") as out:
            shutil.copyfileobj(source, out, 4 << 20)

    def _inside(self, path: str) -> str:
        return self.root.rstrip("/") + path.removeprefix(self.prefix.rstrip("/"))


def link(source: str, target: str) -> None:
    """A second name for a file; a copy where the file system has no such thing."""
    try:
        os.link(source, target)
    except OSError:
        copying.copy(source, target)
        sync(target)


def store_of(prefix: str, mode: int | None = None) -> Store:
    """The store for paths that begin with this folder or URI; new folders get this mode."""
    if "://" not in prefix:
        return LocalStore(mode)
    filesystem, root = filesystem_of(prefix)
    return RemoteStore(prefix, filesystem, root)


def filesystem_of(uri: str) -> tuple[Any, str]:
    """The file system a URI names, and the path inside."""
    from pyarrow.fs import FileSystem

    filesystem, path = FileSystem.from_uri(uri)
    return filesystem, path

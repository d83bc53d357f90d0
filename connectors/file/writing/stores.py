"""Targets of finished parts: a local folder, or a file system of `pyarrow.fs` (``s3://``, ``hdfs://``)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol

from connectors.file.writing import file_operations
from connectors.file.writing.disk_sync import make_durable, make_folder, sync

_ATOMIC_FILE_SYSTEMS = {"s3", "gcs", "abfs"}
"""File systems on which a file appears when it is closed; on others it is written under a temporary name first."""


class Store(Protocol):
    """Target of parts. `put` may be repeated: it replaces."""

    def exists(self, path: str) -> bool:
        """Return whether the path exists."""

    def put(self, file: str, path: str) -> None:
        """Make a local file appear at the path, completely or not at all. The local file may be moved."""

    def sync(self, paths: Sequence[str]) -> None:
        """Make the files that were put durable."""

    def fetch(self, path: str, file: str) -> None:
        """Copy the file at the path to a local file, sharing its bytes if possible."""


class LocalStore:
    """A folder of this machine."""

    def __init__(self, mode: int | None = None) -> None:
        self._mode = mode
        self._folders: set[str] = set()
        """Folders that got an entry since the last `sync`."""

    def exists(self, path: str) -> bool:
        """Return whether the path exists."""
        return os.path.lexists(path)

    def put(self, file: str, path: str) -> None:
        """Rename the file."""
        folder = os.path.dirname(path)
        self._folders |= {folder, *make_folder(folder, self._mode)}
        file_operations.rename(file, path)

    def sync(self, paths: Sequence[str]) -> None:
        """Sync files, and the folders with new entries."""
        make_durable(paths, self._folders)
        self._folders.clear()

    def fetch(self, path: str, file: str) -> None:
        """Link or copy the file."""
        link(path, file)


class RemoteStore:
    """A file system of `pyarrow.fs`; ``prefix`` is the URI that all paths begin with."""

    def __init__(self, prefix: str, filesystem: Any, root: str) -> None:
        self.prefix, self.filesystem, self.root = prefix, filesystem, root

    def exists(self, path: str) -> bool:
        """Return whether the path exists."""
        from pyarrow.fs import FileType

        return self.filesystem.get_file_info(self._inside(path)).type != FileType.NotFound

    def put(self, file: str, path: str) -> None:
        """Copy the file."""
        target = self._inside(path)
        self.filesystem.create_dir(os.path.dirname(target), recursive=True)
        whole = self.filesystem.type_name in _ATOMIC_FILE_SYSTEMS
        name = target if whole else file_operations.temporary_path(target)
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
        """Do nothing: such a file system stores a file durably when it is closed."""

    def fetch(self, path: str, file: str) -> None:
        """Copy the file."""
        with self.filesystem.open_input_stream(self._inside(path)) as source, open(file, "wb") as out:
            shutil.copyfileobj(source, out, 4 << 20)

    def _inside(self, path: str) -> str:
        return self.root.rstrip("/") + path.removeprefix(self.prefix.rstrip("/"))


def link(source: str, target: str) -> None:
    """Create a hard link to a file; copy it if the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        file_operations.copy(source, target)
        sync(target)


def create_store(prefix: str, mode: int | None = None) -> Store:
    """Return the store for paths under this folder or URI; new folders get ``mode``."""
    if "://" not in prefix:
        return LocalStore(mode)
    filesystem, root = parse_filesystem(prefix)
    return RemoteStore(prefix, filesystem, root)


def parse_filesystem(uri: str) -> tuple[Any, str]:
    """Return the file system of a URI, and the path in it."""
    from pyarrow.fs import FileSystem

    filesystem, path = FileSystem.from_uri(uri)
    return filesystem, path

"""The folder of jobs: ``FOLDER/<namespace>/<pipeline>.yaml`` or ``.sql``, written by people, by tools and by the API."""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from etl.api import EtlError
from etl.file_modes import replace_file
from etl.server.names import SUFFIXES, PipelineName

MAX_FILE_BYTES = 1 << 20
"""Maximum bytes of a pipeline file: the largest recipe has 20 kB."""

SETTLED_SECONDS = 2.0
"""A file that was unchanged for this long when it was read is read again only when its size, inode or times are others: the times
of some file systems are whole seconds."""

_SOURCE = re.compile(rb"^sources?[ \t]*:", re.MULTILINE)
"""The option that every pipeline in YAML has."""

Language: TypeAlias = Literal["yaml", "sql"]


@dataclass(frozen=True)
class JobFile:
    """A pipeline file and its content."""

    path: Path
    content: bytes = field(repr=False)

    @cached_property
    def digest(self) -> str:
        """A hash of the content and the language."""
        return hashlib.sha256(self.path.suffix.encode() + b"\0" + self.content).hexdigest()

    @property
    def language(self) -> Language:
        """The language of the file."""
        return "sql" if self.path.suffix == ".sql" else "yaml"


@dataclass(frozen=True)
class FolderContent:
    """What the folder holds at a moment."""

    files: Mapping[PipelineName, JobFile]
    refused: Mapping[str, str]
    """Path below the folder → why this file, or this folder of a namespace, is not read."""
    unreadable: Mapping[PipelineName, Path] = field(default_factory=dict)
    """Pipelines whose file is there and cannot be read, or is too large, and that file."""
    unreadable_namespaces: frozenset[str] = frozenset()
    """Namespaces whose folder is there and cannot be read."""

    def has(self, name: PipelineName) -> bool:
        """Whether the file of a pipeline is there, or may be."""
        return name in self.files or name in self.unreadable or name.namespace in self.unreadable_namespaces


class _ReadFile(NamedTuple):
    """A file as it was read."""

    stat: tuple[int, ...]
    """Its `_stat_of` before it was read."""
    file: JobFile
    is_settled: bool
    """Whether a later change of the file changes its stat."""


class JobsFolder:
    """Reads and writes the files of the folder."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._read_files: dict[Path, _ReadFile] = {}
        """The files of the last look: of a thousand only those are read again that have changed."""

    def read(self) -> FolderContent:
        """All pipeline files. Raises EtlError if the folder cannot be read. One thread at a time may call it."""
        files: dict[PipelineName, JobFile] = {}
        refused: dict[str, str] = {}
        unreadable: dict[PipelineName, Path] = {}
        namespaces: set[str] = set()
        read_files: dict[Path, _ReadFile] = {}
        folders, outside = self._entries()
        for path in outside:
            if _is_pipeline(path):
                refused[path.name] = "it is in no namespace: put it into a folder of this folder"
        for folder in folders:
            try:
                paths = _pipeline_paths(folder)
            except OSError as error:
                refused[folder.name] = (
                    f"cannot read this folder: {error.strerror}; its pipelines that run go on, others start when it can be read"
                )
                namespaces.add(folder.name)
                continue
            for path in paths:
                relative_path = f"{folder.name}/{path.name}"
                try:
                    name = PipelineName.of_file(path)
                except EtlError as error:
                    refused[relative_path] = str(error)
                    continue
                if name in files:
                    refused[relative_path] = f"{files[name].path.name} is a pipeline of the same name"
                    continue
                try:
                    read_files[path] = _read_again(path, self._read_files.get(path))
                    files[name] = read_files[path].file
                except (EtlError, OSError) as error:
                    refused[relative_path] = error.strerror or str(error) if isinstance(error, OSError) else str(error)
                    unreadable[name] = path
        self._read_files = read_files
        return FolderContent(files, refused, unreadable, frozenset(namespaces))

    def path(self, name: PipelineName, language: Language) -> Path:
        """The file of a pipeline, in its language; that of an existing one keeps its suffix."""
        folder = self.root / name.namespace
        suffixes = (".sql",) if language == "sql" else (".yaml", ".yml")
        there = (path for suffix in suffixes if (path := folder / f"{name.name}{suffix}").exists())
        return next(there, folder / f"{name.name}{suffixes[0]}")

    def write(self, name: PipelineName, content: bytes, language: Language) -> JobFile:
        """Put a file in place, atomically, and remove one in the other language. Raises OSError."""
        path = self.path(name, language)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)
        self.remove(name, but=path)
        return JobFile(path, content)

    def remove(self, name: PipelineName, but: Path | None = None) -> None:
        """Remove the pipeline's files, except one."""
        for suffix in SUFFIXES:
            path = self.root / name.namespace / f"{name.name}{suffix}"
            if path != but:
                path.unlink(missing_ok=True)

    def _entries(self) -> tuple[list[Path], list[Path]]:
        """The folders of the namespaces, and files beside them; hidden ones are left out. Raises EtlError."""
        try:
            entries = sorted(
                (entry for entry in os.scandir(self.root) if not entry.name.startswith(".")), key=lambda one: one.name
            )
            folders = [Path(entry.path) for entry in entries if _is_folder(entry)]
        except OSError as error:
            raise EtlError(f"cannot read the folder of jobs {self.root}: {error.strerror}") from error
        return folders, [path for entry in entries if _is_pipeline_name(path := Path(entry.path)) and _is_file(entry)]


def _pipeline_paths(folder: Path) -> list[Path]:
    """Pipeline files in a folder, not below; hidden ones and tests are left out. Raises OSError."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if entry.name.endswith(SUFFIXES) and _is_file(entry))
    return [path for name in names if _is_pipeline_name(path := folder / name)]


def _is_file(entry: os.DirEntry[str]) -> bool:
    """Whether it is a file, or a link to one; False for a link that leads nowhere, such as to itself."""
    return Path(entry.path).is_file() if entry.is_symlink() else entry.is_file()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder, or a link to one; False for a link that leads nowhere, such as to itself."""
    return Path(entry.path).is_dir() if entry.is_symlink() else entry.is_dir()


def _is_pipeline_name(path: Path) -> bool:
    return path.suffix in SUFFIXES and not path.name.startswith(".") and not path.stem.endswith("_test")


def _is_pipeline(path: Path) -> bool:
    """Whether a file looks like a pipeline, and not like rules or tables that pipelines share."""
    with suppress(OSError), path.open("rb") as file:
        return path.suffix == ".sql" or _SOURCE.search(file.read(MAX_FILE_BYTES)) is not None
    return False


def _read(path: Path) -> JobFile:
    """A file. Raises EtlError for one that is too large, and OSError."""
    with path.open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    check_size(len(content))
    return JobFile(path, content)


def _read_again(path: Path, known: _ReadFile | None) -> _ReadFile:
    """A file that was read before, or not. Raises EtlError for one that is too large, and OSError."""
    stat = _stat_of(path)  # before it is read: a change in between is seen at the next look
    if known is not None and known.is_settled and known.stat == stat:
        return known
    changed_seconds = stat[-1] / 1e9
    return _ReadFile(stat, _read(path), is_settled=time.time() - changed_seconds > SETTLED_SECONDS)


def _stat_of(path: Path) -> tuple[int, ...]:
    """What is another one when a file was replaced or changed; the last number is the time of the change in nanoseconds."""
    found = os.stat(path)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def check_size(size: int) -> None:
    """Raise EtlError for a pipeline file that is too large."""
    if size > MAX_FILE_BYTES:
        raise EtlError(f"the file is larger than {MAX_FILE_BYTES >> 20} MiB, the limit for pipeline files")

"""Stores values in the cache folder between runs. Files are written atomically; a failure to read or write is not an error."""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from importlib.metadata import version as installed
from pathlib import Path
from typing import TypeVar

from etl.columns.cache_folder import code_version, folder

Value = TypeVar("Value")


def cache_file(inputs: str, code_folder: Path) -> Path:
    """The file for a value that the code in ``code_folder`` computes from ``inputs``.

    Its name is a hash of the inputs, that code, the code of this package, the versions of numpy and Python, and the machine's
    architecture.
    """
    code = code_version(Path(__file__).parent, code_folder)
    key = (code, installed("numpy"), platform.python_version(), platform.machine(), inputs)
    return folder() / "scanners" / hashlib.sha256(repr(key).encode()).hexdigest()[:32]


def folder_of(paths: Iterable[str]) -> str:
    """The folder that tells apart equal relative paths of different runs, for `cache_file`; empty if all are absolute, and if
    the folder is removed while a run goes on."""
    if all(map(os.path.isabs, paths)):
        return ""
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def load(file: Path, kind: type[Value]) -> Value | None:
    """The value in a file; None if the file is missing, truncated or holds another kind of value."""
    try:
        value = pickle.loads(file.read_bytes())
    except Exception:
        return None
    return value if isinstance(value, kind) else None


def save(file: Path, value: object) -> None:
    """Write a value atomically; on a full disk nothing is written, and the next run computes the value once more."""
    write(file, pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def write(file: Path, content: bytes) -> None:
    """Write bytes atomically, as `save` does; the cache folder may have been removed while the process runs."""
    with suppress(OSError):
        for folder_of_file in (file.parent.parent, file.parent):
            folder_of_file.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as temporary:
            try:
                temporary.write(content)
                temporary.flush()
            except OSError:
                os.unlink(temporary.name)
                raise
        os.replace(temporary.name, file)

"""Stores values in the cache folder between runs. Files are written atomically; a failure to read or write is not an error."""

from __future__ import annotations

import hashlib
import os
import pickle
import platform
import tempfile
from contextlib import suppress
from importlib.metadata import version as installed
from pathlib import Path
from typing import TypeVar

from etl.columns.cache_folder import code_version, folder

Value = TypeVar("Value")


def cache_file(of: str, made_by: Path) -> Path:
    """The file for what the code in the folder ``made_by`` computes from ``of``.

    Its name depends on that code, this package's code, and the versions of numpy, Python and the machine's architecture.
    """
    code = code_version(Path(__file__).parent, made_by)
    key = (code, installed("numpy"), platform.python_version(), platform.machine(), of)
    return folder() / "scanners" / hashlib.sha256(repr(key).encode()).hexdigest()[:32]


def load(file: Path, kind: type[Value]) -> Value | None:
    """The value in a file; None if the file is missing, truncated or holds another kind of value."""
    try:
        value = pickle.loads(file.read_bytes())
    except Exception:
        return None
    return value if isinstance(value, kind) else None


def save(file: Path, value: object) -> None:
    """Write a value atomically; on a full disk nothing is written, and the next run computes the value again."""
    write(file, pickle.dumps(value, pickle.HIGHEST_PROTOCOL))


def write(file: Path, content: bytes) -> None:
    """Write bytes atomically, as `save` does."""
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as draft:
            try:
                draft.write(content)
                draft.flush()
            except OSError:
                os.unlink(draft.name)
                raise
        os.replace(draft.name, file)

"""Values kept on disk between runs, in the cache folder: whole or not at all, and never an error."""

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

from etl.columns.cache_folder import folder, version

Kept = TypeVar("Kept")


def place(of: str) -> Path:
    """Where what was made of ``of`` is kept: depends on this package's code, numpy, Python and the machine's kind."""
    key = (version(), installed("numpy"), platform.python_version(), platform.machine(), of)
    return folder() / "scanners" / hashlib.sha256(repr(key).encode()).hexdigest()[:32]


def load(file: Path, kind: type[Kept]) -> Kept | None:
    """What was kept, or None: a file that is missing, cut or something else is no error."""
    try:
        kept = pickle.loads(file.read_bytes())
    except Exception:
        return None
    return kept if isinstance(kept, kind) else None


def save(file: Path, kept: object) -> None:
    """Whole or not at all; a full disk costs the next run some time, no more."""
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as draft:
            try:
                draft.write(pickle.dumps(kept, pickle.HIGHEST_PROTOCOL))
                draft.flush()
            except OSError:
                os.unlink(draft.name)
                raise
        os.replace(draft.name, file)

"""The folder of Spark's temporary files: the run removes it at its end, or the next run does if this one is killed.

Otherwise shuffled rows and copies of native libraries would fill the system's temporary folder.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

_PREFIX = "sluice-spark-"
_LOCK = "in-use"


@cache
def scratch() -> Path:
    """The folder of this process. Raises OSError if temporary files cannot be created."""
    _sweep()
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(folder / _LOCK, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_SH)  # held until this ends
        if os.fstat(lock).st_nlink:
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            return folder
        os.close(lock)  # another run has removed the folder between the two lines


def _sweep() -> None:
    """Remove the folders of this user's runs that have ended."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # another run removes it, or it is another user's
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)

"""Where compiled kernels and scanners are kept between runs: a folder that is surely writable and only ours."""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path


@cache
def folder() -> Path:
    """``$SLUICE_CACHE``, else the user's cache folder, else one under the temporary folder; exists, owned by this user.

    What lies there is executed and unpickled, so a folder that others may write is passed over; so is one on a full disk.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    places = [os.environ.get("SLUICE_CACHE"), os.path.join(home, "sluice"), _temporary()]
    ours = (Path(place) for place in places if place and os.path.isabs(place) and _ours(place))
    return next(ours, None) or Path(tempfile.mkdtemp(prefix="sluice-"))


@cache
def version() -> str:
    """A name for the state of the code that kernels are made of; what other code compiled or learned is of no use to it.

    That is this package, and of others the modules with kernels: numba sees when a kernel's own file changes, not when one
    does whose parts it calls. And where they lie, for numba keeps the kernels of two installations apart.
    """
    here = Path(__file__).parent
    packages = (here.parent, here.parent.parent / "connectors", here.parent.parent / "parsers")
    folders = (*(packages[0] / name for name in ("scanner", "expressions", "rules", "tables")), *packages[1:])
    others = (path.read_bytes() for folder in folders for path in sorted(folder.rglob("*.py")))
    seen = hashlib.sha256(os.fsencode(here))
    for code in (*(path.read_bytes() for path in sorted(here.rglob("*.py"))), *(code for code in others if COMPILED in code)):
        seen.update(code)
    return seen.hexdigest()[:12]


COMPILED = b"etl.columns.kernels"
"""What a module with kernels imports."""


def kernels() -> Path:
    """Where kernels of this version lie once they have been compiled."""
    return folder() / f"kernels-{version()}"


def tidy() -> None:
    """Remove what nobody has written to for a month: kernels, scanners and archives of earlier versions."""
    for old in [*folder().glob("kernels-*"), *folder().glob("scanners/*"), *folder().glob("jvm/*")]:
        with suppress(OSError):
            if old.stat().st_mtime < time.time() - KEPT_SECONDS:
                shutil.rmtree(old) if old.is_dir() else old.unlink()


KEPT_SECONDS = 30 * 86_400


def _temporary() -> str:
    return os.path.join(tempfile.gettempdir(), f"sluice-{os.getuid()}")


def _ours(place: str) -> bool:
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
        found = os.stat(place)
        has_room = shutil.disk_usage(place).free >= ROOM
    except OSError:
        return False
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return found.st_uid == os.getuid() and not shared and has_room and os.access(place, os.W_OK | os.X_OK)


ROOM = 16 << 20
"""Bytes that kernels and scanners take: numba fails where it cannot keep what it compiled."""

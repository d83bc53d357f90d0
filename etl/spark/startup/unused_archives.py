"""Removing archives of Spark's classes (`etl.spark.startup.archive`) whose environment is gone.

Each deleted virtual environment would leave 160 MB in the cache folder.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

UNUSED_SECONDS = 3600.0
"""An archive that was used this recently stays: hosts may share the folder, and each sees only environments of its own."""

_RECORD = ".environment"
"""Suffix of the file that says which environment an archive is for."""

_LOCK = ".lock"


@dataclass(frozen=True)
class JvmEnvironment:
    """The files that an archive depends on: a Java home and a folder of Spark's jars."""

    home: str
    jars: str

    def fingerprint(self) -> str:
        """A hash of the files' names, sizes and times. Raises OSError if one is missing."""
        home = Path(self.home)
        digest = hashlib.sha256()
        for file in (home / "release", home / "lib" / "server" / "libjvm.so", *sorted(Path(self.jars).iterdir())):
            stat = file.stat()
            digest.update(repr((str(file), stat.st_size, stat.st_mtime_ns)).encode())
        return digest.hexdigest()

    def record(self, key: Path) -> None:
        """Write down that the archive of this key is for this environment. The first time, remove archives of others that are
        gone."""
        path = key.with_suffix(_RECORD)
        if path.exists():
            return
        new = path.with_name(f"{path.name}-{os.getpid()}")
        new.write_text(json.dumps({"fingerprint": self.fingerprint()} | asdict(self)))
        new.replace(path)
        remove_unused(key.parent, key.name)


def remove_unused(archives: Path, own: str) -> None:
    """Remove the archives of environments that are gone or changed, but for those used lately, written now, or of the key
    ``own``. A JVM that maps one keeps its pages."""
    keys = {path.name[: path.name.index(".")].partition("-")[0] for path in archives.glob("[!.]*.*")}
    for key in keys - {own}:
        files = [path for path in archives.glob(f"{key}[-.]*") if path.suffix != _LOCK]
        with suppress(OSError):
            used = max((path.stat().st_mtime for path in files), default=time.time())
            if used > time.time() - UNUSED_SECONDS or _is_current(archives / f"{key}{_RECORD}"):
                continue
            with _locked(archives / f"{key}{_LOCK}"):
                for path in files:
                    path.unlink(missing_ok=True)


def _is_current(record: Path) -> bool:
    """Whether the environment of a record is there, unchanged; False without a record, which former versions did not write."""
    try:
        found = json.loads(record.read_text())
        return bool(JvmEnvironment(found["home"], found["jars"]).fingerprint() == found["fingerprint"])
    except (OSError, ValueError, KeyError):
        return False


@contextmanager
def _locked(lock: Path) -> Iterator[None]:
    """Hold the lock of those that write an archive. Raises OSError if another process holds it."""
    number = os.open(lock, os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(number)

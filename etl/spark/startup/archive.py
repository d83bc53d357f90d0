"""Spark's classes, parsed once and stored in an archive that later JVMs map: this saves a third of a small run's CPU time.

The JVM of the first run on a host writes the archive when it ends (JEP 350); the run does not wait for that. Nothing depends on
the archive: a JVM that cannot use it reads Spark's jars, as the first one did.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shlex
import subprocess
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from etl.columns.cache_folder import folder
from etl.spark.startup.unused_archives import JvmEnvironment

_VARIABLES = (
    "SPARK_HOME",
    "SPARK_CONF_DIR",
    "SPARK_CLASSPATH",
    "SPARK_DIST_CLASSPATH",
    "SPARK_SUBMIT_OPTS",
    "HADOOP_CONF_DIR",
    "YARN_CONF_DIR",
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
)
"""Variables that change Spark's class path or the JVM's options, and so which archive fits."""

_USER_SETTINGS = ("spark.driver.extraJavaOptions", "spark.driver.extraClassPath", "spark.driver.defaultJavaOptions")
"""Spark settings with which a run uses no archive."""

_PLAIN_PATH = re.compile(r"[\w./+@-]+")
_NO_MESSAGES = "-Xlog:cds*=off"
_BASE_SECONDS = 60
"""Maximum seconds for writing the archive of Java's own classes."""

_FREE_BYTES = 2 << 30
"""Memory that must be free to write an archive: the JVM takes up to 0.6 GB for it after its run, while other runs work."""

_NEW = ".new"
"""Suffix of an archive that is being written."""

_NONE = ".none"
"""Suffix of the file that says: start JVMs without an archive."""


@dataclass(frozen=True)
class JvmLaunch:
    """How to start a JVM: more options, words before its command, file descriptors that it inherits, the archive that it maps."""

    options: str = ""
    wrapper: tuple[str, ...] = ()
    inherited: tuple[int, ...] = ()
    archive: Path | None = None

    def on_started(self, pid: int | None) -> None:
        """Call it when the JVM runs (``pid``), or when none had to start. Disables the archive if the JVM has not mapped it."""
        for number in self.inherited:
            os.close(number)
        maps = Path(f"/proc/{pid}/maps")
        if self.archive is None or not maps.exists():
            return
        with suppress(OSError):
            mapped = maps.read_text()
            key = self.archive.with_name(self.archive.name.split("-")[0])
            if str(self.archive) in mapped:
                for used in key.parent.glob(f"{key.name}*"):
                    os.utime(used)  # else the cache folder's clean-up would remove it
            elif "libjvm" in mapped:
                _disable(key)
                self.archive.unlink()


def plan_launch(home: Path, jars: Path, user_settings: Mapping[str, str]) -> JvmLaunch:
    """How to start a JVM of this Java home with Spark's jars: with the archive, so that it writes one, or without."""
    if any(name in user_settings for name in _USER_SETTINGS):
        return JvmLaunch()
    try:
        archives = folder() / "jvm"
        if not _PLAIN_PATH.fullmatch(str(archives)):  # Spark splits options at blanks, Java this one at colons
            return JvmLaunch()
        archives.mkdir(mode=0o700, exist_ok=True)
        environment = JvmEnvironment(str(home), str(jars))
        key = archives / _key(environment)
        environment.record(key)
        archive = _find_archive(home, key)
        if archive is not None:
            return _mapping_launch(home, key, archive)
        is_disabled = key.with_suffix(_NONE).exists() or _free_bytes() < _FREE_BYTES
        return JvmLaunch() if is_disabled else _writing_launch(home, key)
    except (OSError, subprocess.SubprocessError):
        return JvmLaunch()


def _key(environment: JvmEnvironment) -> str:
    """A name for all that an archive depends on."""
    variables = [os.environ.get(name) for name in _VARIABLES]
    return hashlib.sha256(repr((variables, environment.fingerprint())).encode()).hexdigest()[:16]


def _find_archive(home: Path, key: Path) -> Path | None:
    """The archive. Its name ends with its checksum, because Java 17 crashes with a truncated one; a damaged one is removed."""
    for archive in key.parent.glob(f"{key.name}-*.jsa"):
        with suppress(OSError):
            if archive.stem.endswith(_checksum([*_base_archive(home, key), archive])):
                return archive
        archive.unlink(missing_ok=True)
    return None


def _checksum(files: Iterable[Path]) -> str:
    """The CRC-32 of files, which takes a tenth of a second for an archive."""
    crc = 0
    part = memoryview(bytearray(1 << 20))
    for path in files:
        with path.open("rb", buffering=0) as file:
            while size := file.readinto(part):
                crc = zlib.crc32(part[:size], crc)
    return f"{crc:08x}"


def _mapping_launch(home: Path, key: Path, archive: Path) -> JvmLaunch:
    files = ":".join(map(str, (*_base_archive(home, key), archive)))
    options = f"-XX:SharedArchiveFile={files} -Xshare:auto -XX:ArchiveRelocationMode=0 {_NO_MESSAGES}"
    return JvmLaunch(options, archive=archive)


def _free_bytes() -> int:
    """Bytes of memory that are free on this machine or in this container."""
    found = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    free = int(found[1]) << 10 if found else 0
    with suppress(OSError, ValueError):  # no container, or one without a limit
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{what}").read_text()) for what in ("max", "current"))
        free = min(free, limit - used)
    return free


def _writing_launch(home: Path, key: Path) -> JvmLaunch:
    lock = os.open(key.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until the JVM ends
        new = key.with_suffix(_NEW)
        new.unlink(missing_ok=True)
        base = _base_archive(home, key)
        for file in base:
            _write_base_archive(home, file)
    except (OSError, subprocess.SubprocessError):
        os.close(lock)
        return JvmLaunch()
    options = [*(f"-XX:SharedArchiveFile={file}" for file in base), f"-XX:ArchiveClassesAtExit={new}", _NO_MESSAGES]
    publisher = shlex.join([sys.executable, "-m", __name__, *map(str, [key, *base])])
    return JvmLaunch(" ".join(options), ("/bin/sh", "-c", f'"$@"; exec {publisher} $?', "sh"), (lock,))


def _base_archive(home: Path, key: Path) -> tuple[Path, ...]:
    """The archive of Java's own classes, if the runtime contains none."""
    is_contained = any((home / "lib" / "server").glob("classes*.jsa"))
    return () if is_contained else (key.with_suffix(".base"),)


def _write_base_archive(home: Path, file: Path) -> None:
    """Write it, which takes a second of CPU time."""
    command = [str(home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={file}", "-XX:+UseSerialGC"]
    subprocess.run(command, check=True, capture_output=True, timeout=_BASE_SECONDS)


def _publish(key: Path, base: Sequence[Path], status: int) -> None:
    """Publish the archive that a JVM wrote before it ended with ``status``. If it wrote none, or failed while it wrote one,
    later JVMs do not try again.
    """
    new = key.with_suffix(_NEW)
    if status == 0 and new.is_file():
        with new.open("rb") as file:
            os.fsync(file)
        new.replace(key.with_name(f"{key.name}-{_checksum([*base, new])}.jsa"))
    elif status == 0 or new.is_file():
        new.unlink(missing_ok=True)
        _disable(key)


def _disable(key: Path) -> None:
    """Start later JVMs without an archive, until the cache folder's clean-up removes this file."""
    key.with_suffix(_NONE).touch()


if __name__ == "__main__":
    _publish(Path(sys.argv[1]), [Path(word) for word in sys.argv[2:-1]], int(sys.argv[-1]))
    sys.exit(int(sys.argv[-1]))  # else PySpark would take a failed JVM for a running one, and wait for ever

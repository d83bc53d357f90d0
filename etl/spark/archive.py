"""Spark's classes, parsed once and kept as an archive that later JVMs map: a third of a small run's CPU.

The first run on a host asks its JVM to write the archive when it ends (JEP 350). The run does not wait for that. Nothing
depends on the archive: a JVM that cannot use it reads Spark's jars, as the first did.
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

_HEEDED = (
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

_OWN = ("spark.driver.extraJavaOptions", "spark.driver.extraClassPath", "spark.driver.defaultJavaOptions")
_PLAIN = re.compile(r"[\w./+@-]+")
_SILENT = "-Xlog:cds*=off"
_BASE_SECONDS = 60
_ROOM = 2 << 30
"""Bytes that must be free to write one: the JVM that does takes up to 0.6 GB when its run is over, beside what runs then."""
_NEW = ".new"
_NONE = ".none"


@dataclass(frozen=True)
class Launch:
    """How to start a JVM: its further options, words in front of its command, what it holds open, the archive it maps."""

    options: str = ""
    wrapper: tuple[str, ...] = ()
    held: tuple[int, ...] = ()
    archive: Path | None = None

    def ended(self, pid: int | None) -> None:
        """The JVM is there, or none had to start. Gives the archive up if the JVM did not take it."""
        for number in self.held:
            os.close(number)
        maps = Path(f"/proc/{pid}/maps")
        if self.archive is None or not maps.exists():
            return
        with suppress(OSError):
            mapped = maps.read_text()
            key = self.archive.with_name(self.archive.name.split("-")[0])
            if str(self.archive) in mapped:
                for used in key.parent.glob(f"{key.name}*"):
                    os.utime(used)  # else it would be tidied away
            elif "libjvm" in mapped:
                _give_up(key)
                self.archive.unlink()


def launch(home: Path, jars: Path, settings: Mapping[str, str]) -> Launch:
    """How a JVM of this Java home with Spark's jars is to start: with the archive, writing it, or as if there were none."""
    if any(name in settings for name in _OWN):
        return Launch()
    try:
        place = folder() / "jvm"
        if not _PLAIN.fullmatch(str(place)):  # Spark splits options at blanks, Java this one at colons
            return Launch()
        place.mkdir(mode=0o700, exist_ok=True)
        key = place / _key(home, jars)
        archive = _whole(home, key)
        if archive is not None:
            return _mapping(home, key, archive)
        return Launch() if key.with_suffix(_NONE).exists() or _free() < _ROOM else _writing(home, key)
    except (OSError, subprocess.SubprocessError):
        return Launch()


def _key(home: Path, jars: Path) -> str:
    """A name for all that an archive depends on."""
    seen = hashlib.sha256(repr([os.environ.get(name) for name in _HEEDED]).encode())
    for file in (home / "release", home / "lib" / "server" / "libjvm.so", *sorted(jars.iterdir())):
        found = file.stat()
        seen.update(repr((str(file), found.st_size, found.st_mtime_ns)).encode())
    return seen.hexdigest()[:16]


def _whole(home: Path, key: Path) -> Path | None:
    """The archive, whose name ends with its sum: Java 17 is killed by one that is cut. Another is removed."""
    for archive in key.parent.glob(f"{key.name}-*.jsa"):
        with suppress(OSError):
            if archive.stem.endswith(_sum([*_base(home, key), archive])):
                return archive
        archive.unlink(missing_ok=True)
    return None


def _sum(files: Iterable[Path]) -> str:
    """The CRC of files: a tenth of a second for an archive."""
    found = 0
    part = memoryview(bytearray(1 << 20))
    for path in files:
        with path.open("rb", buffering=0) as file:
            while size := file.readinto(part):
                found = zlib.crc32(part[:size], found)
    return f"{found:08x}"


def _mapping(home: Path, key: Path, archive: Path) -> Launch:
    files = ":".join(map(str, (*_base(home, key), archive)))
    return Launch(f"-XX:SharedArchiveFile={files} -Xshare:auto -XX:ArchiveRelocationMode=0 {_SILENT}", archive=archive)


def _free() -> int:
    """Bytes of memory that this machine, or the container, can still give."""
    found = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    free = int(found[1]) << 10 if found else 0
    with suppress(OSError, ValueError):  # no container, or one without a limit
        limit, used = (int(Path(f"/sys/fs/cgroup/memory.{what}").read_text()) for what in ("max", "current"))
        free = min(free, limit - used)
    return free


def _writing(home: Path, key: Path) -> Launch:
    lock = os.open(key.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # until the JVM ends
        new = key.with_suffix(_NEW)
        new.unlink(missing_ok=True)
        base = _base(home, key)
        for file in base:
            _write_base(home, file)
    except (OSError, subprocess.SubprocessError):
        os.close(lock)
        return Launch()
    options = [*(f"-XX:SharedArchiveFile={file}" for file in base), f"-XX:ArchiveClassesAtExit={new}", _SILENT]
    keeper = shlex.join([sys.executable, "-m", "etl.spark.archive", *map(str, [key, *base])])
    return Launch(" ".join(options), ("/bin/sh", "-c", f'"$@"; exec {keeper} $?', "sh"), (lock,))


def _base(home: Path, key: Path) -> tuple[Path, ...]:
    """The archive of Java's own classes, where the runtime does not bring one."""
    brought = any((home / "lib" / "server").glob("classes*.jsa"))
    return () if brought else (key.with_suffix(".base"),)


def _write_base(home: Path, file: Path) -> None:
    """A second of CPU, once."""
    command = [str(home / "bin" / "java"), "-Xshare:dump", f"-XX:SharedArchiveFile={file}", "-XX:+UseSerialGC"]
    subprocess.run(command, check=True, capture_output=True, timeout=_BASE_SECONDS)


def _keep(key: Path, base: Sequence[Path], status: int) -> None:
    """Put in its place what a JVM wrote before it ended. One that failed over it, or wrote nothing, was the last to try."""
    new = key.with_suffix(_NEW)
    if status == 0 and new.is_file():
        with new.open("rb") as file:
            os.fsync(file)
        new.replace(key.with_name(f"{key.name}-{_sum([*base, new])}.jsa"))
    elif status == 0 or new.is_file():
        new.unlink(missing_ok=True)
        _give_up(key)


def _give_up(key: Path) -> None:
    """Later JVMs start without an archive, until this note is tidied away."""
    key.with_suffix(_NONE).touch()


if __name__ == "__main__":
    _keep(Path(sys.argv[1]), [Path(word) for word in sys.argv[2:-1]], int(sys.argv[-1]))
    sys.exit(int(sys.argv[-1]))  # PySpark waits for ever for a JVM that ended and seems to be well

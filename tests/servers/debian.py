"""Programs from Debian packages, unpacked into the cache: no root, nothing installed, the machine's own sources and mirrors."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from servers import cache
from servers.cache import MissingError
from servers.command import CommandError, find, run

HINT = "install the server itself, or run on a system with Debian packages"
NEEDED = re.compile(r"^Inst (?P<name>\S+) .*?\((?P<version>\S+) ", re.MULTILINE)
"""A package that the machine lacks, in the output of ``apt-get --simulate install``."""
LATE = ["-o", "Acquire::Retries=3", "-o", "APT::Sandbox::User=", "-o", "Debug::NoLocking=1"]


@dataclass(frozen=True)
class Unpacked:
    """A tree of unpacked packages."""

    root: Path

    def environment(self) -> dict[str, str]:
        """Folders of libraries that the machine lacks."""
        folders = sorted({str(path.parent) for path in self.root.glob("**/lib*/**/*.so.*") if path.parent.parent.name == "lib"})
        given = os.environ.get("LD_LIBRARY_PATH")
        return {"LD_LIBRARY_PATH": ":".join([*folders, *([given] if given else [])])}

    def find(self, pattern: str) -> Path:
        """Return the only path that matches."""
        if found := sorted(self.root.glob(pattern)):
            return found[-1]
        raise MissingError(f"{self.root} has no {pattern}: its packages hold something else than expected; {HINT}")


def unpacked(name: str, packages: Sequence[str]) -> Unpacked:
    """Return a folder of the cache with these packages and their missing dependencies."""
    digest = hashlib.sha256(" ".join([*packages, _release()]).encode()).hexdigest()[:8]
    return Unpacked(cache.fetch_once(f"{name}-debian-{digest}", lambda part: _fill(packages, part)))


def _release() -> str:
    """Return the system's name and version: libraries of another system do not fit."""
    path = Path("/etc/os-release")
    return path.read_text("utf-8") if path.exists() else ""


def _fill(packages: Sequence[str], part: Path) -> None:
    find("apt-get", HINT)
    find("dpkg", HINT)
    files = part / "packages"
    files.mkdir()
    try:
        _download(packages, files, [])
    except CommandError as error:
        cache.print_progress(
            f"the machine's package lists do not do ({str(error).splitlines()[-1].strip()}): fetching lists of our own"
        )
        _download_with_own_lists(packages, files)
    for package in sorted(files.glob("*.deb")):
        run("dpkg", "-x", package, part)
    shutil.rmtree(files)
    _inward(part)


def _download_with_own_lists(packages: Sequence[str], files: Path) -> None:
    private = _private(files)
    try:
        run("apt-get", *LATE, *private, "update", seconds=600)
        _download(packages, files, private)
    except CommandError as error:
        raise MissingError(f"the Debian packages {', '.join(packages)} could not be fetched: {error}") from error


def _private(files: Path) -> list[str]:
    """Return options for package lists that need no root."""
    for folder in ("lists/partial", "cache/archives/partial"):
        (files / folder).mkdir(parents=True, exist_ok=True)
    places = {"Dir::State::lists": files / "lists", "Dir::Cache": files / "cache"}
    return [word for name, path in places.items() for word in ("-o", f"{name}={path}")]


def _download(packages: Sequence[str], files: Path, options: Sequence[str]) -> None:
    simulated = run("apt-get", *options, "--simulate", "--no-install-recommends", "install", *packages)
    needed = {match["name"]: match["version"] for match in NEEDED.finditer(simulated)}
    requested = {**dict.fromkeys(packages), **needed}  # one that is installed already is unpacked too
    words = [f"{name}={version}" if version else name for name, version in requested.items()]
    run("apt-get", *LATE, *options, "download", *words, cwd=files, seconds=600)


def _inward(root: Path) -> None:
    """Redirect links to absolute paths into the tree, if it has their targets."""
    for link in root.glob("**/*"):
        if link.is_symlink() and os.readlink(link).startswith("/"):
            inside = root / os.readlink(link)[1:]
            if inside.exists():
                link.unlink()
                link.symlink_to(os.path.relpath(inside, link.parent))

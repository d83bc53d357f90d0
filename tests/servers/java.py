"""Command lines of servers that run on Java."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from servers import jdk
from servers.cache import MissingError
from servers.command import find, run
from servers.maven import HINT, OLDEST

UNVERIFIED = ("-XX:+UnlockDiagnosticVMOptions", "-XX:-BytecodeVerificationRemote")
"""The classes are those of published jars: to verify their bytecode takes a tenth to a fifth of the CPU time of a start."""


def java(*words: object, heap: str, path: str, release: int = OLDEST) -> list[object]:
    """A main class, the last word, with options before it: one collector thread and a fixed limit of memory.

    Servers start with the quick compiler alone, which halves the work of a start; ``SLUICE_SERVERS_JIT=full`` lets them reach
    their full speed, for measurements, and ``SLUICE_SERVERS_HEAP=700m`` gives each so much memory, for long trials.
    """
    *options, main = words
    heap = os.environ.get("SLUICE_SERVERS_HEAP", heap)
    compiler = [] if os.environ.get("SLUICE_SERVERS_JIT") == "full" else ["-XX:TieredStopAtLevel=1"]
    program = runtime() if release == OLDEST else jdk.of(release, "java")
    return [program, f"-Xms{heap}", f"-Xmx{heap}", "-XX:+UseSerialGC", *UNVERIFIED, *compiler, *options, "-cp", path, main]


@cache
def runtime() -> str:
    """Return a Java of version 17 or later."""
    found = find("java", HINT)
    release = re.search(r'version "(\d+)', run(found, "-version", seconds=60))
    if release is None or int(release[1]) < OLDEST:
        raise MissingError(f"{found} is older than Java {OLDEST}; {HINT}")
    return found


def class_path(*parts: Path | str) -> str:
    """Return folders and ``lib/*`` patterns as a class path."""
    return ":".join(map(str, parts))

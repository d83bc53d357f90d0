"""Java of a version that the machine's own may lack: the first that is new enough, on the path or where Debian puts JDKs."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path

from servers.cache import MissingError
from servers.command import CommandError, run

FOLDERS = Path("/usr/lib/jvm")
VERSION = re.compile(r'(?:version "|javac )(\d+)')


@cache
def of(release: int, name: str) -> str:
    """The path of ``java`` or ``javac``."""
    on_path = [Path(folder) for folder in os.get_exec_path()]
    for folder in [*on_path, *sorted(FOLDERS.glob("*/bin"))]:
        if (folder / name).is_file() and version(folder / name) >= release:
            return str(folder / name)
    raise MissingError(f"no {name} of {release} or later is on the path or in {FOLDERS}; install a JDK of {release} or later")


def version(program: Path) -> int:
    """What a program says it is; 0 where it says nothing."""
    try:
        found = VERSION.search(run(program, "-version", seconds=60))
    except CommandError:
        return 0
    return int(found[1]) if found else 0

"""Running the commands that fetch and prepare: with a limit of time, and with their last words when they fail."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from servers.cache import MissingError

LAST_LINES = 15


class CommandError(Exception):
    """A command ended with a failure; the message holds its last lines."""


def run(*words: object, seconds: float = 300, **options: Any) -> str:
    """Standard output and error of a command, together."""
    line = [str(word) for word in words]
    try:
        done = subprocess.run(
            line, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds, encoding="utf-8", errors="replace", **options
        )
    except subprocess.TimeoutExpired as error:
        raise CommandError(f"{line[0]} did not end within {seconds:.0f} s") from error
    if done.returncode:
        raise CommandError(f"{Path(line[0]).name} ended with {done.returncode}:\n{tail(done.stdout)}")
    return str(done.stdout)


def tail(text: str) -> str:
    """The last lines of a text, indented."""
    return "\n".join(f"  {line}" for line in text.strip().splitlines()[-LAST_LINES:])


def find(name: str, hint: str) -> str:
    """The path of a command, or ``MissingError`` with the hint."""
    if path := shutil.which(name):
        return path
    raise MissingError(f"the command {name!r} is not here; {hint}")

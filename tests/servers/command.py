"""Runs commands that fetch and prepare, with a time limit, and with their last lines in the error."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

from servers.cache import MissingError

LAST_LINES = 15


class CommandError(Exception):
    """A command failed; the message has its last lines."""


def run(*words: object, seconds: float = 300, **options: Any) -> str:
    """Return standard output and error of a command, together."""
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
    """Return the last lines of a text, indented."""
    return "\n".join(f"  {line}" for line in text.strip().splitlines()[-LAST_LINES:])


def find(name: str, hint: str) -> str:
    """Return the path of a command. Raises MissingError with the hint."""
    if path := shutil.which(name):
        return path
    raise MissingError(f"the command {name!r} is not here; {hint}")

"""The grok library: a folder of definitions that all sets share and one of its own for each set, a file a system.

The library is a drop-in for logstash-patterns-core (Elastic and contributors, Apache License 2.0): each pattern accepts and
captures what its definition there does, the weaknesses of the original included, so that a pipeline written for Logstash
reads the same here. The expressions are our own, written from the formats' documentation and from what the originals match and
capture, which ``tests/parsers/acceptance/test_grok_library_cases.py`` compares.

A line is a name, blanks and an expression; ``#`` begins a comment line. A name that begins with ``_`` is a part of
other definitions, not meant for users.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

_NAME = re.compile(r"\w+")
FOLDER = Path(__file__).parent
"""Where the files of definitions lie, and those of examples."""

SETS = ("ecs-v1", "legacy")

MAX_BYTES = 10_000_000
"""A pattern file that is larger is none."""


@cache
def load(pattern_set: str) -> Mapping[str, str]:
    """Name → expression of a set, ``ecs-v1`` or ``legacy``."""
    found: dict[str, str] = {}
    for definitions in load_files(pattern_set).values():
        found |= definitions
    return MappingProxyType(found)


@cache
def load_files(pattern_set: str) -> Mapping[str, Mapping[str, str]]:
    """File, such as ``httpd`` → name → expression, of a set and what it shares with others."""
    found: dict[str, dict[str, str]] = {}
    for folder in ("shared", pattern_set):
        for path in sorted((FOLDER / folder).glob("*.grok")):
            found.setdefault(path.stem, {}).update(read(path))
    return MappingProxyType(found)


def read(path: Path) -> dict[str, str]:
    """The definitions of a file. Raises OSError, or ValueError for what is not a pattern file."""
    with path.open("rb") as file:
        data = file.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise ValueError(f"it has more than {MAX_BYTES} bytes")
    return parse(data.decode("utf-8"))


def parse(text: str) -> dict[str, str]:
    """The definitions in a text; the last of a name counts. Raises ValueError that names the line."""
    found = {}
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, *expression = line.strip().split(maxsplit=1)
        if not expression or not _NAME.fullmatch(name):
            raise ValueError(f"line {number} is not a name, a blank and an expression: {line[:60]!r}")
        found[name] = expression[0]
    return found
